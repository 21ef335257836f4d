"""Rules for which changes to a workspace an agent needs a person's approval.

Each function that changes a workspace calls `require` with the requesting actor. If one does not, the change is still
refused: `operations.submit` checks each operation, and `lifecycle.record` the event of each change. An actor with an
`approval` carries out an approved action.
"""

import posixpath

from dashboard.door.entering import refuse_to_agents
from dashboard.models import Actor
from dashboard.problems import Problem, not_allowed

# The files that hold the approval hook. No agent writes or deletes them through Handrail, and no restore changes those
# of a connected folder.
HOOK_FILES = (b".claude/settings.local.json", b".claude/settings.json")
# Kinds of operations for which an agent needs approval in every workspace.
ALWAYS = {"allow_host", "pull_request", "push", "take_back", "trash"}
# Kinds that need no approval even in a connected folder, because they only read or save its files.
UNASKED = {"archive", "bundle", "promote", "prove", "snapshot"}
# Events of those kinds, and of what an agent may do there without approval: pin a snapshot, end what it started.
UNASKED_EVENTS = {
    "snapshot.taken",
    "snapshot.pinned",
    "workspace.proven",
    "workspace.proof_failed",
    "command.cancelled",
    "workspace.operation_stopped",
    "notes.kept",
    "notes.given",
    "lesson.proposed",
}


class AskFirst(Problem):
    """A person has to allow this verb of approvals.evaluation.own_verbs first. Unhandled, it is Problem 403."""

    def __init__(self, workspace, verb: str, wish: dict):
        super().__init__(403, "A person has to allow this first.")
        self.workspace, self.verb, self.wish = workspace, verb, wish


def is_unapproved(by: Actor) -> bool:
    """Return True for an agent that does not carry out what was approved."""
    return by.type == "agent" and not by.approval


def must_ask(workspace, by: Actor) -> bool:
    """Return True for an agent without an approval in a connected folder, which has no isolation."""
    return is_unapproved(by) and workspace.environment.capabilities.own_folder


def asks_nobody(workspace, by: Actor) -> bool:
    """Return True for an agent without an approval where the driver alone makes it ask nobody."""
    return is_unapproved(by) and not must_ask(workspace, by)


def require(workspace, verb: str, wish: dict, *, by: Actor, always=False):
    """Raise AskFirst if a person has to allow the verb; `always` applies to every driver."""
    if must_ask(workspace, by) or (always and is_unapproved(by)):
        raise AskFirst(workspace, verb, wish)


def check_operation(workspace, kind: str, *, by: Actor):
    """Problem 403 for an operation that an agent submits without the approval it needs."""
    if not is_unapproved(by):
        return
    name = kind
    if name in ALWAYS or (workspace.environment.capabilities.own_folder and name not in UNASKED):
        raise not_allowed("A person has to allow this first.")


def check_event(workspace, verb: str, *, by: Actor):
    """Problem 403 for a change by an agent in a connected folder without the approval it needs."""
    if verb not in UNASKED_EVENTS and must_ask(workspace, by):
        raise not_allowed("A person has to allow this first.")


def require_for_others(workspace, verb: str, wish: dict, *, began_by: dict, by: Actor):
    """Like `require`, except for an actor that ends what it started itself.

    What others started, an agent does not end while it is interrupted or the team is stopped.
    """
    if not began(began_by, by):
        refuse_to_agents()
        require(workspace, verb, wish, by=by)


def began(began_by: dict, by: Actor) -> bool:
    """Return whether it is this actor that began something. `began_by`: the actor as the row has it."""
    return (began_by.get("type"), began_by.get("id")) == (by.type, by.id)


def is_hook_file(path: bytes) -> bool:
    """Return True for a path in a workspace that is at, above or below a hook file."""
    inside = posixpath.normpath(path.removeprefix(b"/")).lower()
    return inside == b"." or any(_is_above(inside, file) or _is_above(file, inside) for file in HOOK_FILES)


def _is_above(path: bytes, other: bytes) -> bool:
    return (other + b"/").startswith(path + b"/")


def check_file(path: bytes, *, by: Actor):
    """Problem 403 if an agent would write or delete a hook file, even with an approval."""
    if (by.type == "agent" or by.approval) and is_hook_file(path):
        raise not_allowed("Agents can't change files of Handrail's hook, or folders with them.")
