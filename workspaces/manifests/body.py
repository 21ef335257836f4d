"""What is in a manifest: `of_snapshot` and `of_resume` return the body that is signed."""

import hashlib

from workspaces.manifests.git_state import dirty_of, git_of
from workspaces.manifests.lock_files import changes as lock_files_changes
from workspaces.manifests.lock_files import lock_files_of
from workspaces.manifests.submodules import submodules_of
from workspaces.models import Command, Environment, HandedSecret, Manifest, Operation, Run, Snapshot
from workspaces.store.file_reader import LEFT_OUT

FORMAT = 2
NAMED = 200  # entries that a snapshot could not keep, that are named
AFTER_SETUP = ("setup", "fork")  # kinds of the snapshots taken right after setup
OF_TREE = ("git", "upstream", "dirty", "submodules", "lock_files")  # what is read from the files


def made_with(environment: Environment) -> dict:
    """Return the part that identifies the environment, its image and its setup script."""
    return {
        "environment": {"name": environment.name, "version": environment.version, "driver": environment.driver},
        "image": environment.image or None,
        **({"agent_programs": environment.agent_programs} if environment.agent_programs else {}),
        "setup_sha256": hashlib.sha256(environment.setup.encode()).hexdigest() if environment.setup else None,
    }


def manifest_after_setup(workspace) -> dict | None:
    """Return the manifest of the newest snapshot that was taken right after setup, None without one."""
    made = Snapshot.objects.filter(workspace=workspace, kind__in=AFTER_SETUP, manifest__isnull=False)
    last = made.select_related("manifest").order_by("-number").first()
    return last.manifest.body if last else None


def since_set_up(environment: Environment, made: dict | None, lock_files: list | None) -> list[dict]:
    """Return how the lock files differ from those at setup; nothing for an environment without a setup script."""
    return lock_files_changes(made.get("lock_files"), lock_files) if made and environment.setup else []


def tree_facts(files) -> dict:
    """Return the facts that are read from a tree: git state, what is not committed, and lock files."""
    git, upstream = git_of(files)
    dirty = dirty_of(files, git["sha"]) if git else None
    submodules = submodules_of(files) if git else None
    return {
        "git": git,
        "upstream": upstream,
        "dirty": dirty,
        "submodules": submodules,
        "lock_files": lock_files_of(files),
    }


def facts_of_parent(parent, tree_hex: str) -> dict | None:
    """Return the tree facts in the parent's manifest if its tree is the same and nothing was cut off, else None."""
    if parent is None or parent.tree_hex != tree_hex:
        return None
    manifest = Manifest.objects.filter(snapshot=parent).first()
    if manifest is None or manifest.body.get("format") != FORMAT or (manifest.body["dirty"] or {}).get("cut_off"):
        return None
    if not manifest.body.keys() >= set(OF_TREE):  # an older Handrail recorded less
        return None
    return {name: manifest.body[name] for name in OF_TREE}


def of_snapshot(workspace, snapshot, facts: dict, *, ports: list, services: list | None, cause: dict) -> dict:
    """Return the body for a snapshot; `facts` as of `tree_facts`, and `notes` that the files hold.

    `ports` and `services` are those of one moment: for a snapshot at the end of a Run, before its programs were ended.
    `services` of None: those that run now.
    """
    parent = snapshot.parent
    return {
        "format": FORMAT,
        "workspace": workspace.key,
        "snapshot": snapshot.number,
        "parent": parent.number if parent else None,
        "parent_tree": parent.tree_hex if parent else None,
        "kind": snapshot.kind,
        "label": snapshot.label,
        "at": _time(snapshot.created_at),
        "tree": snapshot.tree_hex,
        "entries": snapshot.entries,
        "bytes": snapshot.bytes,
        "skipped": len(snapshot.skipped),
        "not_kept": not_kept(snapshot.skipped),
        "ignored": _ignored(workspace, snapshot),
        "set_up_out_of_date": _out_of_date(workspace, snapshot, facts),
        "cause": cause,
        **facts,
        **_workspace_facts(workspace),
        **({} if services is None else {"services": services}),
        "machine_image": _image_of(workspace),
        "ports": ports,
        "memory": None,
    }


