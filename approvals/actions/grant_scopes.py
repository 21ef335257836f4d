"""What a grant can cover: the scopes that a call offers, and whether a later call falls under one.

A scope is built on rules of the policy: they must allow the call on the card, and each later call. A rule alone is
wider than what a person saw, so a scope also pins what the card named: reasons, targets, scripts, folder, and how much
can be undone.
"""

import posixpath
import re
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from django.utils.translation import gettext

from approvals.actions.bound_files import Bound
from approvals.evaluation import calls, workers
from approvals.evaluation.calls import Call, beneath, root_of
from approvals.evaluation.judge import PolicyResult, content, covered, current
from approvals.evaluation.own_verbs import OWN_VERBS
from approvals.models import Action, Tier
from approvals.policy.deeds import loses_data, moves_money
from approvals.policy.rules import FILE_WRITERS
from approvals.policy.verdict import UNDO
from approvals.questions import own_questions

EXACT, PROGRAM, HOST, TOOL, FOLDER, TREE, SESSION = "exact", "program", "host", "tool", "folder", "tree", "session"
NAMES = (EXACT, PROGRAM, HOST, TOOL, FOLDER, TREE, SESSION)
PLAIN_FOLDER = re.compile(r"[A-Za-z0-9_./ -]*")  # no character in it is special in a rule
PLAIN_WORD = re.compile(r"[A-Za-z0-9_./+@-]{1,60}")
PLAIN_HOST = re.compile(r"[a-z0-9.-]{1,253}")
STAYS_HERE = {"read", "write", "delete", "run", "start", "local"}  # kinds of effects that reach nothing outside
MAX_TARGETS = 100  # characters of targets in a label


class Scope(NamedTuple):
    """A choice on a card: its name, what it covers and what it does not, in words, and the entry of the grant."""

    name: str
    label: str
    never: str
    entry: dict
    rules: tuple[str, ...] = ()  # of a policy that would allow the same without an end


def has_scopes(action: Action) -> bool:
    """Return whether a grant can be given on this card."""
    own = action.tool in (*OWN_VERBS, *own_questions.TOOLS)
    return action.tier == Tier.HIGH and action.takes_one and not own


def of_action(action: Action) -> list[Scope]:
    """Return the scopes that a grant given on this card can have, the narrowest first; [] if it can have none."""
    if not has_scopes(action):
        return []
    call = content(action)
    found = [_exact(action, call), _program(action, call), _host(action, call), _tool(action, call)]
    return [scope for scope in (*found, *_folders(action, call), _session(action)) if scope]


def covers(entry: dict, call: Call, found: PolicyResult, bound: Bound, allows: Callable = covered) -> bool:
    """Return whether an entry of a grant covers a call. `allows` asks whether rules of the policy would allow it."""
    if "call" in entry:
        return _is_the_same(entry, call, found, bound)
    if "session" in entry:
        return _is_of_the_session(entry, call, found)
    if "like" in entry:
        return _is_alike(entry, call, found, bound, allows)
    if "rule" in entry:
        return _is_such_an_edit(entry, call, found, allows)
    return False  # "reads": secret_reads.py; it allows no call


# Exactly this call ---------------------------------------------------------------------------------------------------


def _exact(action: Action, call: dict) -> Scope:
    exactly = exactly_this(call["tool"], call["arguments"], call["cwd"], action.workspace, call.get("files", ()))
    entry = {"call": exactly, "why": current(action).reasons, "of": action.number}
    return Scope(EXACT, gettext("Exactly this call again"), "", entry)


def exactly_this(tool: str, arguments: dict, cwd: str | None, workspace, files) -> str:
    """Return a hash of the call and the files that it runs, without what only explains it."""
    ignored = calls.IGNORED_ARGUMENTS.get(tool, ())
    kept = {name: value for name, value in arguments.items() if name not in ignored}
    return calls.sha256(calls.canonical(tool, kept, cwd, workspace, files))


def _is_the_same(entry: dict, call: Call, found: PolicyResult, bound: Bound) -> bool:
    """Return whether the call and its bound files are byte for byte the same and need approval for the same reasons."""
    same = exactly_this(call.tool, call.arguments, call.cwd, call.workspace, bound.canonical) == entry["call"]
    return same and bound.complete and found.reasons == entry["why"]


# A program, a host, an MCP tool: as rules of the policy ---------------------------------------------------------------


