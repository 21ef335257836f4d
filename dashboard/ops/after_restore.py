"""End what was in progress in a database restored from a backup, before any process opens it.

What happened after the backup was made is not known. Operations in flight become unclear, approvals that were not
collected are cancelled, grants are revoked and sessions ended, so that nothing runs again by itself.
"""

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, Q

from approvals.actions.transitions import withdraw
from approvals.models import Action, ActionEndCode, Delivery, Grant, Status
from dashboard.database import clock
from dashboard.models import Actor, Event, SignInLink, Team
from workspaces.models import EndCode, Operation, Phase, Run, Runner, State, Workspace

BY = Actor.system("restore")
AHEAD = 1000  # changes of a workspace's place that may have come after the backup


@transaction.atomic
def settle(manifest: dict):
    """Settle the migrated database of a backup; called once. `manifest` is the backup's."""
    now, made_at = clock.now(), manifest["made_at"]
    unknown = f"Restored from a backup of {made_at}: whether this ran is unknown."
    unclear = _end_operations(unknown, now)
    _end_half_started(unknown, now)
    ended = _end_approvals(f"Restored from a backup of {made_at}, made before this approval was used. Ask again.")
    Grant.objects.filter(revoked_at=None).update(revoked_at=now)
    Session.objects.all().delete()
    # Sent meanwhile, for all that is known.
    Delivery.objects.filter(next_try_at__isnull=False).update(next_try_at=None, problem="Restored from a backup.")
    SignInLink.objects.filter(used_at=None).update(expires_at=now)
    _take_over_runner()
    _lead_anew()
    for team in Team.objects.all():
        data = {"made_at": made_at, "unclear": unclear.get(team.pk, 0), "withdrawn": ended.get(team.pk, 0)}
        Event.objects.record(team, actor=BY, verb="system.restored", subject=team, data=data)


def _end_operations(reason: str, now) -> dict:
    """Mark queued, claimed and started operations as unclear; return how many by team id."""
    count = {}
    for operation in Operation.objects.open().select_related("workspace"):
        team_id = operation.workspace.team_id if operation.workspace else operation.team_id
        count[team_id] = count.get(team_id, 0) + 1
    Operation.objects.open().update(
        phase=Phase.UNCERTAIN,
        epoch=F("epoch") + 1,
        outcome={"ok": False, "reason": reason, "reason_code": "restored"},
        settled_at=now,
        lease_until=None,
    )
    # The runner queues these for each run that ended; an unclear one must not block a new one by its dedupe key.
    Operation.objects.filter(phase=Phase.UNCERTAIN, dedupe__startswith="ended:").update(dedupe=None)
    return count


def _end_half_started(reason: str, now):
    """Fail runs that were starting. The runner ends those that were up and keeps a snapshot of each."""
    Run.objects.filter(ended_at=None, ready_at=None).end(EndCode.RESTORED, reason)
    for workspace in Workspace.objects.filter(state__in=[State.CREATING, State.SETTING_UP]):
        Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=reason)
        Event.objects.record(
            workspace.team_id, actor=BY, verb="workspace.failed", subject=workspace, workspace=workspace
        )


def _end_approvals(note: str) -> dict:
    """Cancel approvals that were unused when the backup was made: they may have been used since."""
    count = {}
    unused = Q(status=Status.APPROVED, consumed_at=None)
    for action in Action.objects.filter(unused):
        if withdraw(action, BY, note, code=ActionEndCode.RESTORED, when=unused):
            count[action.team_id] = count.get(action.team_id, 0) + 1
    return count


def _take_over_runner():
    """Let each host's next start register it; on a single-host installation, assign the workspaces to this host."""
    members = Runner.objects.members()  # one that was removed stays refused
    members.update(installation="", home="", keys={})
    runners = list(members[:2])
    taken = Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).exclude(removed_at=None).exists()
    if len(runners) == 1 and not taken:
        Runner.objects.filter(pk=runners[0].pk).update(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=None)


def _lead_anew():
    """Raise the epochs of the leads beyond those that hosts have seen since the backup, which refuse lower ones."""
    Workspace.objects.update(lead_epoch=F("lead_epoch") + AHEAD)
