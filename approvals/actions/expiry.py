"""End actions that time out: nobody decided, the approval was not used, or no outcome was reported."""

from datetime import timedelta

from django.db.models import Q

from approvals.actions import escalation
from approvals.actions.transitions import move, withdraw
from approvals.evaluation.calls import GATE
from approvals.models import Action, ActionEndCode, Status
from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces.models import Phase, ReasonCode

CLOCK = Actor.system("clock")
NO_OUTCOME = timedelta(hours=24)
SWEEP_BATCH = 500  # rows that one sweep handles; the next one continues


def unanswered(now) -> Q:
    return Q(status=Status.PENDING, expires_at__lte=now)


def unused(now) -> Q:
    return Q(status=Status.APPROVED, consumed_at=None, consume_by__lte=now)


def without_outcome(now) -> Q:
    return Q(status=Status.RUNNING, mode=GATE, consumed_at__lte=now - NO_OUTCOME)


def end_if_due(action: Action) -> Action:
    """Expire the action, or mark it uncertain, if its time is over.

    Called before an action is read or changed, so results do not depend on when the sweep runs.
    """
    now = clock.now()
    if action.status == Status.PENDING and action.expires_at <= now:
        _expire(action, ActionEndCode.UNANSWERED, "Nobody answered in time.", unanswered(now))
    elif action.status == Status.APPROVED and action.consume_by and action.consume_by <= now:
        _expire(action, ActionEndCode.UNUSED, "The approval was not used in time.", unused(now))
    elif action.status == Status.RUNNING and action.mode == GATE and action.consumed_at <= now - NO_OUTCOME:
        mark_uncertain(action, "The agent never reported an outcome.", by=CLOCK, when=without_outcome(now))
    return action


def _expire(action: Action, code: ActionEndCode, note: str, when: Q):
    ends = {"ended_at": clock.now(), "end_code": code, "result": {"by": "nobody", "note": note}}
    if not move(action, Status.EXPIRED, verb="action.expired", by=CLOCK, when=when, **ends):
        action.refresh_from_db()


def mark_uncertain(action: Action, note: str, *, by: Actor, when: Q, details=None, blocked=()) -> bool:
    """Mark the action uncertain if it still matches `when`; False if it does not. `details` are as in `gate.report`."""
    fields = {"result": (action.result or {}) | (details or {}) | {"note": note}}
    fields |= {"blocked": list(blocked)} if blocked else {}
    return move(action, Status.UNCERTAIN, verb="action.uncertain", by=by, when=when, **fields)


def record_carried(action: Action, outcome: dict, *, by: Actor, when: Q) -> bool:
    """End a brokered action with its operation's outcome, {"ok", "reason", exit_status, …}; False if it has moved."""
    to = Status.SUCCEEDED if outcome.get("ok") else Status.FAILED
    result = {name: value for name, value in outcome.items() if name not in ("ok", "reason", "blocked")}
    result["note"] = outcome.get("reason") or ""
    data = {"exit_status": outcome["exit_status"]} if "exit_status" in outcome else {}
    return move(
        action,
        to,
        verb=f"action.{to.value}",
        by=by,
        when=when,
        data=data,
        ended_at=clock.now(),
        result=result,
        blocked=outcome.get("blocked", []),
    )


def due():
    """Return (the actions whose time is over, those to pass on, those whose operations were ended by no runner)."""
    now = clock.now()
    over = Action.objects.filter(unanswered(now) | unused(now) | without_outcome(now))
    return over, escalation.due(now), _ended_elsewhere()


def sweep(team_ids=None) -> int:
    """End the actions that are due, in all teams or in `team_ids`; return how many changed.

    Safe to run at any time and in any process: each action is updated by itself, and only while it is still due.
    """
    now, changed = clock.now(), 0
    if team_ids is None:
        team_ids = list(Team.objects.values_list("pk", flat=True))
    due = unanswered(now) | unused(now) | without_outcome(now)
    for action in Action.objects.filter(due, team__in=team_ids)[:SWEEP_BATCH]:
        before = action.status
        changed += end_if_due(action).status != before
    return changed


def follow_operations() -> int:
    """End the actions whose operations were ended in place of the runner that had them, as those of a lost host.

    A runner ends both in one transaction.
    """
    changed = 0
    for action in _ended_elsewhere().select_related("operation")[:SWEEP_BATCH]:
        note, may_have_run = action.operation.outcome["reason"], action.operation.phase == Phase.UNCERTAIN
        when = Q(status=action.status)
        if may_have_run or action.status == Status.RUNNING:
            changed += mark_uncertain(action, note, by=CLOCK, when=when)
        else:
            changed += withdraw(action, CLOCK, note, code=ActionEndCode.NOT_STARTED, when=when)
    return changed


def _ended_elsewhere():
    return Action.objects.filter(
        status__in=[Status.APPROVED, Status.RUNNING],
        operation__phase__in=[Phase.SETTLED, Phase.UNCERTAIN],
        operation__outcome__reason_code__in=[ReasonCode.LOST, ReasonCode.RUNNER_ERROR],
    )
