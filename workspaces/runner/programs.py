"""Programs under their host processes, from the runner's side: start at most once, follow, and find again."""

import base64
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from django.conf import settings

from dashboard.failpoints import failpoint
from dashboard.keyring import Unreadable
from workspaces import places, secrets
from workspaces.drivers.base import DriverError
from workspaces.hosts import client
from workspaces.hosts.folder import HostSpec
from workspaces.hosts.recording import Reader
from workspaces.models import Command, Effect

SERVICE_ENDS_S = 10.0  # one that does not end in time is kept with the rest
TAIL = 4096  # bytes of output that travel in an outcome


def folder(job) -> Path:
    return places.program_of(job.workspace.pk, job.effect.pk)


async def run(job, argv, *, cwd, env, timeout_s, owner=None, phase="agent", **pty) -> dict:
    """Start (at most once) and wait for the end; see Job.run_program.

    `owner`: another run than the open one; `phase`: whose secrets it gets, None for no secrets; `pty`: {pty, cols,
    rows} for a terminal.
    """
    if owner is None:
        await job.daemon.vitals.check(job.workspace)
        owner = await job.owner()
    if owner is None:
        raise DriverError("The workspace is not up.")
    spec = HostSpec(
        argv=tuple(_with_shell(argv, owner.address.shell)),
        address=owner.address,
        cwd=None if cwd == "/workspace" else cwd,
        env=env,
        timeout_s=timeout_s,
        cap_bytes=settings.HANDRAIL_OUTPUT_BYTES,
        **pty,
    )
    handed = await job.thread(_handed, job.workspace, phase)
    await job.started()
    failpoint("program.asked")
    await client.start(folder(job), spec, handed)
    failpoint("K7")
    return await _follow(job)


def _handed(workspace, phase):
    try:
        return secrets.handing(workspace, phase)
    except Unreadable as error:
        raise DriverError(f"Its secrets cannot be read. {error}") from error


def _with_shell(argv, shell: str):
    """A command line is for bash; in a root without one it is for the shell that there is."""
    return [shell, *argv[1:]] if argv[0] == "bash" and not shell.endswith("/bash") else argv


async def end_services(job, run) -> None:
    """Before memory is kept: services begin anew at each start, and would run twice beside those that went on."""
    open_ones = Command.objects.filter(run=run, effect__in=Effect.objects.open()).exclude(service="")
    found = await job.thread(list, open_ones.values_list("effect", flat=True))
    places_of = [places.program_of(job.workspace.pk, effect) for effect in found]
    for where in places_of:
        with suppress(DriverError):  # it has just ended
            await client.cancel(where)
    for where in places_of:
        await client.wait(where, SERVICE_ENDS_S)


async def find(job) -> dict | None:
    """After a crash: how it ended (waits for one that runs on), or None: it certainly never began, and may begin."""
    status = await client.settle(folder(job))
    if status.state == "never_started" and status.exit is None:
        await job.thread(shutil.rmtree, folder(job))  # with the claim that kept a late host from starting it
        return None
    return await _follow(job)


async def _follow(job) -> dict:
    status = await client.wait(folder(job))
    if status.state == "lost":
        status = await client.settle(folder(job))
    failpoint("K8")
    end = status.exit
    if end.reason == "not_started":
        return {"ok": False, "reason": end.words()}
    told = asdict(end) | {"words": end.words(), "tail": base64.b64encode(tail(folder(job), end.output_bytes)).decode()}
    if end.reason == "forgotten":
        return told | {"ok": False, "reason": f"{end.words()} It is not run again by itself."}
    if end.reason == "lost":
        return told | {"ok": False, "uncertain": True, "reason": f"{end.words()}. It is not run again by itself."}
    return told | {"ok": True}


def tail(where: Path, total: int, size: int = TAIL) -> bytes:
    """The last bytes of what a program printed, which was `total` bytes."""
    reader = Reader(where, max(0, total - size))
    try:
        found = b""
        while (part := reader.next(1 << 16)) is not None:
            found = (found + getattr(part, "data", b""))[-size:]
        return found
    finally:
        reader.close()
