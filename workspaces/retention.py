"""What is due to go, and the sweep: deleted workspaces after their date, and snapshots by their team's policy.

The runner removes files (the purge kind); the store's garbage collection frees the bytes later.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.template.defaultfilters import filesizeformat

from dashboard import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import Problem
from workspaces import effects, lifecycle, places
from workspaces.models import Effect, RetentionPolicy, Snapshot, State, Workspace
from workspaces.store import Store, StoreError

SWEEPER = Actor.system("retention")


def snapshots_due(policy: RetentionPolicy):
    """Snapshots that the policy lets go: old, not pinned, not among the newest of their workspace, and not in use."""
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


def unused_due(policy: RetentionPolicy):
    """Workspaces that nobody used for so long that they go to the trash; never a person's own folder, never one that is
    up or in the middle of something."""
    if policy.unused_workspace_days is None:
        return Workspace.objects.none()
    unused_since = clock.now() - timedelta(days=policy.unused_workspace_days)
    asleep = Workspace.objects.kept().filter(team=policy.team_id, state__in=[State.PAUSED, State.STOPPED, State.FAILED])
    busy = Effect.objects.open().filter(workspace=OuterRef("pk"))
    return asleep.filter(~Exists(busy), last_active_at__lt=unused_since).exclude(environment__driver="folder")


@dataclass(frozen=True)
class Preview:
    """What the next sweep takes away by a policy. `bytes` is the least that is free afterwards; None: not known."""

    snapshots: int
    workspaces: int
    pinned: int
    bytes: int | None
    to_trash: int

    @property
    def deletes(self) -> bool:
        return bool(self.snapshots or self.to_trash)

    def __str__(self):
        words = []
        if self.snapshots:
            freed = "" if self.bytes is None else f" and frees at least {filesizeformat(self.bytes)}"
            words.append(
                f"Saving this deletes {_many(self.snapshots, 'snapshot')} of {_many(self.workspaces, 'workspace')} "
                f"tonight{freed}."
            )
        if self.to_trash:
            words.append(f"{_many(self.to_trash, 'workspace')} that nobody uses will go to the trash.")
        if words and self.pinned:
            words.append(f"{self.pinned} pinned {'one stays' if self.pinned == 1 else 'ones stay'}.")
        return " ".join(words) or "Saving this deletes nothing tonight."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def preview(policy: RetentionPolicy, *, weigh: bool = True) -> Preview:
    """Of a policy that need not be saved: what it lets go now. Weighing its bytes reads the store's whole index."""
    due = list(snapshots_due(policy).values_list("pk", "workspace", "tree"))
    old = Q(workspace__team=policy.team_id, pinned=True)
    if policy.snapshot_days is not None:
        old &= Q(created_at__lt=clock.now() - timedelta(days=policy.snapshot_days))
    return Preview(
        snapshots=len(due),
        workspaces=len({workspace for _, workspace, _ in due}),
        pinned=Snapshot.objects.filter(old).count() if due else 0,
        bytes=_freed(policy.team_id, {pk for pk, _, _ in due}) if due and weigh else None,
        to_trash=unused_due(policy).count(),
    )


def _freed(team_id, due: set) -> int | None:
    """What the due trees hold alone: at least so much is free afterwards. What they share with one another is not
    counted, and a store that cannot be asked frees nobody knows how much."""
    path = places.store_of(team_id)
    kept, going = set(), set()
    for pk, tree in Snapshot.objects.filter(workspace__team=team_id).values_list("pk", "tree"):
        (going if pk in due else kept).add(bytes(tree).hex())
    if not path.exists():
        return None
    try:
        alone = Store.open(path).usage(kept | going).alone
    except StoreError:
        return None
    return sum(alone[tree] for tree in going - kept)


def sweep():
    """Let go what is due: once, twice or later makes no difference."""
    for policy in RetentionPolicy.objects.select_related("team"):
        with transaction.atomic():
            gone = list(snapshots_due(policy).values_list("workspace_id", "number"))
            if gone:
                snapshots_due(policy).delete()
                data = {"snapshots": len(gone), "days": policy.snapshot_days}
                Event.objects.record(policy.team, actor=SWEEPER, verb="retention.swept", subject=policy.team, data=data)
        for workspace in unused_due(policy):
            # By way of the trash, with a snapshot of everything first: whoever misses it brings it back.
            with suppress(Problem):  # somebody was faster
                lifecycle.trash(workspace, by=SWEEPER)
    for workspace in Workspace.objects.in_trash().filter(purge_at__lte=clock.now()):
        effects.submit(
            f"{lifecycle.KINDS}.purge",
            workspace=workspace,
            by=SWEEPER,
            exclusive=True,
            dedupe=f"purge:{workspace.pk}:{workspace.purge_at.isoformat()}",
        )


def kept_trees(team) -> list[str]:
    """The ids of all trees that a row of the team names."""
    return [bytes(tree).hex() for tree in Snapshot.objects.filter(workspace__team=team).values_list("tree", flat=True)]


def collect_garbage() -> dict:
    """Free what no snapshot names any more: {team slug: the store's own report}."""
    reports = {}
    for team in Team.objects.all():
        path = places.store_of(team.pk)
        if path.exists():
            reports[team.slug] = Store.open(path).gc(kept_trees(team))
    return reports
