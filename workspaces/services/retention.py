"""Retention: what is due to be deleted, and the sweep that deletes it.

Workspaces in the trash are purged at their date; everything else is deleted by the team's policy.
The runner removes files (the kinds purge and forget); the store's garbage collection frees the bytes later. An unused
workspace goes to the trash only some time after a warning, which using it, or *Keep it*, cancels.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.template.defaultfilters import filesizeformat

from dashboard import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import lifecycle, operations
from workspaces.models import Command, Contact, Operation, RetentionPolicy, Snapshot, State, Terminal, Workspace
from workspaces.usage import freed

SWEEPER = Actor.system("retention")
FORGET = "forget"
NOTICE_DAYS = 7
OUTPUT = ("workspace_id", "operation_id")


def next_sweep() -> datetime:
    """Return when the next sweep runs: the queue runs it once a day (dashboard.ops.tasks.AT_HOUR)."""
    return clock.next_at_hour(settings.HANDRAIL_SWEEP_HOUR)


def snapshots_due(policy: RetentionPolicy):
    """Return the snapshots to delete: old, not pinned, not among the newest of their workspace, and not in use."""
    if policy.snapshot_days is None:
        return Snapshot.objects.none()
    old = Snapshot.objects.filter(
        workspace__team=policy.team_id, pinned=False, created_at__lt=clock.now() - timedelta(days=policy.snapshot_days)
    )
    newest = set()
    for workspace in Workspace.objects.filter(snapshots__in=old).distinct():
        numbers = workspace.snapshots.order_by("-number").values_list("pk", flat=True)
        newest.update(numbers[: policy.keep_newest_snapshots])
    used = Workspace.objects.filter(Q(head__in=old) | Q(baseline__in=old)).values_list("head", "baseline")
    return old.exclude(pk__in=newest | {pk for pair in used for pk in pair if pk})


def notice(policy: RetentionPolicy) -> timedelta:
    """Return the time between a warning and the move of an unused workspace to the trash."""
    return timedelta(days=min(NOTICE_DAYS, max(1, policy.unused_workspace_days // 2)))


def unused(policy: RetentionPolicy):
    """Return the unused workspaces that are, or must be, warned about.

    Connected folders are left out, and workspaces that are up or have an open operation.
    """
    if policy.unused_workspace_days is None:
        return Workspace.objects.none()
    unused_since = clock.now() - timedelta(days=policy.unused_workspace_days) + notice(policy)
    return _asleep(policy.team_id).filter(last_active_at__lt=unused_since)


def unused_due(policy: RetentionPolicy):
    """Return the unused workspaces that go to the trash now: unused for long enough, and warned about early enough."""
    if policy.unused_workspace_days is None:
        return Workspace.objects.none()
    now = clock.now()
    return unused(policy).filter(
        last_active_at__lt=now - timedelta(days=policy.unused_workspace_days),
        warned_at__lte=now - notice(policy),
        warned_at__gt=F("last_active_at"),
    )


def _asleep(team_id):
    asleep = Workspace.objects.kept().filter(team=team_id, state__in=[State.PAUSED, State.STOPPED, State.FAILED])
    busy = Operation.objects.open().filter(workspace=OuterRef("pk"))
    return asleep.filter(~Exists(busy)).exclude(environment__driver="folder")


def goes_at(workspace: Workspace, policy: RetentionPolicy | None):
    """Return when it goes to the trash if nobody uses it; None without a warning that still holds."""
    if policy is None or policy.unused_workspace_days is None or workspace.trashed_at:
        return None
    warned, used = workspace.warned_at, workspace.last_active_at
    if warned is None or used is None or warned <= used:
        return None
    return max(used + timedelta(days=policy.unused_workspace_days), warned + notice(policy))


def going(caller) -> list[tuple[Workspace, object]]:
    """Return (workspace, time) of the warned-about workspaces that the caller may see, the next one first."""
    kept = Workspace.objects.visible_to(caller).kept().exclude(state=State.READY)
    warned = kept.filter(warned_at__gt=F("last_active_at")).select_related("team__retention")
    found = ((workspace, goes_at(workspace, _policy_of(workspace))) for workspace in warned[:50])
    return sorted((pair for pair in found if pair[1]), key=lambda pair: pair[1])


def when_it_goes(workspace: Workspace):
    """Like `goes_at`, with the policy of its team."""
    return goes_at(workspace, _policy_of(workspace)) if workspace.warned_at else None


def _policy_of(workspace) -> RetentionPolicy | None:
    return getattr(workspace.team, "retention", None)


def keep(workspace: Workspace, *, by: Actor):
    """Keep an unused workspace: it counts as used now."""
    with transaction.atomic():
        Workspace.objects.filter(pk=workspace.pk).update(last_active_at=clock.now())
        lifecycle.record(workspace, by, "workspace.kept")


def homes_due(policy: RetentionPolicy):
    """Return the workspaces that are down and unused for so long that the agent's home is emptied; the files stay."""
    if policy.home_days is None:
        return Workspace.objects.none()
    since = clock.now() - timedelta(days=policy.home_days)
    never = Q(home_swept_at=None) | Q(home_swept_at__lt=F("last_active_at"))
    return _asleep(policy.team_id).filter(never, last_active_at__lt=since)


def outputs_due(policy: RetentionPolicy) -> list[tuple]:
    """Return (workspace id, operation id) of each command and terminal whose output is due to be deleted."""
    if policy.output_days is None:
        return []
    until = clock.now() - timedelta(days=policy.output_days)
    of = {"workspace__team": policy.team_id, "workspace__purged_at": None, "swept_at": None, "ended_at__lt": until}
    return [pair for model in (Command, Terminal) for pair in model.objects.filter(**of).values_list(*OUTPUT)]