def of_resume(workspace, run_id, outcome: dict, *, at, cause: dict) -> dict:
    """Return the body for a resume; `outcome` has proof, memory, image, drift and notes.

    What is read from the files is that of the snapshot that they were compared with.
    """
    head = Manifest.objects.filter(snapshot=workspace.head_id).first() if workspace.head_id else None
    facts = {name: head.body.get(name) for name in OF_TREE} if head else dict.fromkeys(OF_TREE)
    return {
        "format": FORMAT,
        "workspace": workspace.key,
        "run": str(run_id),
        "snapshot": outcome["proof"]["snapshot"],
        "kind": "resume",
        "at": _time(at),
        "resumed_at": at.isoformat(),
        "tree": workspace.head.tree_hex if workspace.head else None,
        "proof": outcome["proof"],
        "cause": cause,
        **facts,
        **_workspace_facts(workspace),
        "machine_image": outcome["image"],
        "ports": workspace.vitals.get("ports") or [],
        "notes": outcome.get("notes"),
        "memory": outcome["memory"],
        "drift": outcome["drift"],
    }


def of_now(workspace) -> dict:
    """Return the same facts as they are now, for a comparison; those of the files are from the newest snapshot."""
    head = Manifest.objects.filter(snapshot=workspace.head_id).first() if workspace.head_id else None
    return (head.body if head else {}) | _workspace_facts(workspace) | {"ports": workspace.vitals.get("ports") or []}


def _workspace_facts(workspace) -> dict:
    """Return what a workspace is made from, and what it last ran."""
    handed = HandedSecret.objects.filter(workspace=workspace).exclude(name="HANDRAIL_TOKEN")
    return {
        **made_with(workspace.environment),
        "image_digest": workspace.base.get("digest"),
        "setup_layer": workspace.base.get("layer_digest"),
        "repository": workspace.remote or None,
        "ref": workspace.source.get("ref") or None,
        "source_sha": workspace.source.get("sha"),
        "checks": _last_checks(workspace),
        "services": running_services(workspace),
        "secrets": sorted(set(handed.values_list("name", flat=True))),
        "disk_generation": workspace.disk_generation,
    }


def not_kept(skipped: list[dict]) -> list[dict]:
    """Return {path, reason} of the first entries that could not be kept, without those that the environment ignores."""
    return [entry for entry in skipped if entry["reason"] != LEFT_OUT][:NAMED]


def _out_of_date(workspace, snapshot, facts: dict) -> list[dict]:
    if snapshot.kind in AFTER_SETUP:
        return []
    return since_set_up(workspace.environment, manifest_after_setup(workspace), facts["lock_files"])


def _ignored(workspace, snapshot) -> dict | None:
    """Return {patterns, count} of what the environment leaves out of snapshots, None if it names no patterns."""
    if not workspace.environment.snapshot_ignore:
        return None
    count = sum(entry["reason"] == LEFT_OUT for entry in snapshot.skipped)
    return {"patterns": workspace.environment.snapshot_ignore.splitlines(), "count": count}


def _last_checks(workspace) -> dict:
    checks = Command.objects.filter(workspace=workspace, ended_at__isnull=False).exclude(check_name="")
    return {
        check.check_name: {"exit_status": check.exit_status, "at": _time(check.ended_at)}
        for check in checks.order_by("ended_at")
    }


def running_services(workspace) -> list[str]:
    """Return the names of the services that run."""
    running = Command.objects.filter(workspace=workspace, operation__in=Operation.objects.open()).exclude(service="")
    return sorted(set(running.values_list("service", flat=True)))


def _image_of(workspace) -> str | None:
    """Return version and digest of the root image of the newest Run; for a microVM the host chooses it."""
    run = Run.objects.filter(workspace=workspace).order_by("-started_at").first()
    return run.owner.get("image") if run else None


def _time(moment) -> str:
    return moment.isoformat(timespec="milliseconds")
