"""The proof in words: whether an agent's gate holds on this machine, line by line."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from approvals.agents.dialect import Dialect
from approvals.agents.hooks import MACHINE_HOOKS, is_machine_gated
from approvals.agents.programs import SCRIPTED
from approvals.connect import folder_hooks, versions
from approvals.connect.proof import trial
from approvals.connect.proof.scratch import NESTED, Connected
from approvals.connect.proof.trial import ALLOWED, DENIED, OUT_OF_REACH, REASON, Row
from dashboard.problems import invalid

ROWS = (ALLOWED, DENIED, OUT_OF_REACH)


@dataclass(frozen=True)
class Line:
    """One line of the proof: what had to hold, whether it did, and what was seen."""

    name: str
    holds: bool
    words: str


@dataclass(frozen=True)
class Proof:
    """`problem` is what the check of the installed hook says; `printed` is the end of the program's own output."""

    version: str
    lines: list[Line]
    seconds: float
    problem: str
    printed: str

    @property
    def holds(self) -> bool:
        return all(line.holds for line in self.lines)


def prove(dialect: Dialect, path: str = "") -> Proof:
    """Try the gate of the agent on this machine, in a scratch copy of its settings. Problem 422, 503."""
    if dialect.name not in SCRIPTED:
        raise invalid(
            f"{dialect.title} asks the models of its maker alone, so no scripted model can take their place, and its "
            "gate cannot be proven here. `manage.py connect` tries the hook itself."
        )
    program, version = versions.installed(dialect)
    workspace, connection = folder_hooks.connected(dialect, path)
    if is_machine_gated(dialect.name):
        raise invalid(
            f"{MACHINE_HOOKS[dialect.name].settings_file} gates every {dialect.title} on this machine, and no "
            "copy can stand in for it: the calls of a proof would go to the desk itself."
        )
    home = json.loads(connection.read_text()).get("home") or Path.home()
    person = Connected(Path(home), Path(workspace.own_folder), connection)
    began = time.monotonic()
    tried = trial.run_rows(dialect, program, person, ROWS)
    lines, printed = of(tried.rows), tried.printed
    if not dialect.settings_file:  # its hook is in the folder; the others' is in the home, wherever they start
        nested = trial.run_rows(dialect, program, person, (DENIED,), within=NESTED)
        lines.append(Line("nested", *_denied(nested.rows[DENIED])))
        printed = printed if lines[-1].holds else nested.printed
    return Proof(version, lines, time.monotonic() - began, folder_hooks.why_not_gated(workspace) or "", printed)


def of(rows: dict[str, Row]) -> list[Line]:
    """Return the lines of the proof for what was seen."""
    return [
        Line("heard", *_call_was_heard(rows[ALLOWED])),
        Line("denied", *_denied(rows[DENIED])),
        Line("out of reach", *_out_of_reach(rows[OUT_OF_REACH])),
    ]


def _call_was_heard(row: Row) -> tuple[bool, str]:
    if not row.heard:
        ran = "it ran all the same" if row.ran else "it did not run either"
        return False, f"the call did not arrive at the desk; {ran}"
    match len(row.ran):
        case 0:
            return False, "the call arrived, but did not run when it was allowed, so the lines below prove nothing"
        case 1:
            return True, "the call arrived at the desk, and ran once when it was allowed"
    return False, f"the call ran {len(row.ran)} times"


def _denied(row: Row) -> tuple[bool, str]:
    if row.ran:
        return False, "the call ran although it was denied" if row.heard else "the call ran without being asked for"
    if not row.heard or row.told is None:
        return False, "the call was not made"
    if REASON not in row.told:
        return False, "nothing ran, but the model did not read the reason"
    return True, "nothing ran, and the model read the reason"


def _out_of_reach(row: Row) -> tuple[bool, str]:
    if row.ran:
        return False, "the call RAN while the desk was out of reach"
    if row.told is None:
        return False, "the call was not made"
    return True, "the desk refused the connection, and nothing ran"
