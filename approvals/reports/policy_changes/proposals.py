"""Rules of the policy that a card suggests: to let calls like it run, to ask always, or to forbid them."""

import json
import posixpath
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.utils.translation import gettext

from approvals.actions import grant_scopes
from approvals.evaluation import workers
from approvals.evaluation.calls import beneath, root_of, sha256
from approvals.evaluation.judge import content, current
from approvals.evaluation.own_verbs import OWN_VERBS
from approvals.models import Action, Policy, Tier
from approvals.policy.rules import FILE_READERS, FILE_WRITERS
from approvals.questions import own_questions
from approvals.reports.policy_changes import scopes
from approvals.reports.policy_changes.scopes import Scope

LISTS = (Tier.LOW, Tier.HIGH, Tier.FORBIDDEN)  # those of a policy that a card offers
MAX_STEPS = 4


@dataclass(frozen=True)
class Proposal:
    """A rule, and what it covers in words."""

    rule: str
    covers: str
    never: str = ""


def scope_of(action: Action) -> Scope:
    """Return what the policy that judged the action applies to: its environment if that has its own, else the team."""
    name = action.workspace.environment.name if action.workspace else None
    found = scopes.find(action.team, name)
    return found if found and found.own else Scope(action.team)


def has_proposals(action: Action) -> bool:
    return action.tool not in (*OWN_VERBS, *own_questions.TOOLS)


def of_action(action: Action) -> dict[str, list[Proposal]]:
    """Return {list of a policy: the rules for it}; a list for which there are none is left out."""
    if not has_proposals(action):
        return {}
    restricting = [each for each in _restricting(action) if _decides(each.rule, action)]
    found = {Tier.LOW: _allowing(action), Tier.HIGH: restricting, Tier.FORBIDDEN: restricting}
    return {tier.value: proposals for tier, proposals in found.items() if proposals}


def _allowing(action: Action) -> list[Proposal]:
    """Return the rules of the scopes that a grant on this card can have, each with what it covers as a rule.

    A grant is bound to the agent, the workspace and what the card names; a rule of the policy is not.
    """
    where = gettext("Every agent and every workspace that this policy applies to, until somebody removes the rule.")
    found = dict.fromkeys(rule for scope in grant_scopes.of_action(action) for rule in scope.rules)
    return [Proposal(rule, _covered(rule), where) for rule in found]


def _covered(rule: str) -> str:
    """Return in words what a rule lets run, no narrower than what it matches."""
    tool, _, rest = rule.partition("(")
    spec = rest.removesuffix(")")
    if tool == "Bash":
        if not spec.endswith("*"):
            return gettext("The command “%(words)s”, alone or as a part of a longer one") % {"words": spec}
        says = gettext(
            "Each command that starts with “%(name)s”, alone or as a part of a longer one, with any targets and any"
            " options known to be harmless"
        )
        return says % {"name": spec.rstrip("* ")}
    if tool == "WebFetch":
        return gettext("Every page of %(host)s") % {"host": spec.removeprefix("domain:")}
    if tool in FILE_WRITERS:
        says = gettext(
            "Editing, creating and, in a patch, deleting any file that fits %(pattern)s, except protected ones"
        )
        return says % {"pattern": spec or "**"}
    if tool in FILE_READERS:
        return gettext("Reading any file that fits %(pattern)s, except secrets") % {"pattern": spec or "**"}
    return gettext("Every call of %(tool)s, with any arguments") % {"tool": tool}


def _restricting(action: Action) -> list[Proposal]:
    call = content(action)
    if action.tool == "Bash":
        steps = [step for step in current(action).commands if isinstance(step, dict)][:MAX_STEPS]
        found = [proposal for step in steps for proposal in _of_command(step)]
    elif action.tool in FILE_WRITERS + FILE_READERS:
        found = _of_file(action, call)
    elif action.tool == "WebFetch":
        host = urlsplit(str(call["arguments"].get("url", ""))).hostname
        says = gettext("Pages of %(host)s and of hosts below it") % {"host": host}
        found = [Proposal(f"WebFetch(domain:{host})", says)] if host else []
    else:
        found = [Proposal(action.tool, gettext("Each call of %(tool)s") % {"tool": action.tool})]
    return list({each.rule: each for each in found}.values())


def _of_command(step: dict) -> list[Proposal]:
    """Return rules for a simple command: its program with the sub-command, and exactly its words."""
    words = [str(word) for word in step.get("words") or ()]
    if not words or not all(grant_scopes.PLAIN_WORD.fullmatch(word) for word in words[:2]):
        return []
    named = words[:2] if len(words) > 1 and not words[1].startswith("-") else words[:1]
    name = " ".join(named)
    says = gettext("Each command that starts with “%(name)s”, also behind sudo, bash -c and find -exec")
    found = [Proposal(f"Bash({name} *)", says % {"name": name})]
    if all(grant_scopes.PLAIN_WORD.fullmatch(word) for word in words) and len(words) > len(named):
        found.insert(
            0,
            Proposal(
                f"Bash({' '.join(words)})",
                gettext("These words and no others, also behind sudo, bash -c and find -exec"),
            ),
        )
    return found


def _of_file(action: Action, call: dict) -> list[Proposal]:
    path = call["arguments"].get("file_path") or call["arguments"].get("path")
    if not isinstance(path, str) or action.workspace is None:
        return []
    root = root_of(action.workspace)
    inside = beneath(path, call["cwd"] or root, root)
    if not inside or not grant_scopes.PLAIN_FOLDER.fullmatch(inside):
        return []
    kind = "Edit" if action.tool in FILE_WRITERS else "Read"
    folder = posixpath.dirname(inside)
    found = [Proposal(f"{kind}(/{inside})", gettext("This file"))]
    if folder:
        found.append(Proposal(f"{kind}(/{folder}/**)", gettext("Each file under %(folder)s") % {"folder": folder}))
    return found


def _decides(rule: str, action: Action) -> bool:
    """Return whether a policy of this rule alone would ask about the action because of it."""
    text = f'mode = "irreversible"\nhigh = [{json.dumps(rule, ensure_ascii=False)}]\n'
    call, workspace = content(action), action.workspace
    world = {"cwd": call["cwd"], "workspace_root": root_of(workspace) if workspace else None}
    try:
        if "problem" in workers.check(text):
            return False
        policy = Policy(text=text, sha256=sha256(text.encode()))
        verdict = workers.classify(call["tool"], call["arguments"], policy=policy, **world)
    except workers.Late:
        return False
    return verdict.rule == rule or any(step.get("rule") == rule for step in verdict.commands)
