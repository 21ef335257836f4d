"""Take snapshots: store the tree, then the row, manifest and event. Blocking, so call it in a thread."""

from functools import partial
from pathlib import Path

from django.db.models import UUIDField

from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.retries import retried
from dashboard.models import Actor, Team
from workspaces import lifecycle
from workspaces.changes import stores
from workspaces.changes.history import path_fields
from workspaces.host import paths
from workspaces.manifests import body, folder_manifest
from workspaces.manifests.cause import cause_of
from workspaces.manifests.keep import sign_and_save
from workspaces.models import Run, Snapshot, Workspace
from workspaces.runner import notes, secret_scan, shown_manifest, snapshot_ignore, watching
from workspaces.runner.snapshot_tree import KeptFiles, KeptTree
from workspaces.services.notes import versions
from workspaces.store import LocalTree, Store, StoreError


def store_of(workspace) -> Store:
    """Return the team's store, created on first use. Raise stores.WrongStore for a missing or foreign one."""
    return stores.opened_to_write(workspace.team_id)


def host_tree(workspace) -> LocalTree:
    """Return the tree of a workspace whose files are on this host; tree_access.py decides whether they are."""
    home = paths.folder_of(workspace.pk) / "home"
    return with_rules(workspace, LocalTree(paths.tree_of(workspace), cache=cache_of(workspace), home=home))


def tree_at_rest(driver, workspace):
    """Return the tree of a workspace without a Run; None if its files can be reached only through one."""
    home = paths.folder_of(workspace.pk) / "home"
    tree = driver.tree_at_rest(paths.tree_of(workspace), cache=cache_of(workspace), home=home)
    return None if tree is None else with_rules(workspace, tree)


def with_rules(workspace, tree):
    """Return a live tree of a workspace; snapshots leave out what the environment ignores and a folder's manifest."""
    if workspace.environment.capabilities.own_folder:
        tree.shown = partial(folder_manifest.digests, workspace.pk)
    if text := workspace.environment.snapshot_ignore:
        tree.rules = partial(snapshot_ignore.rules_for, text, tree)
    return tree


def cache_of(workspace) -> Path:
    return paths.folder_of(workspace.pk) / "scan"


def journal_of(workspace) -> Path:
    return paths.folder_of(workspace.pk) / "journal"


def scan(workspace, tree, progress=None, *, thorough: bool = False, prove: bool = False, cancel=None):
    """Store a live tree (from tree_access.py) and return the store's snapshot; no row refers to it.

    A watched tree is walked all the same if it is to `prove` that the watch has missed nothing.
    Raise secret_scan.SecretFound, a StoreError, if the tree contains a secret's value.
    """
    if isinstance(tree, KeptTree):
        return tree.snapshot
    inspector = secret_scan.inspector_of(workspace)
    before_commit = inspector.before_commit if inspector else None
    tree.watched = watching.of(workspace)
    how = {"thorough": thorough, "prove": prove, "inspect": inspector, "before_commit": before_commit}
    return store_of(workspace).snapshot(tree, progress=progress, cancel=cancel, **how)


