"""What programs printed: the folders of commands and terminals, with their recordings."""

from collections.abc import Callable, Iterator
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from dashboard.database.batches import in_batches
from dashboard.files.atomic_write import replace_file
from workspaces.host import paths
from workspaces.models import Command, Terminal
from workspaces.programs import kept_recordings
from workspaces.programs.terminals import name_of
from workspaces.services.scrub.places import OUTPUT, Place
from workspaces.services.scrub.value import Wanted
from workspaces.shim.recording import segments
from workspaces.store import StoreError

NOT_ENDED = "the program has not ended"


def find(team, wanted: Wanted, tick: Callable[[], None], *, here: bool = False) -> Iterator[Place]:
    """Yield the programs whose recordings have the value. `here`: of the folders of this host alone, no copies."""
    for program, folder, _ in _folders(team, here):
        tick()
        if _is_in(folder, wanted):
            yield _place(program, wanted, "" if program.ended_at else NOT_ENDED)


def purge(team, wanted: Wanted, tick: Callable[[], None], *, here: bool = False) -> Iterator[Place]:
    """Take the value out of the folders of ended programs, and of their copies; the length of a recording stays."""
    for program, folder, copy in _folders(team, here):
        tick()
        if _is_in(folder, wanted):
            why = NOT_ENDED if program.ended_at is None else _purge(folder, copy, team.pk, wanted)
            yield _place(program, wanted, why)


def _folders(team, here: bool) -> Iterator[tuple[Command | Terminal, Path, Path | None]]:
    """Yield (program, its folder, the name of the copy in the bucket or None); what only the bucket has is fetched."""
    for program in _programs(team):
        folder, copy = paths.program_of(program.workspace_id, program.operation_id), None
        if settings.HANDRAIL_BUCKET and program.ended_at:
            copy = kept_recordings.path_of(program.workspace_id, program.operation_id)
        if folder.exists():
            yield program, folder, copy
        elif here or copy is None:
            continue
        elif found := (fetched := kept_recordings.Fetched(copy)).folder():
            yield program, found, copy
            del fetched


def _programs(team) -> Iterator[Command | Terminal]:
    for model in (Command, Terminal):
        rows = model.objects.filter(workspace__team=team, workspace__purged_at=None, swept_at=None)
        yield from in_batches(rows.select_related("workspace__team").order_by("pk"))


def _is_in(folder: Path, wanted: Wanted) -> bool:
    return any(wanted.is_in(data) for _, data in _recording(folder)) or any(
        wanted.is_in(path.read_bytes()) for path in _others(folder)
    )


def _recording(folder: Path) -> Iterator[tuple[list[tuple[Path, int]], bytes]]:
    """Yield each span of the recording without gaps: its files with their sizes, and its bytes."""
    span: list[tuple[Path, int]] = []
    data, end = b"", 0
    for start, _size in segments(folder):
        path = folder / (f"output.{start:020}" if start else "output")
        if span and start != end:
            yield span, data
            span, data = [], b""
        piece = path.read_bytes()
        span.append((path, len(piece)))
        data, end = data + piece, start + len(piece)
    if span:
        yield span, data


def _others(folder: Path) -> list[Path]:
    """Return the files about the program: its arguments, and how it ended."""
    return sorted(path for path in folder.glob("*.json") if path.is_file())


def _purge(folder: Path, copy: Path | None, team_id, wanted: Wanted) -> str:
    """Return why the value is still there; "" if it isn't."""
    try:
        for span, data in _recording(folder):
            _write(span, data, wanted.out_of_bytes(data))
        for path in _others(folder):
            if wanted.is_in(data := path.read_bytes()):
                replace_file(path, wanted.out_of_bytes(data), mode=path.stat().st_mode & 0o777)
        if copy is not None:
            kept_recordings.send(folder, copy, team_id)
    except OSError as error:
        return f"its files could not be written: {error.strerror}"
    except StoreError as error:
        return f"its copy could not be written: {error}"
    return ""


def _write(span: list[tuple[Path, int]], before: bytes, after: bytes):
    at = 0
    for path, size in span:
        if before[at : at + size] != after[at : at + size]:
            replace_file(path, after[at : at + size], mode=path.stat().st_mode & 0o777)
        at += size


def _place(program, wanted: Wanted, why: str) -> Place:
    place, is_command = program.workspace, isinstance(program, Command)
    page = "command" if is_command else "terminal-recording" if program.ended_at else "terminal"
    return Place(
        OUTPUT,
        "output of a command" if is_command else "recording of a terminal",
        wanted.out_of(program.shown if is_command else name_of(program))[:200],
        pk=str(program.pk),
        workspace=place.key,
        url=reverse(page, args=(place.team.slug, place.key, program.pk)),
        why_kept=why,
    )
