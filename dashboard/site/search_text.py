"""Search in texts that no row holds or that are long: recordings, files of snapshots, the log, messages and prompts.

There is no index. Recordings and files are read, the newest first, until the time is over; a Scan says how far it came,
and its cursor is where the next one begins.
Secret values are kept out of recordings and snapshots when those are written, and of messages when they are kept.
"""

import codecs
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from threading import Lock
from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, TextField
from django.db.models.functions import Cast
from django.urls import reverse

from approvals.models import Action, ActionMessage, AgentMessage, SessionPrompt
from dashboard.event_log.sentences import in_words
from dashboard.models import Event
from dashboard.problems import Problem
from dashboard.site.search_limits import Hit, Limits, Position, Scan, newest
from dashboard.web.lookup import Order
from workspaces.changes import stores
from workspaces.models import Command, Snapshot, Terminal, Workspace
from workspaces.programs import recordings
from workspaces.programs.terminals import name_of
from workspaces.store import Store, StoreError
from workspaces.store.content import read_entry
from workspaces.store.objects import FILE, FOLDER

MIN_CHARS = 3  # shorter words are not looked for in recordings and files
MAX_RECORDING = 8 << 20  # bytes of one recording that are searched
MAX_FILE = 8 << 20  # bytes of a file that is searched
SMALL_FILE = 256 << 10  # bytes of a file that is kept in memory
MAX_CACHED = 32 << 20  # bytes of files kept in memory
MAX_LINE = 300  # characters of a line that is shown
MAX_LISTED = 5000  # recordings, or workspaces, of one scan
LOADED = 100  # rows of recordings or snapshots that are loaded at once
ENCODED = ("utf-8", "surrogatepass")
END = "."  # in place of a path: the whole snapshot was searched
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r(?!\n)|\x1b[@-Z\\-_]")


def is_scannable(words: list[str]) -> bool:
    return bool(words) and max(map(len, words)) >= MIN_CHARS


def outputs(caller, words: list[str], limits: Limits) -> Scan:
    """Search what commands and terminals printed, the newest first."""
    scan, deadline, wanted = Scan(), time.monotonic() + limits.seconds, _wanted(words)
    programs = _programs(caller, limits)
    scan.total = len(programs)
    for at, pk, program in _loaded(programs):
        if time.monotonic() > deadline or len(scan.hits) >= limits.most:
            break
        scan.searched, scan.cursor = scan.searched + 1, str(Position(at, pk))
        try:
            data = _recorded(program) if program else b""
        except Problem:
            data, scan.elsewhere = b"", scan.elsewhere + 1
        scan.large += len(data) > MAX_RECORDING
        if line := _line_with(ESCAPES.sub(b"", data), wanted):
            scan.hits.append(_output_hit(program, line[1]))
    return scan.closed(limits.before)


def _programs(caller, limits: Limits) -> list[tuple]:
    """Return (time, id, model) of the commands and terminals with a recording, the newest first."""
    places, found = _places(caller, limits).filter(pk=OuterRef("workspace")), []
    for model, by, more in ((Command, "by", {"output_bytes__gt": 0}), (Terminal, "opened_by", {})):
        rows = model.objects.filter(Exists(places), limits.times("created_at"), limits.made(by), swept_at=None, **more)
        rows = rows.order_by("-created_at", "-pk").values_list("created_at", "pk")
        found += [(at, str(pk), model) for at, pk in rows[:MAX_LISTED]]
    after = limits.position
    return sorted((row for row in found if not after or row[:2] < after.key), key=lambda row: row[:2], reverse=True)


def _loaded(programs: list[tuple]) -> Iterator[tuple]:
    """Yield (time, id, row), loaded some at a time; None for a row that was deleted meanwhile."""
    for begin in range(0, len(programs), LOADED):
        some, rows = programs[begin : begin + LOADED], {}
        for model in (Command, Terminal):
            ids = [pk for _, pk, kind in some if kind is model]
            loaded = model.objects.filter(pk__in=ids).select_related("workspace__team", "workspace__runner")
            rows |= {str(row.pk): row for row in loaded}
        yield from ((at, pk, rows.get(pk)) for at, pk, _ in some)


