"""Submit commands, services and terminals: a row and an Operation each, which the runner carries out."""

import hashlib
from datetime import timedelta

from django.conf import settings
from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import invalid
from dashboard.text.strict_json import canonical
from workspaces import operations
from workspaces.lifecycle import record, resume_for_use
from workspaces.models import Command, Operation, Phase, State, Terminal
from workspaces.operations import holding, needs_approval
from workspaces.provisioning.scripts import UNTIL_A_FAILURE

WORKSPACE = "/workspace"  # where programs see the files
COMMAND_BYTES = 128 * 1024  # the kernel's limit for one argument


def run_command(workspace, wish: dict, *, by: Actor, idempotency_key: str | None = None) -> Command:
    """Run a program; `wish` as in the API: {command | argv | check, cwd?, env?, timeout_s?}.

    A known idempotency key returns its command if the request is the same, and is Problem 422 if it is not.
    """
    argv, shown = _argv(workspace, wish)
    body_hash = hashlib.sha256(canonical(wish)).hexdigest()
    if known := _known(workspace, idempotency_key, body_hash):
        return known
    cwd = wish.get("cwd") or working_directory(workspace.environment)
    holding.require_for_command(workspace, wish, cwd, by=by)
    with Team.objects.turn(workspace.team_id):
        if known := _known(workspace, idempotency_key, body_hash):
            return known
        resume_for_use(workspace, by=by)
        operation = operations.submit("command", workspace=workspace, by=by)
        command = Command.objects.create(
            workspace=workspace,
            operation=operation,
            argv=argv,
            shown=shown,
            cwd=cwd,
            env=wish.get("env") or {},
            check_name=wish.get("check") or "",
            timeout_s=wish.get("timeout_s") or 3600,
            envelope=holding.envelope_for(workspace, by),
            idempotency_key=idempotency_key,
            body_hash=body_hash,
            by=operation.by,
        )
        record(workspace, by, "command.asked", {"command": shown[:500]}, subject=command)
    return command


def _known(workspace, idempotency_key: str | None, body_hash: str) -> Command | None:
    """Return the command that this request has started before. Problem 422 for another request with its key."""
    if not idempotency_key:
        return None
    known = Command.objects.filter(workspace=workspace, idempotency_key=idempotency_key).first()
    if known and known.body_hash != body_hash:
        raise invalid("This Idempotency-Key was used for another command.")
    return known


def _argv(workspace, wish) -> tuple[list[str], str]:
    if check := wish.get("check"):
        if check not in workspace.environment.checks:
            raise invalid(f"The environment has no check named {check!r}.")
        wish = {"command": workspace.environment.checks[check]}
    command, argv = wish.get("command"), wish.get("argv")
    if (command is None) == (argv is None):
        raise invalid("Give exactly one of command, argv and check.")
    found = [*argv] if argv is not None else ["bash", "-c", command]
    texts = [*found, wish.get("cwd") or "", *(wish.get("env") or {}), *(wish.get("env") or {}).values()]
    if not found or not found[0] or (command is not None and not command.strip()):
        raise invalid("The command is empty.")
    if any("\0" in text for text in texts):
        raise invalid("A command can't contain NUL.")
    if any(len(text.encode("utf-8", "surrogatepass")) > COMMAND_BYTES for text in texts):
        raise invalid(f"A command has at most {COMMAND_BYTES:,} bytes; write a file and run that.")
    return found, command if command is not None else " ".join(found)


def maintain(workspace, *, before: Operation):
    """Run the environment's maintenance script after the resume `before`, ahead of operations that wait for it."""
    script = workspace.environment.maintenance
    if not script.strip() or operations.is_stopped(workspace.team_id):
        return
    by = Actor.system("maintenance")
    operation = operations.submit("maintain", workspace=workspace, by=by, exclusive=True)
    # What waited for the resume may have been due in the same millisecond.
    Operation.objects.filter(pk=operation.pk).update(due_at=before.due_at - timedelta(milliseconds=1))
    command = Command.objects.create(
        workspace=workspace,
        operation=operation,
        argv=["bash", *UNTIL_A_FAILURE, script],
        shown=script,
        timeout_s=workspace.environment.maintenance_seconds or settings.HANDRAIL_SETUP_SECONDS,
        by=operation.by,
    )
    record(workspace, by, "command.asked", {"command": "the maintenance script"}, subject=command)