def take(
    workspace,
    tree,
    *,
    kind: str,
    by: Actor,
    label="",
    operation=None,
    progress=None,
    cancel=None,
    thorough: bool = False,
    ports=None,
    services=None,
    unless_same: bool = False,
) -> Snapshot:
    """Snapshot a live tree (from tree_access.py) and make it the workspace's head; the row is written last.

    `operation` is the one that it is part of; `thorough` does not trust file times. `ports` are those on which programs
    listen, by default those last measured; `services` are those that run, by default those that run now.
    `unless_same`: return the head if nothing has changed since.
    """
    try:
        prove = kind in watching.PROVEN
        kept = scan(workspace, tree, progress, thorough=thorough, prove=prove, cancel=cancel)
    except secret_scan.SecretFound:
        notes.keep_alone(workspace, tree, by=by)
        raise
    watching.note(workspace, tree.watched, by)
    if unless_same and workspace.head is not None and workspace.head.tree_hex == kept.tree:
        return workspace.head
    opened = KeptFiles(store_of(workspace), kept.tree)
    facts = body.facts_of_parent(workspace.head, kept.tree)
    facts = facts or body.tree_facts(opened)
    noted, lessons_sha256 = notes.read_stored(workspace, opened), notes.lessons_digest(opened)
    secret_scan.forget(workspace)

    @retried
    def write() -> tuple[Workspace, Snapshot]:
        with Team.objects.turn(workspace.team_id):
            row = Workspace.objects.locked().select_related("environment", "head").get(pk=workspace.pk)
            if row.lead_epoch != workspace.lead_epoch:
                raise StoreError("Another runner leads this workspace since, so what is here is not its newest state")
            row.environment = workspace.environment  # a rebuild saves its new environment only after it succeeded
            snapshot = _add(row, kept, kind=kind, label=label, by=by)
            version = versions.save_if_changed(row, noted, by=by) if noted is not None else None
            known = facts | {"notes": notes.manifest_facts(version, lessons_sha256)}
            _keep_manifest(row, snapshot, known, ports=ports, services=services, cause=cause_of(by, operation))
            data = {"number": snapshot.number, "kind": kind, "label": label, "entries": kept.entries, "tree": kept.tree}
            lifecycle.record(row, by, "snapshot.taken", data, subject=snapshot)
        return row, snapshot

    row, snapshot = write()
    for name in ("head", "baseline", "next_snapshot", "missing_snapshot"):
        setattr(workspace, name, getattr(row, name))
    return snapshot


def _add(row: Workspace, kept, *, kind: str, label: str, by: Actor) -> Snapshot:
    """Add the row of a tree that the store has, and make it the head of its workspace, which is locked."""
    snapshot = Snapshot.objects.create(
        workspace=row,
        number=row.next_snapshot,
        tree=bytes.fromhex(kept.tree),
        parent=row.head,
        kind=kind,
        label=label,
        entries=kept.entries,
        bytes=kept.bytes,
        added_bytes=kept.added_bytes,
        looked_at=dict(zip(("walked", "watched"), kept.looked_at, strict=True)),
        skipped=[path_fields("path", entry.path) | {"reason": entry.reason} for entry in kept.skipped[:1000]],
        by=by.as_json,
        created_at=clock.now(),
    )
    row.head = snapshot
    row.next_snapshot += 1
    if kind == "setup" and row.baseline_id is None:
        row.baseline = snapshot
    row.missing_snapshot = ""
    row.save(update_fields=["head", "next_snapshot", "baseline", "missing_snapshot"])
    return snapshot


def add_beside(workspace, kept, *, label: str, by: Actor) -> Snapshot:
    """Add the row of a tree that the store has, of another state than the workspace's: its head stays. Return it."""
    with Team.objects.turn(workspace.team_id):
        row = Workspace.objects.locked().select_related("head").get(pk=workspace.pk)
        head = row.head
        snapshot = _add(row, kept, kind="found", label=label, by=by)
        Workspace.objects.filter(pk=row.pk).update(head=head, missing_snapshot=workspace.missing_snapshot)
        data = {"number": snapshot.number, "kind": "found", "label": label, "entries": kept.entries, "tree": kept.tree}
        lifecycle.record(row, by, "snapshot.taken", data, subject=snapshot)
    return snapshot


def _keep_manifest(row, snapshot, facts: dict, *, ports, services, cause: dict):
    ports = (row.vitals.get("ports") or []) if ports is None else ports
    told = body.of_snapshot(row, snapshot, facts, ports=ports, services=services, cause=cause)
    manifest = sign_and_save(told, snapshot=snapshot)
    shown_manifest.put_after_commit(manifest, row)


def open_run(workspace) -> Run | None:
    return next(iter(_OPEN_RUNS.rows(workspace=workspace.pk)), None)


_OPEN_RUNS = Prepared(
    lambda: Run.objects.filter(workspace=Slot("workspace", UUIDField()), ended_at=None).order_by("pk")[:1]
)
