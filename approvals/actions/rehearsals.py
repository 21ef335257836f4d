"""Try a pending command on a copy of the workspace's files, show what it did, and apply exactly that."""

import logging

from approvals.actions.expiry import end_if_due
from approvals.actions.transitions import answer_conflict, record
from approvals.evaluation.broker_program import program_of
from approvals.evaluation.calls import BROKER, root_of
from approvals.evaluation.judge import content, current
from approvals.evaluation.wrapping import can_wrap
from approvals.models import Action, Status
from dashboard.models import Team
from dashboard.problems import Problem, conflict, not_allowed
from workspaces.models import Rehearsal, RehearsalStatus
from workspaces.services import rehearsals

logger = logging.getLogger("handrail.gate")
NOT_A_COMMAND = "Only a command that Handrail itself runs can be tried first."
NOT_WRAPPED = "A command can be tried first in a connected folder only while its calls are held."
AGAIN = "The workspace's files have changed since it was tried. Try it again."


def why_not(action: Action) -> str:
    """Return why the action cannot be tried first, whatever its status; "" if it can."""
    if not is_command(action):
        return NOT_A_COMMAND
    if action.mode == BROKER:
        return rehearsals.why_not(action.workspace)
    call = content(action)
    # The agent's own call is answered with another one, which prints what was recorded.
    if not can_wrap(action.tool, call["arguments"], call["cwd"], action.workspace):
        return NOT_WRAPPED
    return rehearsals.why_not(action.workspace)


def is_command(action: Action) -> bool:
    """Return whether it is a command that Handrail runs, or that a hook waits to run in a connected folder."""
    if action.tool != "Bash" or action.workspace is None:
        return False
    is_hooks = action.hold_until is not None and action.workspace.environment.capabilities.own_folder
    return action.mode == BROKER or is_hooks


def start(action: Action, *, caller) -> Action:
    """Ask the runner to try the current revision; an earlier rehearsal of the action is forgotten.

    Reviewers may, and the agent that submitted the action. Problem 403; 409 with code cannot_rehearse, rehearsing
    (one at a time), or that of an action that is no longer pending.
    """
    mine = not caller.is_person and caller.agent.pk == action.agent_id
    if not (mine or (caller.is_person and caller.can("decide", action.team_id))):
        raise not_allowed("Only a reviewer, or the agent that asked, can try this first.")
    if reason := why_not(action):
        raise conflict(reason, code="cannot_rehearse")
    with Team.objects.turn(action.team_id):
        action = Action.objects.get(pk=action.pk)
        if end_if_due(action).status == Status.PENDING:
            _start(action, caller.actor)
            return action
    raise answer_conflict(action)


def start_by_rule(action: Action, *, by):
    """Try a new action first because its policy says so. Where that is not possible now, a person still can."""
    if why_not(action):
        return
    try:
        with Team.objects.turn(action.team_id):
            _start(action, by)
    except Problem as problem:
        logger.info("%s is not tried by itself: %s", action, problem.detail)


def _start(action: Action, by):
    if before := action.rehearsal:
        if before.status == RehearsalStatus.RUNNING:
            raise conflict("This is being tried just now.", code="rehearsing")
        rehearsals.drop(before)
    call = content(action)
    argv, timeout_s = program_of(call)
    action.rehearsal = rehearsals.submit(action.workspace, argv=argv, cwd=call["cwd"], timeout_s=timeout_s, by=by)
    action.save(update_fields=["rehearsal"])
    record(action, "action.rehearsed", by)


def why_not_applied(action: Action) -> str:
    """Return why the result of its rehearsal cannot be applied; "" if it can while the files stay as they are."""
    rehearsal = action.rehearsal
    if rehearsal is None:
        return "This was not tried. Try it first."
    if rehearsal.status == RehearsalStatus.RUNNING:
        return "This is being tried just now."
    if rehearsal.status == RehearsalStatus.OUTDATED:
        return AGAIN
    if rehearsal.status != RehearsalStatus.DONE:
        return "Its try did not end, so there is no result to apply."
    return obstacle_of(action)


def obstacle_of(action: Action) -> str:
    """Return why what an ended rehearsal left cannot be applied; "" if it can.

    A try is held to the medium envelope, so it leaves as they are the files that only an approval opens.
    """
    if action.rehearsal.obstacle:
        return action.rehearsal.obstacle
    path = next(iter(_opened_paths(action)), "")
    return (
        f"The command changes {path}, which a try leaves as it is. Approve the command itself to run it."
        if path
        else ""
    )


def _opened_paths(action: Action) -> list[str]:
    """Return the paths on its card that change only when it is approved."""
    root, found = root_of(action.workspace), []
    for step in current(action).commands:
        opens = step.get("opens") or {}
        shown = opens.get("read", ())
        found += opens.get("replaces", ())
        found += [path for path in opens.get("removes", ()) if path in shown or not f"{path}/".startswith(f"{root}/")]
    # What is below a folder is mostly open to a try: then it says itself whether it met what is not.
    met = any(entry["kind"] == "write" for entry in action.rehearsal.tried or ())
    return [path for path in found if met or "/**" not in path or not path.startswith(f"{root}/")]


def tree_to_apply(action: Action, shown=None) -> str:
    """Return the id of the tree that an approval applies; `shown` is the id of the rehearsal that the person saw.

    Problem 409 if there is none (code no_rehearsal), if it is another one (rehearsal_changed), or if the files are no
    longer those that it was made from (rehearsal_outdated).
    """
    rehearsal = action.rehearsal
    if shown is not None and (rehearsal is None or str(rehearsal.pk) != str(shown)):
        raise conflict("This was tried again since you loaded it. Your answer was not used.", code="rehearsal_changed")
    if reason := why_not_applied(action):
        outdated = rehearsal is not None and rehearsal.status == RehearsalStatus.OUTDATED
        raise conflict(reason, code="rehearsal_outdated" if outdated else "no_rehearsal")
    if not rehearsals.is_current(rehearsal):
        with Team.objects.turn(action.team_id):
            rehearsals.mark_outdated(rehearsal)
            record(action, "action.rehearsal_outdated", rehearsals.RUNNER)
        raise conflict(AGAIN, code="rehearsal_outdated")
    return rehearsal.tree_hex


def outcome_of(rehearsal: Rehearsal) -> dict:
    """Return the outcome of an action whose rehearsal was applied: the recorded one, as `record_carried` takes it."""
    return {
        "ok": rehearsal.exit_status == 0,
        "reason": rehearsal.note,
        "exit_status": rehearsal.exit_status,
        "tail": rehearsal.output,
        "output_bytes": rehearsal.output_bytes,
        "blocked": rehearsal.tried,
        "applied": "rehearsal",
    }


def as_json(action: Action) -> dict | None:
    rehearsal = action.rehearsal
    if rehearsal is None:
        return None
    same = ("id", "status", "exit_status", "output", "output_bytes", "changes", "change_count", "tried", "note")
    told = {name: getattr(rehearsal, name) for name in (*same, "created_at", "ended_at")}
    return told | {"not_applied_because": why_not_applied(action), "not_shown": list(rehearsals.NOT_SHOWN)}
