"""What a terminal is called, how it stands and how it ended, from the row and the folder of its host process."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from django.db.models import Q

from workspaces import effects, places
from workspaces.drivers.base import DriverError
from workspaces.hosts import client
from workspaces.hosts.folder import read_spec
from workspaces.hosts.recording import Output, Reader, asciicast, gap_words
from workspaces.models import Effect, Phase, State, Terminal

PIECE = 1 << 18  # bytes of a log read at once
SHELL = ["bash", "-l"]
# The kind of an effect that ends every program of a workspace: why a terminal ended with it.
ENDED_BY = {
    "pause": "It ended when the workspace fell asleep.",
    "stop": "It ended when the workspace was stopped.",
    "trash": "It ended when the workspace went to the trash.",
    "ended": "It ended with the workspace's programs, all at once.",
}
# What Run.end_reason says of the same.
RUN_ENDED = {"paused": "pause", "stopped": "stop", "deleted": "trash"}


def for_command(text: str) -> list[str]:
    """The argv for what a person typed, through a login shell; the shell itself when it is empty."""
    return ["bash", "-lc", text] if text.strip() else SHELL


def name_of(terminal: Terminal) -> str:
    """As people call it: the command line."""
    argv = terminal.argv
    if argv[:2] == ["bash", "-lc"] and len(argv) == 3:
        return argv[2]
    return "Shell" if argv == SHELL else shlex.join(argv)


def folder_of(terminal: Terminal) -> Path:
    return places.program_of(terminal.workspace_id, terminal.effect_id)


def began_at(terminal: Terminal) -> datetime:
    """When its recording begins: its program starts a moment after it was asked for, or once the workspace is awake."""
    try:
        return datetime.fromtimestamp((folder_of(terminal) / "claim").stat().st_mtime, UTC)
    except OSError:
        return terminal.created_at


def open_at(workspace_id, moment: datetime) -> list[tuple[Terminal, float]]:
    """The terminals of a workspace that were open then, newest first, with the seconds into their recordings."""
    meanwhile = Terminal.objects.filter(Q(ended_at=None) | Q(ended_at__gte=moment), created_at__lte=moment)
    found = meanwhile.filter(workspace=workspace_id, swept_at=None).select_related("effect").order_by("-created_at")[:3]
    return [(terminal, max(0.0, (moment - began_at(terminal)).total_seconds())) for terminal in found]


def is_over(pk) -> bool:
    return effects.is_over(Effect.objects.get(terminal=pk))


def only_size(folder: Path) -> tuple[int, int] | None:
    """(columns, rows) where the recording itself names no sizes: it is of a host of protocol 1."""
    if (folder / "sizes").exists():
        return None
    try:
        spec = read_spec(folder)
    except DriverError:
        return None
    return spec.cols, spec.rows


def end_of(pk) -> tuple[int | None, str]:
    """(exit status, words) of one that has just ended; what ends the whole workspace may still be under way."""
    terminal = Terminal.objects.select_related("effect", "run").get(pk=pk)
    moves = Effect.objects.filter(
        workspace=terminal.workspace_id, exclusive=True, phase__in=[Phase.CLAIMED, Phase.STARTED]
    )
    kinds = [kind.rpartition(".")[2] for kind in moves.values_list("kind", flat=True)]
    return how_it_ended(terminal, next((kind for kind in kinds if kind in ENDED_BY), ""))


def how_it_ended(terminal: Terminal, move: str = "") -> tuple[int | None, str]:
    """(exit status, words) of one that is over; comes with its effect and run. `move` ended it, if anything did."""
    folder = folder_of(terminal)
    if terminal.swept_at:
        status = terminal.exit_status
        return status, f"It ended{f' with status {status}' if status else ''}; its recording is no longer kept."
    end = client.status(folder).exit if folder.exists() else None
    if end is None or end.reason == "not_started":
        outcome = terminal.effect.outcome or {}
        return None, outcome.get("reason") or (end.words() if end else "") or "Its end was not seen."
    if end.reason == "forgotten":
        return None, f"{end.words()[:1].upper()}{end.words()[1:]}"
    if end.exit_status is not None and end.reason == "exited":
        return end.exit_status, "It ended." if end.exit_status == 0 else f"It ended with status {end.exit_status}."
    run = terminal.run
    if run is not None and run.ended_at is not None:
        move = RUN_ENDED.get(run.end_reason, "ended")
    return end.exit_status, ENDED_BY.get(move) or f"It ended: {end.words()}."


def cast_of(terminal: Terminal) -> Iterator[str]:
    """The recording as lines of an asciicast (version 2)."""
    started_at = terminal.created_at.timestamp()
    size = {"cols": terminal.cols, "rows": terminal.rows}
    return asciicast(folder_of(terminal), **size, started_at=started_at, command=name_of(terminal))


def log_of(terminal: Terminal) -> Iterator[bytes]:
    """The recording's bytes as they were printed, with a line in words where some were not kept."""
    reader = Reader(folder_of(terminal))
    try:
        while (part := reader.next(PIECE)) is not None:
            yield part.data if isinstance(part, Output) else f"\r\n[{gap_words(part)}]\r\n".encode()
    finally:
        reader.close()


def state_of(terminal: Terminal) -> tuple[str, str]:
    """(tone, words) for a list; comes with its effect, run and workspace."""
    effect = terminal.effect
    if effect.phase in (Phase.DUE, Phase.CLAIMED):
        return "accent", "Starting"
    if not effects.is_over(effect):
        return ("quiet", "Asleep") if terminal.workspace.state == State.PAUSED else ("accent", "Live")
    return "quiet", how_it_ended(terminal)[1]
