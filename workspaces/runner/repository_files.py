"""Read what a repository says about its set-up when a workspace is created, for a person to confirm."""

import logging
from functools import partial

from workspaces.models import Workspace
from workspaces.provisioning.repository_files import MAX_BYTES, Suggestion, find
from workspaces.runner import notes

logger = logging.getLogger("handrail.runner")


def save_suggestions(workspace, tree):
    """Save what the files suggest. Nothing in them, or about them, stops the creation."""
    try:
        with tree.files() as files:
            found = find(partial(_read, files))
    except Exception:  # files of strangers: whatever is wrong with one is no fault of the workspace
        logger.exception("the files of %s that say how it is set up could not be read", workspace.pk)
        found = [Suggestion("", errors=["The repository's files could not be read; see the runner's log."])]
    rows = [each.as_json() for each in found]
    if rows != workspace.repository_files:
        workspace.repository_files = rows
        Workspace.objects.filter(pk=workspace.pk).update(repository_files=rows)


def _read(files, path: str) -> bytes | None:
    try:
        return notes.read(files, path.encode(), MAX_BYTES + 1)
    except OSError:  # behind a symlink, which is not followed
        return None
