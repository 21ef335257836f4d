"""Snapshots as the runner takes them: the store, the row, the manifest and the event. Blocking; for threads."""

import hashlib
import stat
from pathlib import Path

from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from dashboard.strict_json import canonical
from workspaces import lifecycle, places
from workspaces.drift import made_with
from workspaces.history import named
from workspaces.models import Command, Manifest, Run, Snapshot, Workspace
from workspaces.runner import leaks
from workspaces.runner.kept import KeptTree
from workspaces.store import LocalTree, Store
from workspaces.store.files import read_whole

MANIFEST_FORMAT = 1
PACKED_REFS = 16 << 20  # bytes of them that are looked at


def store_of(workspace) -> Store:
    """The team's store, made at first use."""
    path = places.store_of(workspace.team_id)
    if path.exists():
        return Store.open(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Store.create(path)


def host_tree(workspace) -> LocalTree:
    """The tree of a workspace whose files lie on this host; live.py knows whether they do."""
    home = places.folder_of(workspace.pk) / "home"
    return LocalTree(places.tree_of(workspace), cache=cache_of(workspace), home=home)


def cache_of(workspace) -> Path:
    return places.folder_of(workspace.pk) / "scan"


def journal_of(workspace) -> Path:
    return places.folder_of(workspace.pk) / "journal"


def scan(workspace, tree, progress=None, *, thorough: bool = False, cancel=None):
    """The live tree (as live.py gives it) as the store has it now: a snapshot that no row names.

    Nothing is kept that holds the value of a secret: leaks.SecretFound, a StoreError, says where.
    """
    if isinstance(tree, KeptTree):
        return tree.snapshot
    inspector = leaks.inspector_of(workspace)
    agree = inspector.agree if inspector else None
    return store_of(workspace).snapshot(
        tree, progress=progress, cancel=cancel, thorough=thorough, inspect=inspector, agree=agree
    )


def take(
    workspace, tree, *, kind: str, by: Actor, label="", progress=None, cancel=None, thorough: bool = False, ports=None
) -> Snapshot:
    """Snapshot a live tree (as live.py gives it) and make it the workspace's head: packs and trees before the row.

    `thorough` believes no file's times; `ports` are those on which programs listen.
    """
    kept = scan(workspace, tree, progress, thorough=thorough, cancel=cancel)
    git = _git_state(tree)
    leaks.forget(workspace)
    with transaction.atomic():
        row = Workspace.objects.select_for_update().select_related("environment", "head").get(pk=workspace.pk)
        row.environment = workspace.environment  # a renewal's is the row's only once it has gone well
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
            by={"type": by.type, "id": by.id, "label": by.label},
            created_at=clock.now(),
        )
        row.head = snapshot
        row.next_snapshot += 1
        if kind == "setup" and row.baseline_id is None:
            row.baseline = snapshot
        row.owed = ""
        row.save(update_fields=["head", "next_snapshot", "baseline", "owed"])
        body = manifest_of(row, snapshot, git) | {"ports": ports or []}
        Manifest.objects.create(snapshot=snapshot, body=body, sha256=hashlib.sha256(canonical(body)).hexdigest())
        data = {"number": snapshot.number, "kind": kind, "label": label, "entries": kept.entries, "tree": kept.tree}
        lifecycle.record(row, by, "snapshot.taken", data, subject=snapshot)
    for name in ("head", "baseline", "next_snapshot", "owed"):
        setattr(workspace, name, getattr(row, name))
    return snapshot


def manifest_of(workspace, snapshot, git: dict | None) -> dict:
    """The provenance record of a snapshot."""
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
    """What the root of its newest Run is made of, by version and digest; a microVM's is the host's choice."""
    run = Run.objects.filter(workspace=workspace).order_by("-started_at").first()
    return run.owner.get("image") if run else None


def _time(moment) -> str:
    return moment.isoformat(timespec="milliseconds")


def _git_state(tree) -> dict | None:
    """Branch and commit of a repository at the root, read from its files: nothing of its configuration is run."""
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
    """The text of a regular file; ValueError for what is none."""
    if not stat.S_ISREG(files.stat(path).st_mode):
        raise ValueError(path)
    return read_whole(files, path, limit).decode("utf-8", "replace").strip()


def _ref(files, branch: str) -> str | None:
    if ".." in branch.split("/"):
        return None
    try:
        return _small(files, b".git/refs/heads/" + branch.encode())[:64]
    except (OSError, ValueError):
        pass  # packed, or not born yet
    try:
        packed = _small(files, b".git/packed-refs", PACKED_REFS)
    except (OSError, ValueError):
        return None
    named = (line for line in packed.splitlines() if line.endswith(f" refs/heads/{branch}"))
    return next((line.split(" ", 1)[0] for line in named), None)


def open_run(workspace) -> Run | None:
    return Run.objects.filter(workspace=workspace, ended_at=None).first()