def _program(action: Action, call: dict) -> Scope | None:
    """Return a scope for the program and its sub-command, with the same targets and any options that a rule takes."""
    steps = _steps(action)
    words = steps[0].get("words") or [] if len(steps) == 1 and action.tool == "Bash" and action.workspace else []
    if len(words) < 2 or words[1].startswith("-") or not all(PLAIN_WORD.fullmatch(word) for word in words[:2]):
        return None
    name = " ".join(words[:2])
    rules = (f"Bash({name} *)",)
    targets = ", ".join(_targets(steps))
    label = gettext("%(name)s, whatever its options") % {"name": f"{name}{_where(action, call)}"}
    never = gettext("Nothing that it names beyond this card; no other command in the same line.")
    if targets:
        never = gettext("Nothing but %(targets)s; no other command in the same line.") % {
            "targets": targets[:MAX_TARGETS]
        }
    return _alike(action, call, PROGRAM, label, never, rules)


def _host(action: Action, call: dict) -> Scope | None:
    """Return a scope for other pages of the host that is fetched, with the same options."""
    steps = _steps(action)
    if len(steps) != 1 or steps[0].get("what") != "network":
        return None
    words = steps[0].get("words") or []
    address = call["arguments"].get("url") if action.tool == "WebFetch" else words[-1] if words else None
    parts = _split(address) if isinstance(address, str) else None
    if parts is None:
        return None
    if action.tool == "WebFetch":
        rules = (f"WebFetch(domain:{parts.hostname})",)
    elif action.tool == "Bash" and all(PLAIN_WORD.fullmatch(word) for word in words[:-1]):
        rules = (f"Bash({' '.join(words[:-1])} {parts.scheme}://{parts.netloc}/*)",)
    else:
        return None
    never = gettext("No host below it, no data sent to it, no other host that it leads to.")
    host = parts.hostname if action.tool == "WebFetch" else parts.netloc.lower()
    return _alike(action, call, HOST, gettext("Fetching pages of %(host)s") % {"host": host}, never, rules)


def _split(address: str):
    """Return the parts of a plain address with a host, else None."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018  raises for a port that is none
    except ValueError:
        return None
    is_plain = parts.scheme in ("http", "https") and PLAIN_HOST.fullmatch(parts.hostname or "")
    return parts if is_plain and "@" not in parts.netloc else None


def _tool(action: Action, call: dict) -> Scope | None:
    """Return a scope for an MCP tool with any arguments; none where money moves or data is lost."""
    if not action.tool.startswith("mcp__") or not PLAIN_WORD.fullmatch(action.tool):
        return None
    _, server, named = action.tool.split("__", 2) if action.tool.count("__") >= 2 else ("", "", "")
    if not named or moves_money(named) or loses_data(named, call["arguments"]):
        return None
    label = gettext("%(tool)s of the MCP server %(server)s, with any arguments") % {"tool": named, "server": server}
    never = gettext("No other tool of %(server)s.") % {"server": server}
    return _alike(action, call, TOOL, label, never, (action.tool,))


def _alike(action: Action, call: dict, name: str, label: str, never: str, rules: tuple[str, ...]) -> Scope | None:
    """Return a scope of calls like this one, if these rules of a policy allow this one."""
    if not allows_by_text(rules, call["tool"], call["arguments"], call["cwd"], action.workspace):
        return None
    revision = current(action)
    entry = {"like": call["tool"], "rules": list(rules), "asked_by": revision.rule, "why": revision.reasons}
    entry |= {"targets": _targets(revision.commands), "undo": revision.undo, "files": call.get("files", [])}
    entry |= {"of": action.number} | ({"cwd": call["cwd"]} if call["tool"] == "Bash" else {})
    return Scope(name, label, never, entry, rules)


def _is_alike(entry: dict, call: Call, found: PolicyResult, bound: Bound, allows: Callable) -> bool:
    if call.tool != entry["like"] or call.cwd != entry.get("cwd", call.cwd) or found.rule != entry["asked_by"]:
        return False
    if not set(found.reasons) <= set(entry["why"]) or UNDO.index(found.undo) > UNDO.index(entry["undo"]):
        return False
    if call.tool.startswith("mcp__") and _is_grave(call):
        return False
    targets = _targets(found.commands)
    # Without any, `npm install` is another call than `npm install lodash`: it installs what the project names.
    if not set(targets) <= set(entry["targets"]) or bool(targets) != bool(entry["targets"]):
        return False
    if not bound.complete or bound.canonical != entry["files"]:
        return False
    return allows(entry["rules"], call.tool, call.arguments, call.cwd, call.workspace)


def _is_grave(call: Call) -> bool:
    named = call.tool.split("__", 2)[-1]
    return moves_money(named) or loses_data(named, call.arguments)


def _steps(action: Action) -> list[dict]:
    return [step for step in current(action).commands if isinstance(step, dict)]


def _targets(steps: list) -> list[str]:
    return sorted({str(name) for step in steps for name in step.get("targets") or ()})


def _where(action: Action, call: dict) -> str:
    """Return " in web-shop", with the folder if it is not the workspace's own; the folder outside of any."""
    if action.workspace is None:
        return f" in {call['cwd']}" if call["cwd"] else ""
    moved = call["cwd"] not in (None, root_of(action.workspace))
    return f" in {action.workspace.key}" + (f", {call['cwd']}" if moved else "")


