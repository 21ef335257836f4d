"""Run one read at the code host: the resolved program, in a clean environment and an empty folder, as our own user."""

import asyncio
import contextlib
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from dashboard.database.threads import query_in_thread
from workspaces import secrets
from workspaces.drivers.folder.driver import home_of, user_env
from workspaces.runner.code_host import copies
from workspaces.services import host_programs
from workspaces.shim.redact import Redactor

READ_SECONDS, FETCH_SECONDS = 100, 1800  # agents wait 120 s for a command; a fetch goes on after that
LINGER_SECONDS = 2  # that more output is waited for after the program has ended
OUTPUT_BYTES = 16 << 20
CANNOT_RUN, TIMED_OUT = 126, 124
PIECE = 1 << 16
# Of our own environment: where a person's programs find their credentials, and how they reach the network.
CREDENTIALS = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GITLAB_TOKEN")
PASSED_ON = (
    *CREDENTIALS, "GH_CONFIG_DIR", "GLAB_CONFIG_DIR", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy",
)  # fmt: skip
# No pager, editor, browser or question, whatever a configuration says.
QUIET = {
    **dict.fromkeys(("PAGER", "GH_PAGER", "GLAB_PAGER", "GIT_PAGER"), "cat"),
    **dict.fromkeys(("BROWSER", "GH_BROWSER", "GLAB_BROWSER", "EDITOR", "VISUAL", "GH_EDITOR"), "/bin/false"),
    **dict.fromkeys(("GIT_EDITOR", "GIT_ASKPASS", "SSH_ASKPASS"), "/bin/false"),
    **dict.fromkeys(("GH_PROMPT_DISABLED", "NO_PROMPT", "GH_NO_UPDATE_NOTIFIER", "NO_COLOR"), "1"),
    "GLAB_CHECK_UPDATE": "false",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
}


@dataclass(frozen=True)
class Ran:
    """How a read ended, with the size of its output."""

    status: int
    size: int
    why: str = ""


async def run(workspace, plan: dict, send) -> Ran:
    """Run the program of a plan; `send(kind, data)` gets its output, "o" or "e", without secrets."""
    program = await asyncio.to_thread(host_programs.find, plan["program"])
    return await _run(workspace, [str(program), *plan["arguments"]], plan["env"], send, READ_SECONDS)


async def bring_copies_up_to_date(workspace, plan: dict, send) -> Ran:
    """Fetch the remotes of a plan into their copies, one after the other."""
    program = await asyncio.to_thread(host_programs.find, "git")
    ran = Ran(0, 0)
    for url, refspecs in plan["fetch"]:
        for arguments in copies.steps(workspace.pk, url, refspecs):
            ran = await _run(workspace, [str(program), *arguments], {}, send, FETCH_SECONDS)
            if ran.status:
                return ran
    return ran


def environment(more: dict, nowhere: Path) -> dict[str, str]:
    """Return the environment of a read: a login of our own user without what could redirect the program."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = str(home_of(os.getuid()))
    path = f"{settings.HANDRAIL_CODE_HOST_PATH}:/usr/bin:/bin"
    ceiling = {"GIT_CEILING_DIRECTORIES": str(nowhere.parent)}
    return (
        user_env(os.getuid())
        | passed
        | {"PATH": path, "HOME": home}
        | QUIET
        | ceiling
        | copies.settings_of_git()
        | more
    )


async def _run(workspace, argv: list[str], env: dict, send, seconds: float) -> Ran:
    nowhere = copies.folder_of(workspace.pk) / "nowhere"
    env = environment(env, nowhere)
    hidden = await query_in_thread(secrets.handed_to, workspace)
    hidden += [(name, env[name]) for name in CREDENTIALS if env.get(name)]
    left = [OUTPUT_BYTES]
    async with _pipe() as (out, out_end), _pipe() as (err, err_end):
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=nowhere,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out_end,
            stderr=err_end,
            start_new_session=True,
        )
        out_end.close()
        err_end.close()
        ended = asyncio.ensure_future(process.wait())
        copied = [
            asyncio.ensure_future(_copied(_pieces(stream, ended), kind, Redactor(hidden), send, left))
            for stream, kind in ((out, "o"), (err, "e"))
        ]
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*copied)
                status = await asyncio.shield(ended)
        except TimeoutError:
            return Ran(TIMED_OUT, OUTPUT_BYTES - left[0], f"it took longer than {seconds} seconds")
        except _TooMuch:
            return Ran(CANNOT_RUN, OUTPUT_BYTES, f"it printed more than {OUTPUT_BYTES >> 20} MB")
        finally:
            await _end(process, ended, copied)
    return Ran(status if status >= 0 else 128 - status, OUTPUT_BYTES - left[0])


@asynccontextmanager
async def _pipe():
    """Yield a stream and the file whose output it reads. Unlike asyncio's own, it does not delay `process.wait()`."""
    ours, theirs = os.pipe()
    stream = asyncio.StreamReader(limit=PIECE)
    with open(theirs, "wb", buffering=0) as file:
        protocol = asyncio.StreamReaderProtocol(stream)
        source = open(ours, "rb", buffering=0)  # noqa: SIM115 - the transport closes it
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, source)
        try:
            yield stream, file
        finally:
            transport.close()


class _TooMuch(Exception):
    """The program prints more than is passed on."""


async def _copied(pieces, kind: str, redactor, send, left: list[int]):
    async for data in pieces:
        left[0] -= len(data)
        if left[0] < 0:
            raise _TooMuch
        await send(kind, redactor.feed(data))
    await send(kind, redactor.flush())


async def _pieces(stream, ended):
    """Yield what a program prints. What holds its output open after it has ended (ssh's master) is not waited for."""
    while True:
        reading = asyncio.ensure_future(stream.read(PIECE))
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({reading}, timeout=LINGER_SECONDS)
            if not reading.done() or not reading.result():
                return
            yield reading.result()
        finally:
            reading.cancel()


async def _end(process, ended, copied):
    """Kill the program with those that it started, unless it has ended, and stop copying."""
    if not ended.done():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await ended
    for task in copied:
        task.cancel()
    await asyncio.gather(*copied, return_exceptions=True)