def _places(caller, limits: Limits):
    places = Workspace.objects.visible_to(caller).kept()
    return places.filter(key=limits.workspace) if limits.workspace else places


def _places_of_files(caller, limits: Limits):
    """Return the workspaces whose files are searched: with an agent or a person, those that are theirs."""
    return _places(caller, limits).filter(limits.workspaces())


def _wanted(words: list[str]) -> list[bytes]:
    return [word.lower().encode(*ENCODED) for word in words]


def _recorded(program) -> bytes:
    data = bytearray()
    for piece in recordings.of(program).pieces():
        data += piece
        if len(data) > MAX_RECORDING:
            break
    return bytes(data)


def _line_with(data: bytes, wanted: list[bytes]) -> tuple[int, str] | None:
    """Return (number, text) of the first line that has every word in it, in any case; None if there is none."""
    lowered = _lower(data)
    if any(word not in lowered for word in wanted):
        return None
    for number, line in enumerate(data.splitlines(), 1):
        if all(word in _lower(line) for word in wanted):
            return number, _around(line, wanted[0])
    return None


def _lower(data: bytes) -> bytes:
    """Return text in lower case, in every script."""
    return (
        data.lower()
        if data.isascii()
        else data.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")
    )


def _text_of(data: bytes) -> bytes | None:
    """Return the content of a text file as UTF-8; None if it is no text."""
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError:
            return None
    return None if b"\0" in data else data


