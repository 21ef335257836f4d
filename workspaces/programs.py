"""Commands and terminals, as they are asked for: a row and an Effect each; the runner carries them out."""

import hashlib

from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from dashboard.problems import conflict, invalid
from dashboard.strict_json import canonical
from workspaces import effects
from workspaces.lifecycle import KINDS, record, wake
from workspaces.models import Command, Effect, Phase, State, Terminal, Workspace

COMMAND_BYTES = 128 * 1024  # the kernel's limit for one argument


def run_command(workspace, wish: dict, *, by: Actor, idempotency_key: str | None = None) -> Command:
    """Run a program; `wish` as on the API: {command | argv | check, cwd?, env?, timeout_s?}.

    The same idempotency key with the same wish is the same command; with another, Problem 422.
    """
    argv, shown = _argv(workspace, wish)
    body_hash = hashlib.sha256(canonical(wish)).hexdigest()
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        if idempotency_key:
            known = Command.objects.filter(workspace=workspace, idempotency_key=idempotency_key).first()
            if known and known.body_hash != body_hash:
                raise invalid("This Idempotency-Key was used for another command.")
            if known:
                return known
        if workspace.team.stopped_at:
            raise conflict("Everything is stopped in this team; a person has to lift that first.")
        wake(workspace, by=by)
        effect = effects.submit(f"{KINDS}.command", workspace=workspace, by=by)
        command = Command.objects.create(
            workspace=workspace,
            effect=effect,
            argv=argv,
            shown=shown,
            cwd=wish.get("cwd") or "/workspace",
            env=wish.get("env") or {},
            check_name=wish.get("check") or "",
            timeout_s=wish.get("timeout_s") or 3600,
            idempotency_key=idempotency_key,
            body_hash=body_hash,
            by=effect.by,
        )
        record(workspace, by, "command.asked", {"command": shown[:500]}, subject=command)
    return command


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
        raise invalid("A command holds no NUL.")
    if any(len(text.encode("utf-8", "surrogatepass")) > COMMAND_BYTES for text in texts):
        raise invalid(f"A command has at most {COMMAND_BYTES:,} bytes; write a file and run that.")
    return found, command if command is not None else " ".join(found)


def cancel_command(command: Command, *, by: Actor) -> Command:
    """Ask the runner to end it; one that is over stays as it is."""
    with transaction.atomic():
        if effects.is_over(command.effect):
            return command
        if Command.objects.filter(pk=command.pk, cancelled_at=None).update(cancelled_at=clock.now()):
            record(command.workspace, by, "command.cancelled", subject=command)
            if command.workspace.state == State.PAUSED and command.effect.phase == Phase.STARTED:
                wake(command.workspace, by=by)  # it sleeps, and only what is awake can end
    transaction.on_commit(effects.nudge)
    return command


def open_terminal(workspace, wish: dict, *, by: Actor) -> Terminal:
    """A pty in the workspace: {argv?, cols?, rows?}; it lives until its program ends."""
    argv = wish.get("argv") or ["bash", "-l"]
    if any("\0" in text for text in argv):
        raise invalid("A command holds no NUL.")
    with transaction.atomic():
        wake(workspace, by=by)
        effect = effects.submit(f"{KINDS}.terminal", workspace=workspace, by=by)
        terminal = Terminal.objects.create(
            workspace=workspace,
            effect=effect,
            argv=argv,
            cols=wish.get("cols") or 80,
            rows=wish.get("rows") or 24,
            opened_by=effect.by,
        )
        record(workspace, by, "terminal.opened", {"argv": argv[:5]}, subject=terminal)
    return terminal


def start_service(workspace, run, name: str, *, by: Actor) -> Command:
    """Run a service of the workspace's environment once, in a Run that is up; one that runs already is the answer."""
    text = workspace.environment.services.get(name)
    if text is None:
        raise invalid(f"The environment has no service named {name!r}.")
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        running = Command.objects.filter(run=run, service=name, effect__in=Effect.objects.open()).first()
        if running:
            return running
        effect = effects.submit(f"{KINDS}.service", workspace=workspace, by=by)
        command = Command.objects.create(
            workspace=workspace,
            effect=effect,
            run=run,
            argv=["bash", "-c", text],
            shown=text,
            service=name,
            timeout_s=0,
            by=effect.by,
        )
        record(workspace, by, "service.asked", {"service": name}, subject=command)
    return command
