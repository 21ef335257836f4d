"""What must be said and stopped in a database that was put back from a backup, before anything opens it.

The backup does not know what happened after it was made. So whatever was under way is unclear, approvals that nobody
had collected end, and nobody is signed in: nothing runs again by itself.
"""

import socket

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, Q

from approvals.models import Action, Grant, Status
from approvals.moves import move
from dashboard import clock
from dashboard.models import Actor, Event, SignInLink, Team
from workspaces.models import Effect, Phase, Run, Runner, State, Workspace

BY = Actor.system("restore")


@transaction.atomic
def settle(manifest: dict):
    """Called once, on the migrated database of a backup."""
    now, made_at = clock.now(), manifest["made_at"]
    unknown = f"Put back from a backup of {made_at}: whether this ran is not known."
    unclear = _end_effects(unknown, now)
    _end_half_started(unknown, now)
    ended = _end_approvals(f"Put back from a backup of {made_at}, when nobody had collected this. Ask again.", now)
    Grant.objects.filter(revoked_at=None).update(revoked_at=now)
    Session.objects.all().delete()
    SignInLink.objects.filter(used_at=None).update(expires_at=now)
    _take_over_runner()
    for team in Team.objects.all():
        data = {"made_at": made_at, "unclear": unclear.get(team.pk, 0), "withdrawn": ended.get(team.pk, 0)}
        Event.objects.record(team, actor=BY, verb="system.restored", subject=team, data=data)


def _end_effects(reason: str, now) -> dict:
    """Due, claimed and started effects are unclear now; how many, by team."""
    count = {}
    for effect in Effect.objects.open().select_related("workspace"):
        if effect.workspace:
            count[effect.workspace.team_id] = count.get(effect.workspace.team_id, 0) + 1
    Effect.objects.open().update(
        phase=Phase.UNCERTAIN,
        epoch=F("epoch") + 1,
        outcome={"ok": False, "reason": reason},
        settled_at=now,
        lease_until=None,
    )
    # The runner asks for these itself whenever a run has ended; an unclear one must not keep it from asking.
    Effect.objects.filter(phase=Phase.UNCERTAIN, dedupe__startswith="ended:").update(dedupe=None)
    return count


def _end_half_started(reason: str, now):
    """Runs that were coming up are not; the runner itself ends those that were up, and keeps a snapshot of each."""
    Run.objects.filter(ended_at=None, ready_at=None).update(ended_at=now, end_reason=reason[:200])
    for workspace in Workspace.objects.filter(state__in=[State.CREATING, State.SETTING_UP]):
        Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=reason)
        Event.objects.record(
            workspace.team_id, actor=BY, verb="workspace.failed", subject=workspace, workspace=workspace
        )


def _end_approvals(note: str, now) -> dict:
    """An approval that was not collected then may have been collected since: it must not count a second time."""
    count = {}
    uncollected = Q(status=Status.APPROVED, consumed_at=None)
    for action in Action.objects.filter(uncollected):
        result = {"by": "a restore", "note": note}
        if move(
            action, Status.CANCELLED, verb="action.cancelled", by=BY, when=uncollected, ended_at=now, result=result
        ):
            count[action.team_id] = count.get(action.team_id, 0) + 1
    return count


def _take_over_runner():
    """A single host's workspaces belong to the runner of the host that they are put back on."""
    runners = list(Runner.objects.all()[:2])
    if len(runners) == 1:
        Runner.objects.filter(pk=runners[0].pk).update(host=socket.gethostname(), heartbeat_at=None)
