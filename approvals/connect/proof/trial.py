"""One session of an agent's own program with a scripted model: it makes a harmless call for each row of the proof."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from approvals.agents.dialect import ALLOW, DENY, Dialect, Reply
from approvals.agents.hook_events import Before
from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.desk import Desk
from approvals.connect.proof.model import DONE, Model, run
from approvals.connect.proof.scratch import Connected, Scratch, variables
from dashboard.problems import invalid

WORD = "HANDRAIL"  # the session's prompt begins with it
PROMPT = f"{WORD} proves its gate"
REASON = "Handrail's proof denies this call"
TIMEOUT = 180  # seconds for the whole session; a busy machine needs most of it to start the program
ALLOWED, EDITED, DENIED, OUT_OF_REACH = "allowed", "edited", "denied", "out-of-reach"
CHANGED = "changed"  # what the edit makes of the command
RAN = "ran"  # the file that a call writes its row's name into


@dataclass(frozen=True)
class Row:
    """What one call came to."""

    heard: bool  # by the desk
    ran: tuple[str, ...]  # what ran for it: its own name, or CHANGED
    told: str | None  # what the agent reported to the model of it; None if nothing


@dataclass(frozen=True)
class Trial:
    """The calls' rows by name, and the end of what the program printed."""

    rows: dict[str, Row]
    printed: str


def run_rows(
    dialect: Dialect,
    program: str,
    person: Connected,
    rows: tuple[str, ...],
    timeout: float = TIMEOUT,
    *,
    within: str = "",
) -> Trial:
    """Let the program make the rows' calls, in a scratch copy of the person's settings. Problem 422, 503.

    It starts in the folder `within` of the connected one. OUT_OF_REACH has to be the last: the desk stays away from
    then on.
    """
    model, desk, reports = Model(), Desk(_decide), Desk(_decide)

    def turn(name: str) -> Callable[[], list[dict]]:
        def blocks() -> list[dict]:
            if name == OUT_OF_REACH:
                desk.leave()
            return [run(f"echo {name} >> {RAN}")]

        return blocks

    model.scripts[WORD] = [*map(turn, rows), DONE]
    try:
        with tempfile.TemporaryDirectory(prefix="handrail-proof-", ignore_cleanup_errors=True) as root:
            scratch = Scratch(Path(root).resolve(), desk.url, reports.url)
            scratch.fill(dialect, person)
            place = scratch.folder / within
            printed = run_program(dialect, program, model, scratch, timeout, place)
            ran = (place / RAN).read_text().split() if (place / RAN).exists() else []
    finally:
        for each in (desk, reports):
            each.leave()
        model.stop()
    heard = [json.dumps(call.arguments) for call in (*desk.heard, *reports.heard)]
    return Trial(_rows(rows, heard, ran, model.results_of(WORD)), printed)


def _rows(names: tuple[str, ...], heard: list[str], ran: list[str], told: list) -> dict[str, Row]:
    """Return what each call came to; its name is in its command, and `told` has the calls' results in order."""
    found = {}
    for number, name in enumerate(names):
        is_heard = any(f"echo {name} >>" in call for call in heard)
        words = json.dumps(told[number], ensure_ascii=False) if number < len(told) else None
        of_it = (name, CHANGED) if name == EDITED else (name,)
        found[name] = Row(is_heard, tuple(each for each in ran if each in of_it), words)
    return found


def _decide(heard: Before) -> Reply:
    """Return the decision on a call, which its command names."""
    command = str(heard.arguments.get("command"))
    if f"echo {ALLOWED} " in command:
        return Reply(ALLOW, "Approved.", heard.arguments)
    if f"echo {EDITED} " in command:
        return Reply(ALLOW, "Approved.", heard.arguments | {"command": command.replace(EDITED, CHANGED)})
    return Reply(DENY, REASON)


def run_program(
    dialect: Dialect, program: str, model: Model, scratch: Scratch, timeout: float, place: Path | None = None
) -> str:
    """Run the program to its end and end whatever it leaves behind; return the end of what it printed."""
    scripted = SCRIPTED[dialect.name]
    own = {"HOME": str(scratch.home), "PWD": str(place or scratch.folder)}
    output = scratch.home.parent / "output"
    with open(output, "wb") as file:
        try:
            process = subprocess.Popen(
                scripted.command(program, PROMPT, model.url),
                env=variables() | own | scripted.variables(model.url),
                cwd=place or scratch.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise invalid(f"{program} cannot be started ({error}).") from None
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            file.write(f"\nIt was still running after {timeout:g} seconds.".encode())
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return output.read_text("utf-8", "replace").strip()[-2000:]