def working_directory(environment) -> str:
    """Return the folder in which commands, services and terminals of an environment start by default."""
    return "/".join(filter(None, (WORKSPACE, environment.working_directory)))


def cancel_command(command: Command, *, by: Actor) -> Command:
    """Ask the runner to end the command; one that is over is returned unchanged."""
    if not operations.is_over(command.operation):
        wish = {"id": str(command.pk), "command": command.shown[:500]}
        needs_approval.require_for_others(command.workspace, "cancel", wish, began_by=command.by, by=by)
    with Team.objects.turn(command.workspace.team_id):
        if operations.is_over(command.operation):
            return command
        if Command.objects.filter(pk=command.pk, cancelled_at=None).update(cancelled_at=clock.now()):
            record(command.workspace, by, "command.cancelled", subject=command)
            if command.workspace.state == State.PAUSED and command.operation.phase == Phase.STARTED:
                resume_for_use(command.workspace, by=by)  # a program can only be ended once its workspace is resumed
    transaction.on_commit(operations.wake_runner)
    return command


def open_terminal(workspace, wish: dict, *, by: Actor) -> Terminal:
    """Open a pty in the workspace, as in the API: {argv?, cols?, rows?}; it exists until its program ends."""
    argv = wish.get("argv") or ["bash", "-l"]
    if any("\0" in text for text in argv):
        raise invalid("A command can't contain NUL.")
    holding.require_for_terminal(workspace, wish | {"argv": argv}, by=by)
    with Team.objects.turn(workspace.team_id):
        resume_for_use(workspace, by=by)
        operation = operations.submit("terminal", workspace=workspace, by=by)
        terminal = Terminal.objects.create(
            workspace=workspace,
            operation=operation,
            argv=argv,
            cols=wish.get("cols") or 80,
            rows=wish.get("rows") or 24,
            envelope=holding.envelope_for(workspace, by),
            opened_by=operation.by,
        )
        record(workspace, by, "terminal.opened", {"argv": argv[:5]}, subject=terminal)
    return terminal


def share_terminal(terminal: Terminal, shared: bool, *, by: Actor):
    """Let agents read a person's terminal, live and its recording, or no longer. It is shared with no one at first."""
    with Team.objects.turn(terminal.workspace.team_id):
        if Terminal.objects.filter(pk=terminal.pk, shared=not shared).update(shared=shared):
            verb = "terminal.shared" if shared else "terminal.unshared"
            record(terminal.workspace, by, verb, subject=terminal)
    terminal.shared = shared


def start_service(workspace, run, name: str, *, by: Actor) -> Command:
    """Start a service of the workspace's environment in a Run that is up, or return the command already running it."""
    text = workspace.environment.services.get(name)
    if text is None:
        raise invalid(f"The environment has no service named {name!r}.")
    with Team.objects.turn(workspace.team_id):
        _note_stopped(run, name, False)
        running = Command.objects.filter(run=run, service=name, operation__in=Operation.objects.open()).first()
        if running:
            return running
        operation = operations.submit("service", workspace=workspace, by=by)
        command = Command.objects.create(
            workspace=workspace,
            operation=operation,
            run=run,
            argv=["bash", "-c", text],
            shown=text,
            cwd=working_directory(workspace.environment),
            service=name,
            timeout_s=0,
            by=operation.by,
        )
        record(workspace, by, "service.asked", {"service": name}, subject=command)
    return command


def stop_service(workspace, run, name: str, *, by: Actor):
    """Stop a service until it is started again or its workspace is, also one that waits for its next try."""
    running = Command.objects.filter(run=run, service=name, operation__in=Operation.objects.open()).first()
    if running is not None:
        cancel_command(running, by=by)
    last = running or Command.objects.filter(run=run, service=name).order_by("-created_at").first()
    with Team.objects.turn(workspace.team_id):
        if last is not None and _note_stopped(run, name, True) and running is None:
            record(workspace, by, "command.cancelled", subject=last)


def _note_stopped(run, name: str, stopped: bool) -> bool:
    """Note in the Run whether a person stopped the service; return whether that is a change. In a team's turn."""
    run.refresh_from_db(fields=["stopped_services"])
    if (name in run.stopped_services) == stopped:
        return False
    others = [each for each in run.stopped_services if each != name]
    run.stopped_services = [*others, name] if stopped else others
    run.save(update_fields=["stopped_services"])
    return True
