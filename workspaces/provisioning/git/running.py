"""Run git on this host for a source: only its checked addresses, no configuration of the host or of a repository."""

import base64
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from django.conf import settings

from dashboard.workers import warden
from workspaces.provisioning.git.addresses import Git
from workspaces.store import Cancelled

CLONE_SECONDS = 600
_LOOK_SECONDS = 0.2  # interval between checks for a cancellation


class CloneFailed(Exception):
    """A clone or push failed; the message is for a person and usually git's own."""


def pin(source: Git) -> list[str]:
    """Return git options that make curl contact only the checked addresses, and follow no redirects."""
    if not source.scheme.startswith("http"):
        return []
    found = ",".join(f"[{address}]" if ":" in address else address for address in source.pinned)
    return ["-c", f"http.curloptResolve={source.host}:{source.port}:{found}", "-c", "http.followRedirects=false"]


def contacted(source: Git) -> str:
    """Return the address for git. git:// cannot be pinned, so its host becomes an IP address (`environment_for`)."""
    if source.scheme == "file":  # file:// uses upload-pack: no hard links or shared objects with the source
        return f"file://{source.address}"
    if source.scheme != "git":
        return source.address
    first = f"[{source.pinned[0]}]" if ":" in source.pinned[0] else source.pinned[0]
    return f"git://{first}:{source.port}/{source.address.split('/', 3)[3]}"


# Keep the host's and the repository's git configuration from running programs during a clone.
CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "submodule.recurse": "false",
    "safe.directory": "*",
    "advice.detachedHead": "false",
    "init.defaultBranch": "main",
}
BARE = {
    "PATH": os.defpath if os.path.exists("/usr/bin/git") else os.environ["PATH"],
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "/bin/false",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_CONFIG_COUNT": str(len(CONFIG)),
    **{f"GIT_CONFIG_KEY_{n}": name for n, name in enumerate(CONFIG)},
    **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(CONFIG.values())},
}
# Hide the ~/.gitconfig, ~/.netrc, credential helpers and keys of Handrail's own user from git and curl.
LOCAL = BARE | {"HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}


def environment_for(source: Git) -> dict[str, str]:
    """Return the environment of a git process that contacts the source's host."""
    told = LOCAL | {"GIT_ALLOW_PROTOCOL": source.scheme}
    if source.scheme == "git":
        told["GIT_OVERRIDE_VIRTUAL_HOST"] = f"{source.host}:{source.port}"
    if source.lent and source.host in settings.HANDRAIL_GIT_HOSTS:
        del told["GIT_CONFIG_GLOBAL"]
        lent = {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in os.environ}
        told |= {"HOME": "/nonexistent"} | lent
    if source.scheme == "ssh":
        name = source.host if source.port == 22 else f"[{source.host}]:{source.port}"  # the form used in known_hosts
        options = [f"HostName={source.pinned[0]}", f"HostKeyAlias={name}", "CheckHostIP=no", "BatchMode=yes"]
        command = ["ssh", *(f"-o{option}" for option in options), "-oConnectTimeout=15", "-oForwardAgent=no"]
        told |= {"GIT_SSH_COMMAND": shlex.join(command), "GIT_SSH_VARIANT": "ssh"}
    return told


def signed_in(source: Git, token: str) -> dict[str, str]:
    """Return variables that make git send the token to an HTTP host; any name goes with it at the known hosts."""
    if not token or not source.scheme.startswith("http"):
        return {}
    sent = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    at = len(CONFIG)
    return {
        "GIT_CONFIG_COUNT": str(at + 1),
        f"GIT_CONFIG_KEY_{at}": "http.extraHeader",
        f"GIT_CONFIG_VALUE_{at}": f"Authorization: Basic {sent}",
    }


@contextmanager
def git_in(folder: Path, cancel: threading.Event | None = None) -> Iterator[Callable[..., str]]:
    """Yield `git(*args)`, which runs in this folder and returns stdout. The warden kills it if the runner is killed."""
    command = [sys.executable, "-I", "-S", warden.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True) as watching:

        def tell(line: str) -> None:
            with suppress(BrokenPipeError):  # the warden was killed
                watching.stdin.write(f"{line}\n".encode())

        yield partial(_git, folder, tell, cancel)


def _git(
    folder: Path, tell: Callable[[str], None], cancel: threading.Event | None, *args: str, env=LOCAL, check=True
) -> str:
    """Run git in the folder and return its stdout; "" if it failed and `check` is false, else CloneFailed."""
    try:
        process = subprocess.Popen(
            ["git", *args],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # one process group, to kill git together with its helpers (ssh, index-pack)
        )
    except FileNotFoundError:
        raise CloneFailed("git is not installed on this host.") from None
    tell(f"+{process.pid}")
    try:
        with process:
            out, said = _hear_out(process, cancel)
    finally:
        tell(f"-{process.pid}")
    if process.returncode and check:
        words = said.decode("utf-8", "replace").strip().splitlines()
        raise CloneFailed(f"git said: {words[-1][:500] if words else f'exit status {process.returncode}'}")
    return out.decode("utf-8", "replace").strip() if not process.returncode else ""


def _hear_out(process: subprocess.Popen, cancel: threading.Event | None) -> tuple[bytes, bytes]:
    """Collect git's output; on any exception kill its process group."""
    try:
        return _until_it_ends(process, cancel)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _until_it_ends(process: subprocess.Popen, cancel: threading.Event | None) -> tuple[bytes, bytes]:
    """Wait for git; raise Cancelled on a cancellation, CloneFailed after CLONE_SECONDS."""
    deadline = time.monotonic() + CLONE_SECONDS
    while True:
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled while git was at work")
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise CloneFailed(f"git took longer than {CLONE_SECONDS} seconds.") from None
