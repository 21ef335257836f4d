"""Take snapshots: store the tree, then the row, manifest and event. Blocking, so call it in a thread."""

import hashlib
import stat
from pathlib import Path

from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from dashboard.strict_json import canonical
from workspaces import lifecycle, paths, stores
from workspaces.history import named
from workspaces.models import Command, Manifest, Run, Snapshot, Workspace
from workspaces.runner import secret_scan
from workspaces.runner.snapshot_tree import KeptTree
from workspaces.services.drift import made_with
from workspaces.store import LocalTree, Store
from workspaces.store.files import read_whole

MANIFEST_FORMAT = 1
PACKED_REFS = 16 << 20  # most bytes read of .git/packed-refs


def store_of(workspace) -> Store:
    """Return the team's store, created on first use. Raise stores.WrongStore for a missing or foreign one."""
    return stores.opened_to_write(workspace.team_id)


def host_tree(workspace) -> LocalTree:
    """Return the tree of a workspace whose files are on this host; tree_access.py decides whether they are."""
    home = paths.folder_of(workspace.pk) / "home"
    return LocalTree(paths.tree_of(workspace), cache=cache_of(workspace), home=home)


def tree_at_rest(driver, workspace):
    """Return the tree of a workspace without a Run; None if its files can be reached only through one."""
    home = paths.folder_of(workspace.pk) / "home"
    return driver.tree_at_rest(paths.tree_of(workspace), cache=cache_of(workspace), home=home)


def cache_of(workspace) -> Path:
    return paths.folder_of(workspace.pk) / "scan"


def journal_of(workspace) -> Path:
    return paths.folder_of(workspace.pk) / "journal"


def scan(workspace, tree, progress=None, *, thorough: bool = False, cancel=None):
    """Store a live tree (from tree_access.py) and return the store's snapshot; no row refers to it.

    Raise secret_scan.SecretFound, a StoreError, if the tree contains a secret's value.
    """
    if isinstance(tree, KeptTree):
        return tree.snapshot
    inspector = secret_scan.inspector_of(workspace)
    before_commit = inspector.before_commit if inspector else None
    return store_of(workspace).snapshot(
        tree, progress=progress, cancel=cancel, thorough=thorough, inspect=inspector, before_commit=before_commit
    )


def take(
    workspace, tree, *, kind: str, by: Actor, label="", progress=None, cancel=None, thorough: bool = False, ports=None
) -> Snapshot:
    """Snapshot a live tree (from tree_access.py) and make it the workspace's head; the row is written last.

    `thorough` does not trust file times; `ports` are those on which programs listen.
    """
    kept = scan(workspace, tree, progress, thorough=thorough, cancel=cancel)
    git = _git_state(tree)
    secret_scan.forget(workspace)
    with transaction.atomic():
        locked = Workspace.objects.select_for_update(of=["self"])  # PostgreSQL cannot lock a head that may be missing
        row = locked.select_related("environment", "head").get(pk=workspace.pk)
        row.environment = workspace.environment  # a rebuild saves its new environment only after it succeeded
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
            skipped=[named("path", entry.path) | {"reason": entry.reason} for entry in kept.skipped[:1000]],
            by=by.as_json,
            created_at=clock.now(),
        )
        row.head = snapshot
        row.next_snapshot += 1
        if kind == "setup" and row.baseline_id is None:
            row.baseline = snapshot
        row.missing_snapshot = ""
        row.save(update_fields=["head", "next_snapshot", "baseline", "missing_snapshot"])
        body = manifest_of(row, snapshot, git) | {"ports": ports or []}
        Manifest.objects.create(snapshot=snapshot, body=body, sha256=hashlib.sha256(canonical(body)).hexdigest())
        data = {"number": snapshot.number, "kind": kind, "label": label, "entries": kept.entries, "tree": kept.tree}
        lifecycle.record(row, by, "snapshot.taken", data, subject=snapshot)
    for name in ("head", "baseline", "next_snapshot", "missing_snapshot"):
        setattr(workspace, name, getattr(row, name))
    return snapshot


def manifest_of(workspace, snapshot, git: dict | None) -> dict:
    """Return the provenance record of a snapshot."""
    environment = workspace.environment
    checks = Command.objects.filter(workspace=workspace, ended_at__isnull=False).exclude(check_name="")
    last_checks = {
        check.check_name: {"exit_status": check.exit_status, "at": _time(check.ended_at)}
        for check in checks.order_by("ended_at")
    }
    return {
        "format": MANIFEST_FORMAT,
        "workspace": workspace.key,
        "snapshot": snapshot.number,
        "parent": snapshot.parent.number if snapshot.parent else None,
        "kind": snapshot.kind,
        "at": _time(snapshot.created_at),
        "tree": snapshot.tree_hex,
        "entries": snapshot.entries,
        "bytes": snapshot.bytes,
        "skipped": len(snapshot.skipped),
        **made_with(environment),
        "image_digest": workspace.base.get("digest"),
        "machine_image": _image_of(workspace),
        "setup_layer": workspace.base.get("layer_digest"),
        "repository": workspace.source.get("git"),
        "ref": workspace.source.get("ref") or None,
        "source_sha": workspace.source.get("sha"),
        "git": git,
        "checks": last_checks,
        "memory": None,
        "disk_generation": workspace.disk_generation,
    }


def _image_of(workspace) -> str | None:
    """Return version and digest of the root image of the newest Run; for a microVM the host chooses it."""
    run = Run.objects.filter(workspace=workspace).order_by("-started_at").first()
    return run.owner.get("image") if run else None


def _time(moment) -> str:
    return moment.isoformat(timespec="milliseconds")


def _git_state(tree) -> dict | None:
    """Return branch and commit of a repository at the root, read from its files, so its configuration runs nothing."""
    try:
        with tree.files() as files:
            if not stat.S_ISDIR(files.stat(b".git").st_mode):
                return None
            head = _small(files, b".git/HEAD")
            if not head.startswith("ref: refs/heads/"):
                return {"branch": None, "sha": head[:64]}
            branch = head.removeprefix("ref: refs/heads/")
            return {"branch": branch, "sha": _ref(files, branch)}
    except (OSError, ValueError):
        return None


def _small(files, path: bytes, limit: int = 4096) -> str:
    """Return the text of a regular file. Raise ValueError for anything else."""
    if not stat.S_ISREG(files.stat(path).st_mode):
        raise ValueError(path)
    return read_whole(files, path, limit).decode("utf-8", "replace").strip()


def _ref(files, branch: str) -> str | None:
    if ".." in branch.split("/"):
        return None
    try:
        return _small(files, b".git/refs/heads/" + branch.encode())[:64]
    except (OSError, ValueError):
        pass  # the ref is packed, or the branch is unborn
    try:
        packed = _small(files, b".git/packed-refs", PACKED_REFS)
    except (OSError, ValueError):
        return None
    named = (line for line in packed.splitlines() if line.endswith(f" refs/heads/{branch}"))
    return next((line.split(" ", 1)[0] for line in named), None)


def open_run(workspace) -> Run | None:
    return Run.objects.filter(workspace=workspace, ended_at=None).first()
