"""The name, state, end and recording of a terminal, from its row and the folder of its shim."""

import shlex
from collections.abc import Iterator
from datetime import datetime

from django.conf import settings
from django.db.models import Q

from dashboard.database.threads import query_in_thread
from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid, not_allowed
from workspaces import operations
from workspaces.models import EndCode, Operation, Phase, ReasonCode, State, Terminal
from workspaces.operations import endings, needs_approval
from workspaces.programs import recordings
from workspaces.provisioning import isolation
from workspaces.shim import client
from workspaces.shim.record import Exit

SHELL = ["bash", "-l"]
LONGEST_ASKED = 16 * 1024  # bytes of input in one request for approval
OF_END = ("exit_status", "signal", "error", "oom_kills")  # what the words about an end need
# Why a terminal ended, by the kind of the operation that ends all programs of a workspace.
ENDED_BY = {
    "pause": "Ended when the workspace was paused.",
    "stop": "Ended when the workspace was stopped.",
    "put_away": "Ended when the workspace was archived.",
    "trash": "Ended when the workspace was moved to the trash.",
    "move": "Ended when the workspace was moved.",
    "ended": "Ended together with all programs of the workspace.",
}
# The same kinds by Run.end_code.
RUN_ENDED = {
    EndCode.PAUSED: "pause",
    EndCode.STOPPED: "stop",
    EndCode.ARCHIVED: "put_away",
    EndCode.TRASHED: "trash",
    EndCode.MOVED: "move",
}


def for_command(text: str) -> list[str]:
    """Return the argv that runs the text in a login shell; for an empty text, that of the shell itself."""
    return ["bash", "-lc", text] if text.strip() else SHELL


def name_of(terminal: Terminal) -> str:
    """Return its display name: the command line, or "Shell"."""
    argv = terminal.argv
    if argv[:2] == ["bash", "-lc"] and len(argv) == 3:
        return argv[2]
    return "Shell" if argv == SHELL else shlex.join(argv)


def began_at(terminal: Terminal) -> datetime:
    """Return when its recording begins: later than the request, since the workspace may have to resume first."""
    return recordings.of(terminal).began_at() or terminal.created_at


def open_at(workspace_id, moment: datetime) -> list[tuple[Terminal, float]]:
    """Return up to three terminals that were open at `moment`, newest first, with the seconds into their recordings."""
    meanwhile = Terminal.objects.filter(Q(ended_at=None) | Q(ended_at__gte=moment), created_at__lte=moment)
    found = (
        meanwhile.filter(workspace=workspace_id, swept_at=None).select_related("operation").order_by("-created_at")[:3]
    )
    return [(terminal, max(0.0, (moment - began_at(terminal)).total_seconds())) for terminal in found]


def is_over(pk) -> bool:
    return operations.is_over(Operation.objects.get(terminal=pk))


def takes_typing_of(terminal: Terminal, by: Actor) -> bool:
    """Return whether it takes what the actor types: an agent types only into what agents opened.

    Such a terminal is held, a person approved it as a whole, or it asks a person for each piece of input. Load it with
    its workspace and environment.
    """
    if by.type != "agent":
        return True
    is_watched = terminal.envelope is not None or needs_approval.must_ask(terminal.workspace, by) or by.approval
    is_approved = terminal.opened_by.get("approval") or settings.HANDRAIL_UNHELD == "run"
    return terminal.opened_by.get("type") == "agent" and bool(
        is_watched or (is_approved and not isolation.holds_programs(terminal.workspace))
    )


async def type_into(terminal: Terminal, data: bytes):
    """Type approved input into the terminal. Problem 409 if it has ended."""
    recording = recordings.of(terminal)
    if (await query_in_thread(recording.status)).state != "running":
        raise conflict("The terminal has ended.")
    await client.send_input(recording.end, data)


