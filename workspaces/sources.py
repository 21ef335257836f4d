"""Where a workspace's first files may come from: a git address, or a local repository under an allowed root."""

import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from dashboard import warden
from dashboard.problems import invalid
from workspaces.store import Cancelled

CLONE_SECONDS = 600
_LOOK_SECONDS = 0.2  # between two looks whether somebody wants it to stop
_PORTS = {"https": 443, "http": 80, "git": 9418, "ssh": 22}
_SCP = re.compile(r"^(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):(?!//)(.+)$")


@dataclass(frozen=True)
class Git:
    """A checked source: what git is given, and the addresses that its host had when it was checked."""

    address: str
    ref: str
    host: str = ""
    port: int = 0
    pinned: str = ""  # one address of the host: what was checked is what is contacted


def check_git(address: str, ref: str = "") -> Git:
    """Refuse (Problem 422) what could run something, read this host's files or reach its network."""
    if not isinstance(address, str) or not address.strip() or address != address.strip():
        raise invalid("The git address is empty, or has blanks around it.")
    if address.startswith("-") or ref.startswith("-"):
        raise invalid("A git address or ref does not begin with '-'.")
    if any(ord(c) < 33 or ord(c) == 127 for c in address + ref):
        raise invalid("A git address or ref has no blanks and no control characters.")
    if address.startswith(("/", "file://")):
        return Git(str(allowed_folder(address.removeprefix("file://"), "Local repositories are cloned")), ref)
    parts = urlsplit(address)
    if not parts.scheme and (scp := _SCP.match(address)):
        host, port = scp[1], 22
    elif parts.scheme in _PORTS and parts.hostname:
        if parts.password or (parts.scheme != "ssh" and parts.username):
            raise invalid("Credentials do not belong into an address: they would be stored with the workspace.")
        try:
            host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
        except ValueError:
            raise invalid("The address has a port that is none.") from None
    else:
        raise invalid(
            "A git address begins with https://, http://, ssh://, git://, or is a local path that is allowed."
        )
    return Git(address, ref, host, port, _public_address(host, port))


def allowed_folder(path: str, what: str) -> Path:
    """A folder of this host that an admin has allowed; `what` begins the sentence that refuses another."""
    real = Path(path).resolve()
    roots = settings.HANDRAIL_LOCAL_SOURCES
    if not any(real.is_relative_to(root) for root in roots):
        allowed = ", ".join(map(str, roots)) or "none"
        raise invalid(f"{what} from the folders in HANDRAIL_LOCAL_SOURCES only ({allowed}).")
    if real.is_relative_to(settings.HANDRAIL_HOME):
        raise invalid("Handrail's own data is no source.")
    if not real.is_dir():
        raise invalid(f"There is no folder {path}.")
    return real


def _public_address(host: str, port: int) -> str:
    try:
        found = [info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise invalid(f"The host {host} has no address.") from None
    if not settings.HANDRAIL_PRIVATE_SOURCES:
        for address in found:
            ip = ipaddress.ip_address(address.split("%")[0])
            if not (getattr(ip, "ipv4_mapped", None) or ip).is_global:
                raise invalid(f"{host} is at a private address ({address}); HANDRAIL_PRIVATE_SOURCES=1 allows that.")
    return found[0]


class CloneFailed(Exception):
    """git's own words on why there is nothing to work with."""


def clone(source: Git, target: Path, *, cancel: threading.Event | None = None) -> str:
    """Clone into the empty folder `target` and check the ref out; the commit's SHA ("" for an empty repository).

    `cancel` ends git and raises Cancelled; what is in `target` then is the caller's to remove.
    """
    verify = ("rev-parse", "--verify", "--quiet")
    options = ("--quiet", "--no-checkout", "--template=", "--no-hardlinks")
    with _git_in(target, cancel) as git:
        git(*_pin(source), "clone", *options, "--", _for_git(source), ".")
        git("remote", "set-url", "origin", source.address)
        if not source.ref:
            if git(*verify, "HEAD", check=False) == "":
                return ""
            git("checkout", "--quiet")
        elif git(*verify, "--end-of-options", f"refs/remotes/origin/{source.ref}", check=False):
            git("checkout", "--quiet", "-B", source.ref, "--track", f"origin/{source.ref}")
        else:
            sha = git(*verify, "--end-of-options", f"{source.ref}^{{commit}}", check=False)
            if not sha:
                raise CloneFailed(f"The repository has no branch, tag or commit {source.ref!r}.")
            git("checkout", "--quiet", "--detach", sha)
        return git("rev-parse", "HEAD")


def push_bundle(scratch: Path, source: Git, branch: str) -> str:
    """Push HEAD of the bundle in `scratch` to a branch of the source, never by force; the commit's SHA.

    The bundle comes from a workspace, so its objects are checked, and nothing of its configuration is here.
    """
    repository = scratch / "repository"
    repository.mkdir()
    with _git_in(repository) as git:
        git("init", "--quiet", "--bare", "--template=")
        git("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "../bundle", "HEAD:refs/heads/pushed")
        sha = git("rev-parse", "refs/heads/pushed")
        git(*_pin(source), "push", "--quiet", _for_git(source), f"refs/heads/pushed:refs/heads/{branch}")
    return sha


def _for_git(source: Git) -> str:
    # file:// goes through upload-pack: no hard links and no shared object files with the source.
    return f"file://{source.address}" if source.address.startswith("/") else source.address


def _pin(source: Git) -> list[str]:
    if not source.pinned:
        return []
    address = f"[{source.pinned}]" if ":" in source.pinned else source.pinned
    return ["-c", f"http.curloptResolve={source.host}:{source.port}:{address}", "-c", "http.followRedirects=false"]


def _environment() -> dict[str, str]:
    # Nothing of this host's or the repository's configuration runs a program while we clone.
    config = {
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "protocol.ext.allow": "never",
        "submodule.recurse": "false",
        "safe.directory": "*",
        "advice.detachedHead": "false",
        "init.defaultBranch": "main",
    }
    numbered = {}
    for n, (name, value) in enumerate(config.items()):
        numbered |= {f"GIT_CONFIG_KEY_{n}": name, f"GIT_CONFIG_VALUE_{n}": value}
    return {
        "PATH": os.defpath if os.path.exists("/usr/bin/git") else os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),  # ssh keys of whoever runs Handrail
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes -o ConnectTimeout=15",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_CONFIG_COUNT": str(len(config)),
        **numbered,
    }


@contextmanager
def _git_in(folder: Path, cancel: threading.Event | None = None) -> Iterator[Callable[..., str]]:
    """`git(*args)` in this folder: what it printed. A runner that is killed leaves no git that goes on by itself."""
    command = [sys.executable, "-I", "-S", warden.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True) as watching:

        def tell(line: str) -> None:
            with suppress(BrokenPipeError):  # somebody killed it
                watching.stdin.write(f"{line}\n".encode())

        yield partial(_git, folder, tell, cancel)


def _git(folder: Path, tell: Callable[[str], None], cancel: threading.Event | None, *args: str, check=True) -> str:
    try:
        process = subprocess.Popen(
            ["git", *args],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # git has helpers (ssh, index-pack), and all of them end together
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
    try:
        return _until_it_ends(process, cancel)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _until_it_ends(process: subprocess.Popen, cancel: threading.Event | None) -> tuple[bytes, bytes]:
    deadline = time.monotonic() + CLONE_SECONDS
    while True:
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled while git was at work")
        try:
            return process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise CloneFailed(f"git took longer than {CLONE_SECONDS} seconds.") from None