@dataclass(frozen=True)
class Preview:
    """What the next sweep deletes under a policy. `bytes` is roughly what that frees; None: unknown."""

    snapshots: int
    workspaces: int
    pinned: int
    bytes: int | None
    homes: int
    outputs: int
    to_trash: int
    to_warn: int

    @property
    def deletes(self) -> bool:
        return bool(self.snapshots or self.homes or self.outputs or self.to_trash or self.to_warn)

    def __str__(self):
        gone, when = [], f"at the next sweep ({clock.in_utc(next_sweep())})"
        if self.snapshots:
            gone.append(f"{_many(self.snapshots, 'snapshot')} of {_many(self.workspaces, 'workspace')}")
        if self.outputs:
            gone.append(f"the output of {_many(self.outputs, 'command or terminal', 'commands and terminals')}")
        if self.homes:
            gone.append(f"the agent's home of {_many(self.homes, 'workspace')}")
        words = []
        if gone:
            freed = "" if self.bytes is None else f" and frees about {filesizeformat(self.bytes)}"
            words.append(f"Saving this deletes {_listed(gone)} {when}{freed}.")
        if self.to_trash:
            words.append(f"{_many(self.to_trash, 'workspace')} that nobody uses will go to the trash {when}.")
        if self.to_warn:
            words.append(
                f"People are warned about {_many(self.to_warn, 'workspace')} that nobody uses; what stays unused goes "
                "to the trash."
            )
        if words and self.pinned:
            words.append(f"{self.pinned} pinned {'one stays' if self.pinned == 1 else 'ones stay'}.")
        return " ".join(words) or f"Saving this deletes nothing {when}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _many(count: int, what: str, many: str = "") -> str:
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def preview(policy: RetentionPolicy, *, measure: bool = True) -> Preview:
    """Return what a policy, saved or not, would delete now. `measure` (the bytes) reads the store's whole index."""
    due = list(snapshots_due(policy).values_list("pk", "workspace", "tree"))
    old = Q(workspace__team=policy.team_id, pinned=True)
    if policy.snapshot_days is not None:
        old &= Q(created_at__lt=clock.now() - timedelta(days=policy.snapshot_days))
    return Preview(
        snapshots=len(due),
        workspaces=len({workspace for _, workspace, _ in due}),
        pinned=Snapshot.objects.filter(old).count() if due else 0,
        bytes=freed(policy.team_id, {pk for pk, _, _ in due}) if due and measure else None,
        homes=homes_due(policy).count(),
        outputs=len(outputs_due(policy)),
        to_trash=(to_trash := unused_due(policy).count()),
        to_warn=unused(policy).count() - to_trash,
    )


def sweep():
    """Delete what is due. Safe to run late or repeatedly."""
    for policy in RetentionPolicy.objects.select_related("team"):
        with transaction.atomic():
            gone = list(snapshots_due(policy).values_list("workspace_id", "number"))
            if gone:
                snapshots_due(policy).delete()
                data = {"snapshots": len(gone), "days": policy.snapshot_days}
                Event.objects.record(policy.team, actor=SWEEPER, verb="retention.swept", subject=policy.team, data=data)
        _warn(policy)
        for workspace in unused_due(policy):
            # The trash, with a snapshot of everything before, lets people restore it.
            with suppress(Problem):  # its state has just changed
                lifecycle.trash(workspace, by=SWEEPER)
        _forget(policy)
        contacts_due(policy).delete()
    for workspace in Workspace.objects.in_trash().filter(purge_at__lte=clock.now()):
        operations.submit(
            "purge",
            workspace=workspace,
            by=SWEEPER,
            exclusive=True,
            dedupe=f"purge:{workspace.pk}:{workspace.purge_at.isoformat()}",
        )


def _warn(policy):
    stale = Q(warned_at=None) | Q(warned_at__lte=F("last_active_at"))
    for workspace in unused(policy).filter(stale):
        with transaction.atomic():
            if Workspace.objects.filter(stale, pk=workspace.pk).update(warned_at=clock.now()):
                workspace.refresh_from_db(fields=["warned_at"])
                data = {"until": goes_at(workspace, policy).isoformat(), "days": policy.unused_workspace_days}
                lifecycle.record(workspace, SWEEPER, "workspace.warned", data)


def contacts_due(policy: RetentionPolicy):
    """Return the hosts that programs have not tried to reach for as long as output is kept."""
    if policy.output_days is None:
        return Contact.objects.none()
    until = clock.now() - timedelta(days=policy.output_days)
    return Contact.objects.filter(workspace__team=policy.team_id, last_at__lt=until)


def _forget(policy):
    """Submit one operation per workspace that has a home or output to delete."""
    homes = set(homes_due(policy).values_list("pk", flat=True))
    programs: dict = {pk: [] for pk in homes}
    for pk, operation in outputs_due(policy):
        programs.setdefault(pk, []).append(str(operation))
    under_way = Operation.objects.open().filter(kind=FORGET).values_list("workspace", flat=True)
    for workspace in Workspace.objects.filter(pk__in=programs.keys() - set(under_way)):
        args = {"home": workspace.pk in homes, "programs": programs[workspace.pk]}
        operations.submit(FORGET, workspace=workspace, by=SWEEPER, args=args, exclusive=True)
