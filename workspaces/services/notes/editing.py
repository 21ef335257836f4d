"""Edit a workspace's notes: in its files while it is up, else as a version that the next resume writes."""

from dashboard.models import Team
from dashboard.people.access import Caller
from dashboard.problems import Problem, conflict
from workspaces import lifecycle
from workspaces.changes import file_writes, history
from workspaces.lifecycle.activity import touch
from workspaces.models import NoteVersion, State, Workspace
from workspaces.services.notes import texts, versions

STATES = (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED)


def edit(workspace, text: str, *, caller: Caller, seen: str | None = None, days: int | None = None) -> NoteVersion:
    """Save the text as the workspace's notes; return the version.

    `seen` is the SHA-256 of the notes that the caller edited ("" for none): Problem 409 if they are others by now.
    An agent's edit resumes a paused workspace; in a connected folder a person has to allow it (AskFirst).
    """
    data, days = texts.checked(text), texts.checked_days(days)
    lifecycle.must_be(workspace, *STATES, what="given notes")
    wanted = texts.stored(workspace, data)
    if not caller.is_person:
        lifecycle.resume_for_use(workspace, by=caller.actor)
        lifecycle.wait_until_ready(workspace)
    touch(workspace)
    if workspace.state == State.READY:
        return _write(workspace, wanted, by=caller.actor, seen=seen, days=days)
    with Team.objects.turn(workspace.team_id):
        row = Workspace.objects.locked().get(pk=workspace.pk)
        last = versions.newest(row)
        _refuse_if_changed(last.sha256 if last else "", seen)
        return _added(row, wanted, by=caller.actor, days=days, given=False)


def live(workspace) -> texts.NoteText:
    """Return the notes as the file is now, in a workspace that is up. Problem 503 if the runner does not answer."""
    most = {"whole": texts.MAX_BYTES, "head": texts.READ_BYTES, "tail": 1}
    try:
        found = history.glimpse(workspace, history.LIVE, versions.PATH, **most)
    except Problem as problem:
        if problem.status == 404:
            return texts.NoteText()
        raise
    return texts.stored(workspace, found.head)


def _write(workspace, wanted, *, by, seen, days) -> NoteVersion:
    """Write the file, after what was there is kept as a version."""
    file_writes.require_write(workspace, versions.PATH, wanted.text.encode(), by=by)  # before anything is read
    found = live(workspace)
    _refuse_if_changed(found.sha256, seen)
    if found.is_cut:
        raise conflict(f"The file has more than {texts.MAX_BYTES:,} bytes. Shorten it in the workspace first.")
    with Team.objects.turn(workspace.team_id):
        versions.save_if_changed(Workspace.objects.locked().get(pk=workspace.pk), found, by=by)
    file_writes.write_file(workspace, versions.PATH, wanted.text.encode(), by=by)
    with Team.objects.turn(workspace.team_id):
        row = Workspace.objects.locked().get(pk=workspace.pk)
        return _added(row, wanted, by=by, days=days, given=True)


def _refuse_if_changed(now: str, seen: str | None):
    if seen is not None and seen != now:
        raise conflict("The notes changed since you read them. Read them again; nothing was saved.", sha256=now)


def _added(row, wanted, *, by, days, given: bool) -> NoteVersion:
    last = versions.newest(row)
    same = last is not None and (last.sha256, last.days) == (wanted.sha256, days)
    if same and (last.given_at is not None or not given):
        return last
    made = versions.add(row, wanted, by=by.as_json, days=days, given=given)
    data = {"version": made.number, "sha256": made.sha256, "waits": not given}
    lifecycle.record(row, by, "notes.edited", data | ({"redacted": made.redacted} if made.redacted else {}))
    return made
