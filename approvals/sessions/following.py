"""Import the transcripts of sessions as they grow: from the offset that was reached, whole lines only.

Agents write these files, also in workspaces, so how much of them is read is bounded: in a sweep, of a file, of a line.
"""

import hashlib
import logging
import time
from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q

from approvals.agents.lines import Line
from approvals.agents.transcript_values import row_of
from approvals.agents.transcripts import CONVERSATIONS
from approvals.models import AgentSession, Follow, MessageSource
from approvals.sessions import places, rows, sessions
from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from workspaces.secrets.masking import Masker
from workspaces.store import StoreError
from workspaces.store.safe_open import BadPath

logger = logging.getLogger("handrail.conversations")
INTERVAL = 10  # seconds between two sweeps
MAX_READ = 4 << 20  # bytes that are imported in one transaction
MAX_LINE = 16 << 20  # bytes; a longer line is skipped and counted
HEAD = 4096  # bytes whose digest tells whether a file was written anew
READS_OF_ONE = 4  # of one file in one sweep, so that the others get their turn
MAX_SWEEP = 5.0  # seconds of one sweep; what is left comes first in the next one
MAX_FILE = 256 << 20  # bytes of one file that are imported
MAX_BRANCHES = 100  # times that a session's transcript can be written anew
TOO_LARGE = f"only its first {MAX_FILE >> 20} MiB are imported"
TOO_OFTEN = "it was written anew too often"
LOOKS_FOR = timedelta(days=14)  # after the last sign of a session, during which its file may grow
IMPORTER = Actor.system("transcript import")
_swept_at = -INTERVAL
_left: list[int] = []  # ids of the last sweep that it did not come to


def sweep():
    """Import what transcripts on this machine gained, at most once per INTERVAL."""
    global _swept_at, _left
    began = time.monotonic()
    if began - _swept_at < INTERVAL:
        return
    _swept_at = began
    todo = _left or list(_open_ones().values_list("pk", flat=True))
    while todo and time.monotonic() - began < MAX_SWEEP:
        if follow := _followed().filter(pk=todo.pop(0)).first():
            read_on(follow)
    _left = todo


def _followed():
    return Follow.objects.select_related("session__workspace__environment", "session__parent")


def _open_ones():
    here = Q(session__workspace=None) | Q(session__workspace__runner__host=settings.HANDRAIL_HOST_NAME)
    since = clock.now() - LOOKS_FOR
    return Follow.objects.filter(here, session__last_at__gt=since).order_by("-session__last_at", "pk")


def read_home(workspace, tree):
    """Import new rows of the transcripts in a workspace at the end of its run; its home is in `tree`."""
    since = clock.now() - LOOKS_FOR
    try:
        for follow in _followed().filter(session__workspace=workspace, session__last_at__gt=since).order_by("pk"):
            read_on(follow, tree)
    except Exception:
        # Broad on purpose: a run ends whatever its agent has written.
        logger.exception("the transcripts in %s were not read", workspace.pk)


def read_on(follow: Follow, tree=None) -> int:
    """Import new rows of the file; return the number of new messages. A problem is stored for the page."""
    if tree is None and places.is_inside(follow.session) and (tree := places.home_at_rest(follow.session)) is None:
        return 0  # read at the end of the run
    new, problem = 0, ""
    try:
        for _ in range(READS_OF_ONE):
            found = _read_some(follow, tree)
            if found is None:
                break
            new += found
    except (OSError, StoreError, BadPath) as error:
        problem = (getattr(error, "strerror", "") or str(error))[:200]
    if problem != follow.problem:
        Follow.objects.filter(pk=follow.pk).update(problem=problem)
        follow.problem = problem
    return new


def _read_some(follow: Follow, tree) -> int | None:
    """Import the next lines in one transaction; return how many messages are new, None if there is nothing to read."""
    with places.open_transcript(follow, tree) as file:
        is_anew = follow.offset > 0 and not _is_continued(follow, file)
        offset, state = (0, {}) if is_anew else (follow.offset, follow.state)
        if file.info.st_size <= offset and not is_anew:
            return None
        if is_anew and follow.session.branch >= MAX_BRANCHES:
            raise OSError(TOO_OFTEN)
        if offset >= MAX_FILE:
            raise OSError(TOO_LARGE)
        piece, length, skipped = _whole_lines(file, offset)
        if not length and not is_anew:
            return None
        reached = {"inode": file.info.st_ino, "offset": offset + length, "head_sha256": _head(file, offset + length)}
    state = dict(state)
    lines, unknown = _parsed(piece, CONVERSATIONS[follow.session.dialect].read, state)
    return _store(follow, lines, unknown + skipped, reached | {"state": state}, piece, is_anew=is_anew)


