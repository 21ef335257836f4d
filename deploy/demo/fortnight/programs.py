"""Programs that ran in the fortnight: rows as the runner leaves them, with real recordings."""

from datetime import timedelta

from dashboard.database import clock
from dashboard.models import Actor
from deploy.demo.fortnight import texts
from workspaces import lifecycle
from workspaces.models import Command, Operation, Phase, Terminal
from workspaces.programs import recordings
from workspaces.shim.recording import Recorder

CAP_BYTES = 1 << 20
PASSED = b"..........                                              [100%]\n41 passed in 1.93s\n"
FAILED = (
    b"....F.....                                              [100%]\nE   assert 1299 == 1300\n"
    b"FAILED tests/test_settings.py::test_settings_counts_each_value_once\n1 failed, 40 passed in 2.04s\n"
)


def ran_check(workspace, name: str, line: str, *, passes: bool, by: Actor):
    """Make a check of the environment that ran now, with its output."""
    began, ended = clock.now() - timedelta(seconds=3), clock.now()
    output, status = (PASSED, 0) if passes else (FAILED, 1)
    if name == "lint":
        output = b"All checks passed!\n"
    operation = _settled(workspace, "command", by, began, ended)
    command = Command.objects.create(
        workspace=workspace, operation=operation, argv=["bash", "-c", line], shown=line, check_name=name,
        exit_status=status, output_bytes=len(output), started_at=began, ended_at=ended, by=by.as_json,
    )  # fmt: skip
    Command.objects.filter(pk=command.pk).update(created_at=began)
    _record(command, output)
    data = {"exit_status": status, "signal": None, "reason": ""}
    lifecycle.record(workspace, by, "command.ended", data, subject=command)


def ran_terminal(workspace, word: str, *, by: Actor):
    """Make a terminal in which a person looked around."""
    began, ended = clock.now() - timedelta(minutes=2), clock.now()
    operation = _settled(workspace, "terminal", by, began, ended)
    output = texts.terminal(workspace.key, word)
    terminal = Terminal.objects.create(
        workspace=workspace, operation=operation, argv=["bash"], bytes=len(output), exit_status=0, ended_at=ended,
        opened_by=by.as_json,
    )  # fmt: skip
    Terminal.objects.filter(pk=terminal.pk).update(created_at=began)
    _record(terminal, output)
    lifecycle.record(workspace, by, "terminal.opened", {"argv": ["bash"]}, subject=terminal)


def settle(operation: Operation, outcome: dict):
    """Settle an operation now, in the transaction that made it, so that the runner never claims it."""
    now = clock.now()
    fields = {"created_at": now, "started_at": now, "settled_at": now}
    Operation.objects.filter(pk=operation.pk).update(phase=Phase.SETTLED, outcome=outcome, **fields)


def _settled(workspace, kind: str, by: Actor, began, ended) -> Operation:
    made = Operation.objects.create(
        workspace=workspace, kind=kind, phase=Phase.SETTLED, due_at=began, started_at=began, settled_at=ended,
        outcome={"ok": True}, by=by.as_json,
    )  # fmt: skip
    Operation.objects.filter(pk=made.pk).update(created_at=began)
    return made


def _record(program, output: bytes):
    folder = recordings.of(program).folder
    folder.mkdir(parents=True, mode=0o700)
    recorder = Recorder(folder, CAP_BYTES)
    recorder.write(output)
    recorder.close()
