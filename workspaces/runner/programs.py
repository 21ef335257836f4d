"""Run programs under their shims, from the runner's side: start at most once, follow, and find after a crash."""

import base64
import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from django.conf import settings
from django.utils.crypto import salted_hmac

from dashboard.keys.keyring import Unreadable
from dashboard.text.visible_text import plain_size
from dashboard.workers.failpoints import failpoint
from workspaces import extensions, lifecycle, secrets
from workspaces.drivers.base import Address, DriverError
from workspaces.envelope.output_refusals import sentence
from workspaces.host import paths, program_leads
from workspaces.models import Command, Operation, ReasonCode
from workspaces.provisioning import limits
from workspaces.runner import ended_with, quarantine, redacted_files, refused_to_program
from workspaces.runner.refusals import Refused, unclear
from workspaces.secrets import credentials
from workspaces.services import network, run_tokens
from workspaces.shim import client
from workspaces.shim.record import ShimSpec
from workspaces.shim.recording import Reader

SERVICE_ENDS_S = 10.0  # a service that takes longer to end is kept in memory with the other programs
TAIL = 4096  # bytes of output included in an outcome
UNSTARTED = "It did not start: the process that was to start it was killed."
HELD_TAIL = 1 << 16  # bytes of a held program's output in which refusals are looked for


def folder(job) -> Path:
    return paths.program_of(job.workspace.pk, job.operation.pk)


async def run(
    job,
    argv,
    *,
    cwd,
    env,
    timeout_s,
    owner=None,
    phase="agent",
    begins=None,
    envelope=None,
    hosts=None,
    reaches=(),
    alive=None,
    **pty,
) -> dict:
    """Start a program (at most once) and wait for its end. Return as `Job.run_program` does.

    `owner`: the driver's record of a run other than the open one; `phase`: the phase whose secrets it gets, None for
    no secrets; `begins`: as for `Job.mark_started`; `envelope`: what it is held to, as JSON; `hosts`: a function to the
    hosts that were refused to it, default: those refused to the workspace; `reaches`: host:port of each server that an
    approval opened for it, and for no other program; `alive`: the driver's record of the open run, if it was just seen
    alive; `pty`: {pty, cols, rows} for a terminal.
    """
    may_be_led_on = owner is None and job.driver.capabilities.elsewhere and not job.operation.exclusive
    if owner is None:
        await job.daemon.vitals.check(job.workspace)
        owner = alive or await job.owner()
    if owner is None:
        raise DriverError("The workspace isn't running.")
    hidden = []
    if envelope:
        envelope, hidden = await redacted_files.prepare(job.daemon, job.workspace, envelope, owner.address.cwd)
    spec = ShimSpec(
        argv=tuple(with_shell(argv, owner.address.shell)),
        address=owner.address,
        cwd=None if cwd == "/workspace" else cwd,
        env=env,
        timeout_s=_shorter(timeout_s, envelope and envelope["seconds"]),
        cap_bytes=settings.HANDRAIL_OUTPUT_BYTES,
        ring=envelope and _ring(envelope, owner.address),
        **pty,
    )
    token = _open(job, owner, reaches)
    handed = await job.thread(_handed, job, phase, token)
    handed = replace(handed, hidden=(*handed.hidden, *hidden))
    if may_be_led_on:
        spec = await job.thread(_for_another_host, job, owner.run_id, spec, handed)
    await job.mark_started(begins)
    failpoint("program.asked")
    try:
        await client.start(folder(job), spec, handed)
        failpoint("K7")
        return await _follow(job, hosts, owner)
    finally:
        _close(job, owner, token)


def _open(job, owner, reaches) -> str:
    """Let the program of this job reach these hosts until `_close`; return the token that it shows, "" for none."""
    if not reaches or not network.has_managed_network(job.workspace):
        return ""
    # The same after a crash, when the program already has it.
    token = salted_hmac("workspaces.runner.programs.pass", str(job.operation.pk), algorithm="sha256").hexdigest()
    job.daemon.network.passes(owner.run_id).add(token, reaches)
    return token


def _close(job, owner, token: str):
    if token:
        job.daemon.network.passes(owner.run_id).end(token)


def _end_text(end, workspace) -> str:
    """Return how a program ended, in words; where memory ran out, with the limit."""
    words, limit = end.message(), limits.in_force(workspace.environment)["memory_bytes"]
    if not limit or not (end.reason == "oom" or end.oom_kills):
        return words
    return f"{words}. The limit is {plain_size(limit)}; its environment can set a higher one"


def _shorter(*seconds: float | None) -> float | None:
    return min((limit for limit in seconds if limit), default=None)


def _ring(envelope: dict, address: Address) -> dict:
    return {"envelope": envelope, "workspace": address.cwd, "home": address.env.get("HOME")}


def _for_another_host(job, run_id: str, spec: ShimSpec, handed) -> ShimSpec:
    """Keep what another host needs to go on with the program if this one is lost; return the spec to start it with."""
    with _readable():
        is_kept = program_leads.keep(job.operation, run_id, spec, handed.hidden)
    return replace(spec, kept_as=str(job.operation.pk)) if is_kept else spec