# Edits in a folder ---------------------------------------------------------------------------------------------------


def _folders(action: Action, call: dict) -> list[Scope]:
    """Return scopes for edits in the folder of the file, and in the outermost folder that it is in."""
    path = call["arguments"].get("file_path")
    if action.workspace is None or action.tool not in FILE_WRITERS or action.undo != "yes" or not isinstance(path, str):
        return []
    inside = beneath(path, call["cwd"] or root_of(action.workspace), root_of(action.workspace))
    if not inside:
        return []
    folder = "/" + posixpath.dirname(inside)
    outermost = "/" + folder.split("/")[1]
    wanted = [(FOLDER, folder)] + ([(TREE, outermost)] if outermost != folder else [])
    return [found for name, each in wanted if (found := _edits(action, call, name, each))]


def _edits(action: Action, call: dict, name: str, folder: str) -> Scope | None:
    rule = f"Edit({folder.rstrip('/')}/**)"
    # Judged by the text alone, so that a card is not delayed; symlinks are resolved at each use.
    allowed = allows_by_text((rule,), call["tool"], call["arguments"], call["cwd"], action.workspace)
    if not PLAIN_FOLDER.fullmatch(folder) or not allowed:
        return None
    entry = {"rule": rule, "asked_by": current(action).rule}
    label = gettext("Editing and creating files in this workspace, except protected ones")
    if folder != "/":
        label = gettext("Editing and creating files under %(folder)s, except protected ones") % {"folder": folder}
    never = gettext("Nothing through a link that leads out, and nothing that git or an agent reads.")
    return Scope(name, label, never, entry, (rule,))


def _is_such_an_edit(entry: dict, call: Call, found: PolicyResult, allows: Callable) -> bool:
    """Return whether the call is an edit that the entry's rule allows and that the same policy rule asks about.

    A patch that deletes or moves a file is none, though the rule allows it.
    """
    if any(step.get("what") == "delete" for step in found.commands):
        return False
    if call.tool not in FILE_WRITERS or found.rule != entry["asked_by"] or found.undo != "yes":
        return False
    return allows([entry["rule"]], call.tool, call.arguments, call.cwd, call.workspace)


def allows_by_text(rules, tool: str, arguments: dict, cwd: str | None, workspace) -> bool:
    """Return whether a policy of these rules alone would allow the call, without looking at the workspace's files."""
    root = root_of(workspace) if workspace else None
    world = {"cwd": cwd or root or "/", "workspace_root": root}
    try:
        return workers.classify(tool, arguments, rules=list(rules), **world).tier == Tier.LOW
    except workers.Late:
        return False


# A session -----------------------------------------------------------------------------------------------------------


def _session(action: Action) -> Scope | None:
    """Return a scope for all of the session that a snapshot can undo, if that holds of this call."""
    revision = current(action)
    if not action.session or action.workspace is None or not _stays_and_can_be_undone(action.undo, revision.commands):
        return None
    never = gettext("Nothing that reaches another machine, installs, pushes or leaves the workspace.")
    label = gettext("Everything of this session that a snapshot can undo")
    return Scope(SESSION, label, never, {"session": action.session, "asked_by": revision.rule, "of": action.number})


def _is_of_the_session(entry: dict, call: Call, found: PolicyResult) -> bool:
    # What another rule of the policy names was asked about on purpose.
    same = call.session == entry["session"] and call.workspace is not None and found.rule == entry["asked_by"]
    return same and _stays_and_can_be_undone(found.undo, found.commands)


def _stays_and_can_be_undone(undo: str, steps: list) -> bool:
    return undo == "yes" and bool(steps) and all(step.get("what") in STAYS_HERE for step in steps)
