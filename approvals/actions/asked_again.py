"""A held command was refused protected files: when the agent asks for it again, a person can let it change them.

Which files a program changes is often known once it ran: `git reset`, a branch, a build. The same command then becomes
a card that names what was refused, and its approval opens that.
"""

import posixpath
import re
from dataclasses import replace
from datetime import timedelta

from approvals.evaluation.calls import BROKER, Call, root_of
from approvals.evaluation.context.symlinks import home_of
from approvals.evaluation.judge import MAX_TITLE, PolicyResult, content, with_all
from approvals.models import Action, Status, Tier
from approvals.policy.paths import MANIFEST, World
from approvals.policy.verdict import reason
from dashboard.database import clock
from workspaces.models import Workspace

MAX_EARLIER = 20  # calls with refusals that are compared with this one
MAX_PATHS = 20
WITHIN = timedelta(days=1)
ENDED = (Status.FAILED, Status.SUCCEEDED)  # a command can go on after a refusal, and exit with 0
HOW = "Ask for the same call again, and a person can let it change {paths}."
HOW_OF_GIT = "Ask for it again with -f, as git is at the other branch now, and a person can let it change {paths}."
SWITCHES = re.compile(r"(\bgit (?:checkout|switch)) (?:-f|--force)(?= )")


def refused_files(blocked: list[dict], workspace: Workspace, folders: list[str]) -> list[str]:
    """Return the protected and secret files of the workspace that a program was refused to write, as absolute paths.

    `folders`: those that its words may be relative to.
    """
    root = root_of(workspace)
    world = World(root=root, home=home_of(workspace))
    found = {}
    for what in (entry["what"] for entry in blocked if entry["kind"] == "write"):
        for folder in folders:
            path = posixpath.normpath(posixpath.join(folder, what))
            place = world.place(path, shell=True)
            if place.inside and (place.protected or place.secret) and path != f"{root}/{MANIFEST}":
                found[path] = None
    return list(found)[:MAX_PATHS]


def how_to_ask(command: str, paths: list[str]) -> str:
    """Return the sentence that tells an agent how a person can allow what was refused."""
    return (HOW_OF_GIT if re.search(r"\bgit (?:checkout|switch) ", command) else HOW).format(paths=", ".join(paths))


def folders_of(commands: list[dict], cwd: str) -> list[str]:
    """Return the folders in which the parts of a command run, as far as they are certain."""
    return list(dict.fromkeys(step.get("cwd") or cwd for step in commands)) or [cwd]


def with_refused(call: Call, found: PolicyResult, agent) -> PolicyResult:
    """Return the verdict on a call; if it was refused such files before, a person decides, and may open them."""
    if call.tool != "Bash" or call.mode != BROKER or found.tier == Tier.FORBIDDEN or not found.commands:
        return found
    if found.tier == Tier.LOW or (found.is_allowed and found.envelope is None):
        return found  # it only reads, or nothing holds it
    paths = _refused_before(call, agent, folders_of(found.commands, call.cwd))
    if not paths:
        return found
    shown = ", ".join(posixpath.relpath(path, root_of(call.workspace)) for path in paths)
    first, *others = found.commands
    opens = first.get("opens") or {}
    opens = opens | {"replaces": list(dict.fromkeys([*opens.get("replaces", ()), *paths]))}
    why = reason("high", f"it was refused to change {shown} before, which an approval lets it do")
    return replace(
        found,
        tier=Tier.HIGH.value if found.is_allowed else found.tier,
        reasons=[why, *(found.reasons if found.needs_approval else [])],
        title=f"{found.title}, changing {shown}"[:MAX_TITLE],
        commands=[first | {"opens": opens}, *others],
        envelope=None,
    )


def _refused_before(call: Call, agent, folders: list[str]) -> list[str]:
    earlier = Action.objects.filter(
        agent=agent, workspace=call.workspace, tool=call.tool, status__in=ENDED, ended_at__gte=clock.now() - WITHIN
    ).exclude(blocked=[])
    found = {}
    for action in with_all(earlier.order_by("-number"))[:MAX_EARLIER]:
        before = content(action)
        if before["cwd"] == call.cwd and _is_like(call.arguments.get("command"), before["arguments"].get("command")):
            found |= dict.fromkeys(refused_files(action.blocked, call.workspace, folders))
    return list(found)[:MAX_PATHS]


def _is_like(command, earlier) -> bool:
    return command == earlier or SWITCHES.sub(r"\1", str(command)) == earlier
