"""Come back to a paused or stopped workspace by choice.

With its files, a snapshot's, a clean checkout, only its notes, or its files under another environment.
"""

import re
from itertools import count

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy

from dashboard.models import Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid
from workspaces import lifecycle
from workspaces.lifecycle.states import must_be
from workspaces.models import Operation, State, Workspace
from workspaces.operations import uploads_elsewhere
from workspaces.services import environments, revisions

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
KEY_LENGTH = 64


class Choice(TextChoices):
    """What a workspace resumes with; the labels are shown."""

    SAME = "same", gettext_lazy("The same files")
    SNAPSHOT = "snapshot", gettext_lazy("The files of a snapshot")
    CLEAN = "clean", gettext_lazy("A clean checkout of today's branch")
    NOTES = "notes", gettext_lazy("Only the notes")
    ENVIRONMENT = "environment", gettext_lazy("The same files under another environment")


# The right that a choice needs besides using the workspace. Two of them keep what was there as a new workspace.
NEEDS = {
    Choice.SNAPSHOT: "restore",
    Choice.CLEAN: "create_workspace",
    Choice.NOTES: "create_workspace",
    Choice.ENVIRONMENT: "manage_environments",
}


def come_back(
    workspace, choice: str, *, caller: Caller, number: int | None = None, environment: str = ""
) -> tuple[Operation, Workspace | None]:
    """Submit what the choice needs, all or nothing; return (the first operation, the fork of what was there or None).

    The workspace resumes once its files are in place; if they cannot be put there, it stays as it is. Problem 409 if
    it is up, or a clean start is not possible; 422 for another choice.
    """
    must_be(workspace, State.PAUSED, State.STOPPED, what="returned to")
    with Team.objects.turn(workspace.team_id):
        if choice == Choice.SAME:
            return lifecycle.resume(workspace, by=caller.actor), None
        if choice == Choice.SNAPSHOT:
            if number is None:
                raise invalid("Name the snapshot to return to.")
            return lifecycle.restore(workspace, number, by=caller.actor, then_resume=True), None
        if choice == Choice.CLEAN:
            source = clean_source(workspace)
            if source is None:
                raise conflict(f"{workspace.key} was not cloned from a repository that can be cloned again.")
            return _start_over(workspace, source, caller)
        if choice == Choice.NOTES:
            source = source_beside_notes(workspace)
            if source is None:
                raise conflict(f"{workspace.key} is a folder on this host; its files are yours to change.")
            return _start_over(workspace, source, caller, keep_notes=True)
        if choice == Choice.ENVIRONMENT:
            if not environment:
                raise invalid("Name the environment to return under.")
            return environments.move(workspace, environment, caller=caller), None
    raise invalid(f"The choice is one of {', '.join(Choice.values)}.")


def clean_source(workspace) -> dict | None:
    """Return the source of a clean checkout: its repository, at the branch it was made from; None without one."""
    if workspace.environment.capabilities.own_folder or not workspace.source.get("git"):
        return None
    ref = workspace.source.get("ref") or ""
    return {"git": workspace.source["git"]} | ({"ref": ref} if ref and not COMMIT.fullmatch(ref) else {})


def source_beside_notes(workspace) -> dict | None:
    """Return the source that is there beside the notes alone: its repository or upload anew, or {} for no files.

    None in a connected folder.
    """
    if workspace.environment.capabilities.own_folder:
        return None
    if found := clean_source(workspace):
        return found
    if workspace.remote:  # a fork of a clone
        return {"git": workspace.remote}
    upload = workspace.source.get("upload")
    return {"upload": upload} if upload and uploads_elsewhere.is_kept(workspace.team_id, upload) else {}


def _start_over(workspace, source: dict, caller: Caller, **how) -> tuple[Operation, Workspace]:
    """Keep what is there as a fork, and replace the files."""
    kept = lifecycle.fork(workspace, _key_of_fork(workspace), caller=caller)
    how |= {"base": workspace.head.number, "replace": True, "then_resume": True}
    return revisions.ask(workspace, source, by=caller.actor, **how), kept


def _key_of_fork(workspace) -> str:
    """Return a free key for what was there: KEY-before-N."""
    taken = set(Workspace.objects.kept().filter(team=workspace.team_id).values_list("key", flat=True))
    ending = f"-before-{workspace.next_snapshot}"
    for again in count(1):
        more = ending if again == 1 else f"{ending}-{again}"
        if (key := workspace.key[: KEY_LENGTH - len(more)] + more) not in taken:
            return key
    raise AssertionError("count() does not end")