def _around(line: bytes, word: bytes) -> str:
    """Return the part of a line around a word, as text."""
    begin = max(0, _lower(line).find(word) - MAX_LINE // 2)
    return line[begin : begin + MAX_LINE].decode("utf-8", "replace").strip()


def _output_hit(program, line: str) -> Hit:
    place = program.workspace
    if isinstance(program, Command):
        url, title = reverse("command", args=(place.team.slug, place.key, program.pk)), program.shown
    else:
        name = "terminal-recording" if program.ended_at else "terminal"
        url, title = reverse(name, args=(place.team.slug, place.key, program.pk)), name_of(program)
    return Hit(title, line, url, program.created_at, place.key)


class _Contents:
    """Contents of small files by their id in a team's store, the ones used last."""

    def __init__(self):
        self._kept, self._size, self._lock = OrderedDict(), 0, Lock()

    def read(self, team_id, store: Store, entry) -> bytes:
        key = (team_id, entry.content)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        data = read_entry(store.catalog, entry, 0, None)
        if entry.size > SMALL_FILE:
            return data
        with self._lock:
            if key not in self._kept:
                self._kept[key], self._size = data, self._size + len(data)
            while self._size > MAX_CACHED:
                self._size -= len(self._kept.popitem(last=False)[1])
        return data


_contents = _Contents()


def files(caller, words: list[str], limits: Limits) -> Scan:
    """Search paths and contents of the newest snapshot of each workspace, or of the chosen one."""
    keys, after = _keys_of_trees(caller, limits), limits.position
    scan, deadline, wanted = Scan(total=len(keys)), time.monotonic() + limits.seconds, _wanted(words)
    stores = {}
    for tree in _trees(keys):
        begin = unquote_to_bytes(after.more) if after and after.key == tree.key else b""
        if tree.team_id not in stores:
            stores[tree.team_id] = _store(tree.team_id)
        store = stores[tree.team_id]
        if store and not _search_tree(scan, tree, wanted, deadline, limits.most, store=store, after=begin):
            break
        scan.searched, scan.cursor = scan.searched + 1, str(Position(*tree.key, END))
    return scan.closed(limits.before)


class _Tree(NamedTuple):
    """A snapshot whose files are searched."""

    at: datetime
    pk: UUID
    number: int
    tree: bytes
    workspace: str
    team: str
    team_id: UUID

    @property
    def key(self) -> tuple[datetime, str]:
        return self.at, str(self.pk)


def _keys_of_trees(caller, limits: Limits) -> list[tuple]:
    """Return (time, id) of the snapshots to search after the position, the newest first."""
    teams = [team for team in caller.team_ids if _store(team) is not None]
    places, after = _places_of_files(caller, limits).filter(team__in=teams), limits.position
    if limits.at is None:
        rows, at, pk = places.exclude(head=None).filter(limits.times("head__created_at")), "head__created_at", "head_id"
    else:
        rows, at, pk = Snapshot.objects.filter(workspace__in=places, number=limits.at), "created_at", "pk"
    rows = rows.filter(**{f"{at}__lte": after.at}) if after else rows
    keys = rows.order_by(f"-{at}", f"-{pk}").values_list(at, pk)[:MAX_LISTED]
    return [key for key in keys if not after or _follows(key, after)]


def _follows(key: tuple, after: Position) -> bool:
    """Return whether something of the snapshot comes after the position: its rest, if the position is inside."""
    key = (key[0], str(key[1]))
    return key < after.key or (key == after.key and after.more != END)


def _trees(keys: list[tuple]) -> Iterator[_Tree]:
    """Yield the snapshots, loaded some at a time, without those that were deleted meanwhile."""
    shown = ("created_at", "pk", "number", "tree", "workspace__key", "workspace__team__slug", "workspace__team_id")
    for begin in range(0, len(keys), LOADED):
        some = [pk for _, pk in keys[begin : begin + LOADED]]
        found = {row[1]: _Tree._make(row) for row in Snapshot.objects.filter(pk__in=some).values_list(*shown)}
        yield from (found[pk] for pk in some if pk in found)


def _store(team_id) -> Store | None:
    try:
        return stores.readable(team_id)
    except (StoreError, Problem):
        return None  # the Storage page says what is wrong with it


def _search_tree(
    scan: Scan, tree: _Tree, wanted: list[bytes], deadline: float, most: int, *, store: Store, after: bytes
) -> bool:
    """Add the hits in a snapshot after a path; False if there was no time for all of it, or there are enough."""
    passed = not after
    try:
        for path, entry in _walk(store, store.root(bytes(tree.tree).hex()), b""):
            if not passed:
                passed = path == after
                continue
            if time.monotonic() > deadline or len(scan.hits) >= most:
                return False
            if all(word in _lower(path) for word in wanted):
                scan.hits.append(_file_hit(tree, path, 0, ""))
            elif entry.kind == FILE and entry.size > MAX_FILE:
                scan.large += 1
            elif entry.kind == FILE:
                text = _text_of(_contents.read(tree.team_id, store, entry))
                scan.binary += text is None
                if text and (line := _line_with(text, wanted)):
                    scan.hits.append(_file_hit(tree, path, *line))
            scan.cursor = str(Position(*tree.key, quote_from_bytes(path)))
    except StoreError:
        return True  # the Storage page says what is wrong with it
    return True


def _walk(store: Store, folder, path: bytes) -> Iterator:
    """Yield (path, entry) of everything below a folder, without what is inside a `.git`."""
    if folder.kind != FOLDER or not folder.kept:
        return
    for entry in store.catalog.folder(folder.content):
        if entry.name == b".git":
            continue
        below = path + b"/" + entry.name if path else entry.name
        if entry.kind == FOLDER:
            yield from _walk(store, entry, below)
        elif entry.kept:
            yield below, entry


def _file_hit(tree: _Tree, path: bytes, number: int, line: str) -> Hit:
    shown = path.decode("utf-8", "backslashreplace")
    query = urlencode({"at": tree.number, "quoted": quote_from_bytes(path)})
    url = f"{reverse('workspace-files', args=(tree.team, tree.workspace))}?{query}"
    return Hit(f"{shown}:{number}" if number else shown, line, url, tree.at, tree.workspace)


def events(caller, words: list[str], limits: Limits) -> Scan:
    """Search the log: who, verb and data of each event."""
    teams = [team for team in caller.team_ids if caller.can("read_log", team)]
    rows = Event.objects.filter(limits.times("at"), limits.actor(), team__in=teams)
    if limits.workspace:
        rows = rows.filter(workspace_id__in=list(_places(caller, limits).values_list("pk", flat=True)))
    rows = rows.annotate(text=Cast("data", TextField()))
    wanted = (Q(text__icontains=word) | Q(verb__icontains=word) | Q(actor_label__icontains=word) for word in words)
    scan = newest(rows, Q(*wanted), Order("at"), limits)
    scan.hits = [_event_hit(event) for event in scan.hits]
    return scan


def _event_hit(event: Event) -> Hit:
    about = str(event.data.get("title") or event.data.get("reason") or event.data.get("command") or "")
    query = urlencode({"verb": event.verb, "subject": event.subject_id})
    return Hit(str(in_words(event.verb)), about[:MAX_LINE], f"{reverse('log')}?{query}", event.at, event.actor_label)


def search_conversations(caller, words: list[str], limits: Limits) -> Scan:
    """Search what people and agents wrote to each other, and what agents were asked."""
    teams, text = caller.team_ids, Q(*(Q(text__icontains=word) for word in words))
    mine = Action.objects.filter(pk=OuterRef("action"), team__in=teams)
    about = ActionMessage.objects.filter(text, limits.of("action__agent", "user"), Exists(mine))
    told = AgentMessage.objects.filter(text, limits.of("agent", "user"), agent__team__in=teams)
    asked = SessionPrompt.objects.filter(text, limits.of("agent", "agent__owner"), agent__team__in=teams)
    if limits.workspace:
        about, told, asked = about.filter(action__workspace__key=limits.workspace), told.none(), asked.none()
    kinds = [
        (about.select_related("action__agent__owner", "user"), _about_hit),
        (told.select_related("agent__owner", "user"), partial(_transcript_hit, page="agent-talk")),
        (asked.select_related("agent__owner"), partial(_transcript_hit, page="agent")),
    ]
    after, found = limits.position, []
    for number, (rows, as_hit) in enumerate(kinds):
        inside = rows.filter(limits.times("at"), Q(at__lte=after.at) if after else Q()).order_by("-at", "-pk")
        # More than are shown, as some may stand before the position; first their ids, without the joined tables.
        ids = list(inside.values_list("pk", flat=True)[: limits.most * 2 + 1])
        for row in rows.filter(pk__in=ids) if ids else ():
            key = (row.at, f"{number}.{row.pk}")
            found += [(key, row, as_hit)] if not after or key < after.key else []
    found.sort(key=lambda each: each[0], reverse=True)
    scan = Scan([as_hit(row, words) for _, row, as_hit in found[: limits.most]])
    if len(found) > limits.most:
        scan.cursor = str(Position(*found[limits.most - 1][0]))
    return scan


def _about_hit(message: ActionMessage, words: list[str]) -> Hit:
    who = message.user.get_username() if message.user else str(message.action.agent)
    title = f"A-{message.action.number} {message.action.title}"
    return Hit(
        title, _transcript_line(message.text, words), reverse("action", args=(message.action_id,)), message.at, who
    )


def _transcript_hit(row, words: list[str], *, page: str) -> Hit:
    who = row.user.get_username() if page == "agent-talk" else ""
    return Hit(str(row.agent), _transcript_line(row.text, words), reverse(page, args=(row.agent_id,)), row.at, who)


def _transcript_line(text: str, words: list[str]) -> str:
    begin = max(0, text.lower().find(words[0].lower()) - MAX_LINE // 2)
    return text[begin : begin + MAX_LINE]
