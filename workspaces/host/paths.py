"""Paths below HANDRAIL_HOME. Only the runner writes there."""

from pathlib import Path

from django.conf import settings

from dashboard.keys.key_files import make_private


def store_of(team_id) -> Path:
    return settings.HANDRAIL_HOME / "stores" / str(team_id)


def folder_of(workspace_id) -> Path:
    """Return the folder of one workspace: `tree`, `home`, `scan` (the stat cache), `journal`, `programs/ID`."""
    return settings.HANDRAIL_HOME / "workspaces" / str(workspace_id)


def tree_of(workspace) -> Path:
    """Return the folder that the workspace sees as /workspace; with the `folder` driver it is the user's own folder."""
    if path := workspace.own_folder:
        return Path(path)
    return folder_of(workspace.pk) / "tree"


def bundle_of(workspace) -> Path:
    """Return the file of the newest git bundle that was made of a workspace for a download."""
    return folder_of(workspace.pk) / "git.bundle"


def program_of(workspace_id, program_id) -> Path:
    """Return the folder of one shim: the program's spec, output and exit."""
    return folder_of(workspace_id) / "programs" / str(program_id)


def rehearsal_of(workspace_id, operation_id) -> Path:
    """Return the folder of one rehearsal while it runs: `tree` (the copy of the files) and `home`."""
    return folder_of(workspace_id) / "rehearsals" / str(operation_id)


def snapshot_folders() -> Path:
    """Return the folder of the snapshots that people opened as folders, as TEAM/WORKSPACE/NUMBER."""
    return settings.HANDRAIL_HOME / "snapshots"


def snapshot_folder_of(workspace, number: int) -> Path:
    return snapshot_folders() / workspace.team.slug / workspace.key / str(number)


def checkpoints_of(workspace_id) -> Path:
    """Return the folder of a workspace's checkpoints; outside of its own, which an archive empties."""
    return settings.HANDRAIL_HOME / "checkpoints" / str(workspace_id)


def checkpoint_of(workspace_id, checkpoint_id) -> Path:
    return checkpoints_of(workspace_id) / str(checkpoint_id)


def make_folders(workspace) -> Path:
    folder = make_private(folder_of(workspace.pk))
    for name in ("home", "programs") if workspace.own_folder else ("tree", "home", "programs"):
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    return folder


def runtime() -> Path:
    """Return the folder of sockets and heartbeats: a short path, accessible only to the user that runs Handrail."""
    return make_private(settings.HANDRAIL_RUNTIME)


def preview_of(run_id, port: int) -> Path:
    """Return the socket at which web reaches a port of a Run; only Handrail's own user can open its folder."""
    return runtime() / "previews" / f"{run_id}-{port}"


def inside(path: str) -> bytes:
    """Return a path as bytes relative to the workspace's root; `/workspace/a` and `a` are the same."""
    raw = path.encode("utf-8", "surrogateescape")
    return raw.removeprefix(b"/workspace").lstrip(b"/") if (raw + b"/").startswith(b"/workspace/") else raw