def no_longer_led_on(job):
    """Forget what another host would have needed, now that the program has ended."""
    if job.workspace.environment.capabilities.elsewhere:
        program_leads.forget(job.operation)


@contextmanager
def _readable():
    try:
        yield
    except Unreadable as error:
        raise DriverError(f"Its secrets cannot be read. {error}") from error


def _handed(job, phase, token=""):
    with _readable():
        more = run_tokens.variables(job.workspace, phase) if phase else {}
        if token:
            more |= network.environment_variables(job.workspace, token)
        more |= extensions.ports.program_variables(job.operation)
        handed = secrets.handed_to_program(job.workspace, phase, more)
        if phase != "agent" or not network.reaches_handrail(job.workspace):
            return handed
        # Stand-ins are no secrets, so the output may show them.
        return replace(handed, env=credentials.variables(job.workspace) | handed.env)


def with_shell(argv, shell: str):
    """Name bash by its path, so that the PATH cannot lead to another one. A root without bash has its own shell."""
    return [shell, *argv[1:]] if argv[0] == "bash" else argv


async def end_services(job, run) -> None:
    """End the services before memory is kept: each start launches them anew, so they would run twice."""
    open_ones = Command.objects.filter(run=run, operation__in=Operation.objects.open()).exclude(service="")
    found = await job.thread(list, open_ones.values_list("operation", flat=True))
    places_of = [paths.program_of(job.workspace.pk, operation) for operation in found]
    for where in places_of:
        with suppress(DriverError):  # it has just ended
            await client.cancel(where)
    for where in places_of:
        await client.wait(where, SERVICE_ENDS_S)


async def find(job, reaches=()) -> dict | None:
    """After a crash, return how the program ended, waiting if it still runs; None if it certainly never started.

    `reaches` as for `run`.
    """
    status = await client.settle(folder(job))
    if status.state == "never_started" and status.exit is None:
        await job.thread(shutil.rmtree, folder(job))  # with the claim that kept a late shim from starting it
        return None
    owner = await job.owner()
    token = _open(job, owner, reaches) if owner is not None else ""
    try:
        return await _follow(job, owner=owner)
    finally:
        _close(job, owner, token)


async def _follow(job, hosts=None, owner=None) -> dict:
    status = await client.wait(folder(job))
    if status.state == "lost":
        status = await client.settle(folder(job))
    failpoint("K8")
    end = status.exit
    if end is None:  # a shim that was killed between its claim and the start
        return Refused(UNSTARTED, ReasonCode.NOT_STARTED).outcome()
    if end.reason == "not_started":
        return Refused(end.message(), ReasonCode.NOT_STARTED).outcome()
    told = asdict(end) | {
        "end": end.reason,  # `reason` may become a sentence below
        "words": _end_text(end, job.workspace),
        "tail": base64.b64encode(tail(folder(job), end.output_bytes)).decode(),
    }
    if end.held:
        held_tail = tail(folder(job), end.output_bytes, HELD_TAIL)
        told["blocked"] = await refused_to_program.refused(job, told, held_tail, hosts)
        if hosts is None:  # a rehearsal runs on a copy of the files
            is_there = owner is not None and job.driver.lives(owner)
            where = owner if is_there else await job.owner()
            told["blocked"] += await quarantine.collect_created(job.daemon, job.workspace, where)
        if end.exit_status != 0:
            told["held_note"] = sentence(told["blocked"])
            told["words"] += f". {told['held_note']}"
    elif hosts is None and network.has_managed_network(job.workspace):
        told["blocked"] = await refused_to_program.hosts_refused(job, told)
    if end.reason == "forgotten":
        return told | Refused(f"{end.message()} It is not run again by itself.", ReasonCode.FORGOTTEN).outcome()
    if end.reason == "lost" and await job.thread(_is_being_ended, job):
        reason = "It was killed when its workspace ended; its exit status is unknown."
        return told | Refused(reason, ReasonCode.KILLED, words=reason).outcome()
    if end.reason == "lost" and (why := await ended_with.its_run(job, owner)):
        # What it did before is unknown, which is for a person to settle where one approved it.
        is_unclear = {"uncertain": True} if job.operation.kind not in ended_with.TOLD_BY_THE_RUN else {}
        return told | Refused(why, ReasonCode.LOST, words=why, **is_unclear).outcome()
    if end.reason == "lost":
        return told | unclear(f"{end.message()}. It is not run again by itself.", ReasonCode.LOST).outcome()
    return told | {"ok": True}


def _is_being_ended(job) -> bool:
    """Return True while an operation ends the Run on request: that killed a program which left no exit status."""
    kinds = [*lifecycle.ENDS_ON_REQUEST]
    return Operation.objects.in_flight().filter(workspace=job.workspace, kind__in=kinds).exists()


def tail(where: Path, total: int, size: int = TAIL) -> bytes:
    """Return the last `size` bytes of a program's output, which has `total` bytes."""
    reader = Reader(where, max(0, total - size))
    try:
        found = b""
        while (part := reader.next(1 << 16)) is not None:
            found = (found + getattr(part, "data", b""))[-size:]
        return found
    finally:
        reader.close()
