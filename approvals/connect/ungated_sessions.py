"""Sessions of an agent in a connected folder that no hook has announced: found by the transcripts that they leave.

Such a session started without the gate (with --bare, say, or before the folder was connected). It cannot be undone, so
a person is told.
"""

import os
from datetime import timedelta
from pathlib import Path

from approvals.agents.dialect import Dialect
from approvals.agents.transcripts import CONVERSATIONS
from approvals.models import AgentSession
from approvals.sessions import places, sessions
from dashboard.database import clock

GRACE = timedelta(seconds=30)  # after its first line; its hook has been heard by then
TOLD_FOR = timedelta(hours=24)  # how long a session is shown as a problem of the folder
HEAD = 1 << 18  # bytes of a transcript in which its folder and its beginning are looked for
MAX_FILES = 500  # that are looked at in one sweep, the newest first


def words_on(workspace, dialect: Dialect) -> str:
    """Return a sentence on sessions that ran here without a gate lately, "" if there were none."""
    _record_unannounced(workspace, dialect.name)
    found = AgentSession.objects.filter(
        workspace=workspace, dialect=dialect.name, gated_by="", parent=None, started_at__gt=clock.now() - TOLD_FOR
    )
    if not (last := found.order_by("started_at").last()):
        return ""
    return (
        f"A session of {dialect.title} ran in {last.cwd} without Handrail's gate, at {clock.in_utc(last.started_at)}: "
        "nothing that it did was asked about."
    )


def _record_unannounced(workspace, name: str):
    """Note sessions that no hook has announced, since the folder was connected."""
    reader, folder, since = CONVERSATIONS.get(name), workspace.own_folder, workspace.created_at
    if not hasattr(reader, "beginning"):
        return
    files = {file.stem: file for file in _transcripts(reader, folder, since.timestamp())}
    agent = workspace.created_by_agent
    if not files or agent is None:
        return
    known = AgentSession.objects.filter(team=workspace.team_id, dialect=name, native_id__in=files)
    for native_id in set(files) - set(known.values_list("native_id", flat=True)):
        cwd, began = reader.beginning(_head(files[native_id]))
        is_here = cwd == folder or cwd.startswith(f"{folder}/")
        if is_here and began and began < clock.now() - GRACE:
            session = sessions.session_of(agent, name, native_id, workspace=workspace, cwd=cwd)
            AgentSession.objects.filter(pk=session.pk).update(started_at=max(began, since))
            places.follow(session, str(files[native_id]), None)


def _transcripts(reader, folder: str, since: float) -> list[Path]:
    """Return the transcripts written since then in folders whose name begins as this one's does."""
    root, prefix = Path.home() / reader.FOLDER, reader.project_of(folder)
    try:
        found = [
            (entry.stat(follow_symlinks=False).st_mtime, Path(entry.path))
            for place in root.iterdir()
            if place.name.startswith(prefix)
            for entry in os.scandir(place)
            if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
        ]
    except OSError:
        return []  # no such agent here, or a file that has just gone
    return [path for at, path in sorted(found, reverse=True)[:MAX_FILES] if at > since]


def _head(file: Path) -> bytes:
    try:
        with open(file, "rb") as opened:
            return opened.read(HEAD)
    except OSError:
        return b""
