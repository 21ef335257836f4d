"""Where things lie under HANDRAIL_HOME. Only the runner writes there."""

import time
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from dashboard.keys import make_private


def store_of(team_id) -> Path:
    return settings.HANDRAIL_HOME / "stores" / str(team_id)


def folder_of(workspace_id) -> Path:
    """Everything of one workspace: `tree`, `home`, `scan` (the stat cache), `journal`, `programs/ID`."""
    return settings.HANDRAIL_HOME / "workspaces" / str(workspace_id)


def tree_of(workspace) -> Path:
    """What the workspace sees as /workspace; a `folder` workspace's is the user's own folder."""
    if path := workspace.source.get("path"):
        return Path(path)
    return folder_of(workspace.pk) / "tree"


def program_of(workspace_id, program_id) -> Path:
    """The folder of one host process: what it was asked to run, its output, its end."""
    return folder_of(workspace_id) / "programs" / str(program_id)


def make_folders(workspace) -> Path:
    folder = make_private(folder_of(workspace.pk))
    for name in ("home", "programs") if workspace.source.get("path") else ("tree", "home", "programs"):
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    return folder


def runtime() -> Path:
    """Sockets and heartbeats, in a short path; theirs alone who run Handrail."""
    return make_private(settings.HANDRAIL_RUNTIME)


def drop_older(folder: Path, seconds: float):
    """Remove the files in the folders of this folder that nobody has written to for so long."""
    for path in folder.glob("*/*"):
        with suppress(FileNotFoundError):  # another one was quicker, or it was just given its name
            if path.stat().st_mtime < time.time() - seconds:
                path.unlink()
