"""How actions end without an answer: expiry, no outcome, a stop of everything."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q

from approvals.calls import GATE
from approvals.models import Action, Grant, Status
from approvals.moves import move
from dashboard import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, not_allowed
from workspaces import programs
from workspaces.models import Command, Effect

CLOCK = Actor.system("clock")
NO_OUTCOME = timedelta(hours=24)
AT_ONCE = 500  # rows that one sweep looks at; the next one goes on
STOPPED = "Stopped by a person. Do not retry. Wait until you are told to go on."


def unanswered(now) -> Q:
    return Q(status=Status.PENDING, expires_at__lte=now)


def not_collected(now) -> Q:
    return Q(status=Status.APPROVED, consumed_at=None, consume_by__lte=now)


def without_outcome(now) -> Q:
    return Q(status=Status.RUNNING, mode=GATE, consumed_at__lte=now - NO_OUTCOME)


def end_if_due(action: Action) -> Action:
    """Apply what time has done to this action. Called before anybody reads or moves it, so no sweep need be on time."""
    now = clock.now()
    if action.status == Status.PENDING and action.expires_at <= now:
        _expire(action, "Nobody answered in time.", unanswered(now), now)
    elif action.status == Status.APPROVED and action.consume_by and action.consume_by <= now:
        _expire(action, "The approval was not collected in time.", not_collected(now), now)
    elif action.status == Status.RUNNING and action.mode == GATE and action.consumed_at <= now - NO_OUTCOME:
        mark_uncertain(action, "The agent never said how it ended.", by=CLOCK, when=without_outcome(now))
    return action


def _expire(action: Action, note: str, when: Q, now):
    result = {"by": "nobody", "note": note}
    if not move(action, Status.EXPIRED, verb="action.expired", by=CLOCK, when=when, ended_at=now, result=result):
        action.refresh_from_db()


def mark_uncertain(action: Action, note: str, *, by: Actor, when: Q) -> bool:
    result = (action.result or {}) | {"note": note}
    return move(action, Status.UNCERTAIN, verb="action.uncertain", by=by, when=when, result=result)


def record_carried(action: Action, outcome: dict, *, by: Actor, when: Q) -> bool:
    """End a brokered action by its effect's outcome: {"ok", "reason", exit_status, …}."""
    to = Status.SUCCEEDED if outcome.get("ok") else Status.FAILED
    result = {name: value for name, value in outcome.items() if name not in ("ok", "reason")}
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
    )


def sweep(team_ids=None) -> int:
    """End what is due, in every team unless some are named; returns how many actions changed.

    Safe to run at any time, in any process: each action moves by itself, and only while it still is due.
    """
    now, changed = clock.now(), 0
    if team_ids is None:
        team_ids = list(Team.objects.values_list("pk", flat=True))
    for due in (unanswered(now), not_collected(now), without_outcome(now)):
        for action in Action.objects.filter(due, team__in=team_ids)[:AT_ONCE]:
            before = action.status
            changed += end_if_due(action).status != before
    return changed


def stop_everything(team: Team, *, caller) -> dict:
    """Withdraw all that waits, cancel what runs, allow nothing more: {"withdrawn": n, "commands": n}."""
    if not caller.can("stop_everything", team):
        raise not_allowed("A reviewer may stop everything.")
    now, by = clock.now(), caller.actor
    with transaction.atomic():
        if not Team.objects.filter(pk=team.pk, stopped_at=None).update(stopped_at=now, stopped_by=caller.user):
            raise conflict("Everything is stopped already.")
        result = {"by": by.label, "note": STOPPED}
        open_ones = Q(status=Status.PENDING) | Q(status=Status.APPROVED, consumed_at=None)
        withdrawn = 0
        for action in Action.objects.filter(open_ones, team=team):
            withdrawn += move(
                action,
                Status.CANCELLED,
                verb="action.cancelled",
                by=by,
                when=open_ones,
                data={"why": "stopped"},
                ended_at=now,
                result=result,
            )
        Grant.objects.in_force(now).filter(team=team).update(revoked_at=now)
        Event.objects.record(team, actor=by, verb="team.stopped", subject=team, data={"withdrawn": withdrawn})
    commands = Command.objects.filter(workspace__team=team, effect__in=Effect.objects.open())
    ended = [programs.cancel_command(command, by=by) for command in commands.select_related("effect", "workspace")]
    team.refresh_from_db()
    return {"withdrawn": withdrawn, "commands": len(ended)}


def lift_stop(team: Team, *, caller):
    """Allow again what the policy and people allow; nothing that was withdrawn comes back."""
    if not caller.can("lift_stop", team):
        raise not_allowed("A lead may lift the stop.")
    with transaction.atomic():
        if not Team.objects.filter(pk=team.pk, stopped_at__isnull=False).update(stopped_at=None, stopped_by=None):
            raise conflict("Nothing is stopped.")
        Event.objects.record(team, actor=caller.actor, verb="team.lifted", subject=team)
    team.refresh_from_db()