def check_typing(terminal: Terminal, data: bytes, *, by: Actor):
    """Raise needs_approval.AskFirst if a person has to allow this input. Load it with its workspace's environment."""
    if not takes_typing_of(terminal, by):
        raise not_allowed("Agents type only into terminals that agents opened.")
    if not needs_approval.must_ask(terminal.workspace, by):
        return
    if len(data) > LONGEST_ASKED:
        raise invalid(f"Input that a person has to allow has at most {LONGEST_ASKED:,} bytes.")
    wish = {"terminal": str(terminal.pk), "name": name_of(terminal), "text": data.decode()}
    needs_approval.require(terminal.workspace, "type", wish, by=by)


def end_of(pk) -> tuple[int | None, str]:
    """Return (exit status, message) of a terminal that has just ended, perhaps by an operation still in flight."""
    terminal = Terminal.objects.select_related("operation", "run").get(pk=pk)
    operations = Operation.objects.filter(
        workspace=terminal.workspace_id, exclusive=True, phase__in=[Phase.CLAIMED, Phase.STARTED]
    )
    kinds = list(operations.values_list("kind", flat=True))
    return how_it_ended(terminal, next((kind for kind in kinds if kind in ENDED_BY), ""))


def how_it_ended(terminal: Terminal, ended_by: str = "") -> tuple[int | None, str]:
    """Return (exit status, message) of an ended terminal; `ended_by`: the kind of operation that ended it."""
    if terminal.swept_at:
        status = terminal.exit_status
        return status, f"{'Ended' if status is None else f'Exited ({status})'}. The recording was deleted."
    outcome = terminal.operation.outcome or {}
    end = _end_in(outcome) or recordings.of(terminal).status().exit
    if end is None or end.reason == "not_started":
        return None, outcome.get("reason") or (end.message() if end else "") or "Ended; exit status unknown."
    if end.reason == "forgotten":
        return None, f"{end.message()[:1].upper()}{end.message()[1:]}"
    if end.exit_status is not None and end.reason == "exited":
        return end.exit_status, "Exited (0)." if end.exit_status == 0 else f"Exited ({end.exit_status})."
    run = terminal.run
    if run is not None and run.ended_at is not None:
        if run.end_code in endings.BY_ITSELF:
            return end.exit_status, endings.sentence(run.end_code, run.end_reason)
        ended_by = RUN_ENDED.get(run.end_code, "ended")
    if not ended_by and outcome.get("reason_code") == ReasonCode.LOST:
        return end.exit_status, outcome["reason"]
    return end.exit_status, ENDED_BY.get(ended_by) or f"Ended: {end.message()}."


def _end_in(outcome: dict) -> Exit | None:
    """Return the end of the program as its operation's outcome has it, so that a list asks no host."""
    if "end" not in outcome:
        return None
    return Exit(outcome["end"], **{name: outcome[name] for name in OF_END if name in outcome})


def cast_of(terminal: Terminal) -> Iterator[str]:
    """Return the recording as the lines of an asciicast, version 2."""
    started_at = terminal.created_at.timestamp()
    size = {"cols": terminal.cols, "rows": terminal.rows}
    return recordings.of(terminal).cast(**size, started_at=started_at, command=name_of(terminal))


def log_of(terminal: Terminal) -> Iterator[bytes]:
    """Return the recorded output; a line of text marks each gap."""
    return recordings.of(terminal).pieces()


def state_of(terminal: Terminal) -> tuple[str, str]:
    """Return (tone, text) for a list. Load it with its operation, run and workspace."""
    operation = terminal.operation
    if operation.phase in (Phase.DUE, Phase.CLAIMED):
        return "accent", "Starting"
    if not operations.is_over(operation):
        return ("quiet", "Paused") if terminal.workspace.state == State.PAUSED else ("accent", "Live")
    try:
        return "quiet", how_it_ended(terminal)[1]
    except Problem:  # its host alone knows how, and cannot be reached
        return "quiet", "Ended."