def _is_continued(follow: Follow, file) -> bool:
    """Return whether the file still begins with the bytes that were read, and whether they ended with a whole line."""
    if file.info.st_ino != follow.inode or file.info.st_size < follow.offset:
        return False
    return _read(file, 1, follow.offset - 1) == b"\n" and _head(file, follow.offset) == follow.head_sha256


def _head(file, reached: int) -> str:
    return hashlib.sha256(_read(file, min(reached, HEAD), 0)).hexdigest()


def _read(file, length: int, offset: int) -> bytes:
    """Return that many bytes, fewer at the file's end: `pread` may return fewer before."""
    data = bytearray()
    while len(data) < length and (piece := file.pread(length - len(data), offset + len(data))):
        data += piece
    return bytes(data)


def _whole_lines(file, offset: int) -> tuple[bytes, int, int]:
    """Return (whole lines from the offset, bytes to go on by, lines that were too long and are passed over)."""
    piece, searched = b"", 0
    while len(piece) <= MAX_LINE:
        more = _read(file, MAX_READ, offset + len(piece))
        piece, searched = piece + more, len(piece)
        if (end := piece.rfind(b"\n", searched) + 1) > 0:
            return piece[:end], end, 0
        if len(more) < MAX_READ:
            return b"", 0, 0  # still being written
    return _passed_over(file, offset, len(piece))


def _passed_over(file, offset: int, length: int) -> tuple[bytes, int, int]:
    """Look for the end of a line that is too long."""
    while length < MAX_FILE and (more := _read(file, MAX_READ, offset + length)):
        if (end := more.find(b"\n") + 1) > 0:
            return b"", length + end, 1
        length += len(more)
    return b"", 0, 0


def _parsed(piece: bytes, read, state: dict) -> tuple[list[Line], int]:
    """Return (messages, rows that were not understood)."""
    lines, unknown = [], 0
    for text in piece.split(b"\n"):
        if not text.strip():
            continue
        row = row_of(text)
        found = read(row, state) if row is not None else None
        unknown += found is None
        lines += found or []
    return lines, unknown


def _store(
    follow: Follow, lines: list[Line], unknown: int, reached: dict, piece: bytes, *, is_anew: bool
) -> int | None:
    """Store the messages and where the file stands, and log which bytes they came from; None if another was faster."""
    with Team.objects.turn(follow.session.team_id):
        locked = Follow.objects.locked().get(pk=follow.pk)
        if (locked.offset, locked.inode) != (follow.offset, follow.inode):
            return None
        session = AgentSession.objects.get(pk=follow.session_id)
        if is_anew:
            session.branch += 1
            AgentSession.objects.filter(pk=session.pk).update(branch=F("branch") + 1)
        known = {row.key for row in lines if row.key} & _known(session)
        started = reached["state"].pop("started", [])
        new = rows.add(session, lines, MessageSource.TRANSCRIPT)
        fresh = [line for line in lines if line.key not in known]
        sessions.count_tokens(session, fresh, reached["state"].get("totals"))
        title = Masker(session.workspace).stored(reached["state"].pop("title", ""))
        sessions.note_of_transcript(session, lines, unknown, title, reached["state"].get("cost"))
        _follow_started(session, follow, started)
        Follow.objects.filter(pk=follow.pk).update(read_at=clock.now(), **reached)
        if new or is_anew:
            _record(session, follow, reached, piece, new, is_anew=is_anew)
    for name, value in reached.items():
        setattr(follow, name, value)
    return new


def _follow_started(session: AgentSession, follow: Follow, started: list):
    """Follow the transcripts of sub-agents that this one says were started: no hook may have told of them."""
    for native_id, call_id in started:
        child = sessions.started_by(session, native_id, call_id)
        path = CONVERSATIONS[session.dialect].of_sub_agent(follow.path, native_id)
        if child and places.can_be(child, path) and not child.transcript:
            AgentSession.objects.filter(pk=child.pk).update(transcript=path)
            Follow.objects.get_or_create(session=child, path=path)


def _known(session: AgentSession) -> set[str]:
    """Return the ids of messages that were imported before: they are not counted again in a file written anew."""
    told = (MessageSource.TRANSCRIPT, MessageSource.BOTH)
    return (
        set(session.messages.filter(source__in=told).values_list("native_id", flat=True)) if session.branch else set()
    )


def _record(session: AgentSession, follow: Follow, reached: dict, piece: bytes, new: int, *, is_anew: bool):
    """Log the digest of the imported bytes, so that it can be said later whether a transcript is the one that was."""
    end = reached["offset"]
    data = {"session": session.native_id, "from": end - len(piece), "to": end, "messages": new}
    data |= {"sha256": hashlib.sha256(piece).hexdigest()} | ({"branch": session.branch} if is_anew else {})
    verb = "session.transcript_read"
    workspace = session.workspace_id
    Event.objects.record(session.team_id, actor=IMPORTER, verb=verb, subject=session, workspace=workspace, data=data)
