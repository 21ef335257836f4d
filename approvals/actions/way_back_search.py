"""The search for the way back from what an action does outside, and what is kept of it with the action.

The runner looks when the action begins to need approval (approvals.broker.way_back), and again once it is over.
"""

from datetime import timedelta

from django.db import transaction

from approvals.actions.transitions import record
from approvals.evaluation.judge import current
from approvals.evidence import ways_back
from approvals.models import Action, Status, WayBack, WayBackState
from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces import operations

KIND = "way_back"  # of the operation
TOOL = "Handrail.TakeBack"
BEFORE, AFTER = "before", "after"
HANDRAIL = Actor.system("Handrail")
RAN = (Status.SUCCEEDED, Status.FAILED, Status.UNCERTAIN)
REPORTED_WITHIN = timedelta(minutes=1)  # of the end of a call, by the gate
NOT_SAID = "The gate did not say what the call made, so there is nothing to name to the tool that takes it back."
MAX_WORDS = 500
MOST = 100  # rows that one sweep handles


def of(action: Action) -> WayBack | None:
    """Return the action's way back; None if none was looked for."""
    return getattr(action, "way_back", None)


def is_sought(action: Action, revision=None) -> bool:
    """Return whether Handrail looks for a way back from the action's current revision."""
    revision = revision or current(action)
    return action.workspace_id is not None and ways_back.is_sought(action.tool, revision.commands)


def is_looked_for(action: Action) -> bool:
    """Return whether the runner is still asked for the way back from the action's current revision."""
    row = of(action)
    return row is not None and row.state == WayBackState.LOOKING and row.digest == action.digest


def is_unused(action: Action) -> bool:
    """Return whether the action waits for an answer, or nothing has used its approval."""
    return action.status == Status.PENDING or (action.status == Status.APPROVED and not action.consumed_at)


def request(action: Action, revision=None):
    """Ask the runner for the way back, in the transaction in which the action begins to need approval."""
    if not is_sought(action, revision) or action.workspace.runner_id is None:
        return
    fields = {"digest": action.digest, "state": WayBackState.LOOKING, "title": "", "why_not": "", "call": None}
    WayBack.objects.update_or_create(action=action, defaults=fields | {"steps": [], "found_at": None})
    _submit(action, BEFORE, f"{BEFORE}:{action.revision}")


def _submit(action: Action, stage: str, key: str):
    args, dedupe = {"action": str(action.pk), "stage": stage}, f"{KIND}:{action.pk}:{key}"
    operations.submit(KIND, workspace=action.workspace, args=args, by=HANDRAIL, dedupe=dedupe)


def due():
    """Return the ways back of actions that are over, which are not complete."""
    return WayBack.objects.filter(state=WayBackState.FOUND, action__ended_at__isnull=False)


def sweep():
    """Have the runners complete them; those of actions that did not run lead nowhere."""
    rows = due().select_related("action__workspace__environment", "action__workspace__runner")
    for row in rows[:MOST]:
        if "undo" in row.call:  # which the gate's report completes, if it comes
            if row.action.ended_at < clock.now() - REPORTED_WITHIN or row.action.status not in RAN:
                note(row.action, {"state": WayBackState.NONE, "why_not": NOT_SAID}, by=HANDRAIL)
        elif row.action.status in RAN and row.action.workspace is not None:
            with transaction.atomic():
                _submit(row.action, AFTER, AFTER)
        else:
            WayBack.objects.filter(pk=row.pk, state=WayBackState.FOUND).update(state=WayBackState.NONE)


def note(action: Action, found: dict, *, by: Actor):
    """Keep what was found with the action, with its event: {state, title, why_not, call, steps}.

    `undo` of the action becomes "outside" if all that a snapshot does not undo can be taken back.
    """
    state, why_not = found["state"], found.get("why_not", "")[:MAX_WORDS]
    kept = {"title": found.get("title", "")[:MAX_WORDS], "why_not": why_not, "steps": found.get("steps", [])}
    kept |= {"state": state, "call": found.get("call"), "digest": action.digest, "found_at": clock.now()}
    with Team.objects.turn(action.team_id):
        WayBack.objects.update_or_create(action=action, defaults=kept)
        is_whole = state != WayBackState.NONE and not why_not
        undo = "outside" if is_whole else current(action).undo
        Action.objects.filter(pk=action.pk).update(undo=undo)
        action.undo = undo
        if state == WayBackState.NONE:
            record(action, "action.way_back_missing", by, {"undo": undo, "why": why_not})
            return
        verb = "action.way_back_complete" if state == WayBackState.READY else "action.way_back_found"
        record(action, verb, by, {"undo": undo, "what": kept["title"], "tool": kept["call"]["tool"]})
