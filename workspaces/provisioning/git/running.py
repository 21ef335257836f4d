"""Run git on this host for a source: only its checked addresses, no configuration of the host or of a repository."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from dashboard.net import outbound
from dashboard.workers.watched import watched
from workspaces.host import paths
from workspaces.provisioning.git import output
from workspaces.provisioning.git.addresses import Git, is_lent
from workspaces.provisioning.git.credentials import NONE, Credential, basic, complaint
from workspaces.store import Cancelled

CLONE_SECONDS = 600
KEYS = "ssh-"  # how the names of folders with keys begin
_LOOK_SECONDS = 0.2  # interval between checks for a cancellation


class CloneFailed(Exception):
    """A clone or push failed; the message is for a person and usually git's own.

    `said`, `told`: what git printed on stderr and stdout. `code`: a ReasonCode; `more`: further keys of the outcome.
    """

    def __init__(self, message: str, *, said: str = "", told: str = "", code: str = "source", more: dict | None = None):
        super().__init__(message)
        self.said, self.told, self.code, self.more = said, told, code, more or {}


class NotLetIn(CloneFailed):
    """The host wants credentials that were not sent, or refuses those that were. `secret`: {name, origin} to set."""

    def __init__(self, words: str, credential: Credential, **printed: str):
        secret = credential.secret
        super().__init__(words, code="token", more={"secret": secret} if secret else {}, **printed)
        self.secret = secret


def pin(source: Git) -> list[str]:
    """Return git options that make curl contact only the checked addresses, and follow no redirects."""
    if not source.scheme.startswith("http"):
        return []
    redirects = ["-c", "http.followRedirects=false"]
    if not source.pinned:  # the proxy alone knows its name
        return redirects
    found = ",".join(f"[{address}]" if ":" in address else address for address in source.pinned)
    return ["-c", f"http.curloptResolve={source.host}:{source.port}:{found}", *redirects]


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


class RemoteEnvironment(dict):
    """The environment of a git process that contacts a source's host; what it may use there, and for its messages."""

    def __init__(self, told: dict[str, str], source: Git, credential: Credential):
        super().__init__(told)
        self.source, self.credential = source, credential

    def __or__(self, more):
        return RemoteEnvironment({**self, **more}, self.source, self.credential)


def environment_for(source: Git, credential: Credential = NONE) -> RemoteEnvironment:
    """Return the environment of a git process that contacts the source's host.

    A team's credential comes before those that Handrail has for the host. It is in no argument of a process: a token is
    in git's environment alone, a key in a file while git runs (`_with_key`).
    """
    told = LOCAL | {"GIT_ALLOW_PROTOCOL": source.scheme}
    if source.scheme == "git":
        told["GIT_OVERRIDE_VIRTUAL_HOST"] = f"{source.host}:{source.port}"
    if not credential.is_sent and is_lent(source):
        del told["GIT_CONFIG_GLOBAL"]
        lent = {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in os.environ}
        told |= {"HOME": "/nonexistent"} | lent
    if source.scheme == "ssh":
        told |= {"GIT_SSH_COMMAND": _ssh(source), "GIT_SSH_VARIANT": "ssh"}
    if source.scheme.startswith("http"):
        told |= outbound.variables(source.host, source.port, source.pinned)
    if credential.token and source.scheme.startswith("http"):
        told |= _signed_in(source, credential.token)
    return RemoteEnvironment(told, source, credential)


def _signed_in(source: Git, token: str) -> dict[str, str]:
    """Return variables that make git send the token to this scheme, host and port."""
    host = f"[{source.host}]" if ":" in source.host else source.host
    at = len(CONFIG)
    return {
        "GIT_CONFIG_COUNT": str(at + 1),
        f"GIT_CONFIG_KEY_{at}": f"http.{source.scheme}://{host}:{source.port}/.extraHeader",
        f"GIT_CONFIG_VALUE_{at}": f"Authorization: {basic(token)}",
    }


def _ssh(source: Git, *more: str) -> str:
    """Return the command of ssh for a source, with `more` of its arguments first: the first value of an option wins."""
    options = [f"HostName={source.pinned[0]}", f"HostKeyAlias={_known_as(source)}", "CheckHostIP=no", "BatchMode=yes"]
    return shlex.join(
        ["ssh", *more, *(f"-o{option}" for option in options), "-oConnectTimeout=15", "-oForwardAgent=no"]
    )


def _known_as(source: Git) -> str:
    """Return the host's name in known_hosts."""
    return source.host if source.port == 22 else f"[{source.host}]:{source.port}"


@contextmanager
def _with_key(env: dict[str, str], tell: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Yield the environment with a team's ssh key in files; they are deleted afterwards, also if the runner is killed.

    ssh then reads no file of Handrail's user (it finds that user's home without HOME) and asks no agent.
    """
    credential = getattr(env, "credential", NONE)
    if not credential.ssh_key:
        yield env
        return
    with tempfile.TemporaryDirectory(prefix=KEYS, dir=paths.runtime()) as folder:
        tell(f"+{folder}")
        try:
            yield env | {"GIT_SSH_COMMAND": _ssh(env.source, *_with_files(Path(folder), env.source, credential))}
        finally:
            tell(f"-{folder}")


def delete_keys():
    """Delete the keys of git processes that a power cut ended; the warden does it after any other end of the runner."""
    for folder in paths.runtime().glob(f"{KEYS}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _with_files(folder: Path, source: Git, credential: Credential) -> list[str]:
    """Write the key and the pinned host keys into the folder; return arguments with which ssh uses these alone."""
    key, hosts = folder / "key", folder / "known_hosts"
    _write_private(key, f"{credential.ssh_key.strip()}\n")
    _write_private(hosts, "".join(f"{_known_as(source)} {line}\n" for line in credential.host_key.splitlines()))
    options = ["IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey", "UpdateHostKeys=no"]
    options += ["StrictHostKeyChecking=yes", f"UserKnownHostsFile={hosts}", "GlobalKnownHostsFile=/dev/null"]
    return ["-F/dev/null", f"-i{key}", *(f"-o{option}" for option in options)]


def _write_private(file: Path, text: str):
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(text)


@contextmanager
def git_in(folder: Path, cancel: threading.Event | None = None) -> Iterator[Callable[..., str]]:
    """Yield `git(*args)`, which runs in this folder and returns stdout. The warden kills it if the runner is killed."""
    with watched() as tell:
        yield partial(_git, folder, tell, cancel)


def _git(
    folder: Path,
    tell: Callable[[str], None],
    cancel: threading.Event | None,
    *args: str,
    env=LOCAL,
    check=True,
    heard: list[str] | None = None,
) -> str:
    """Run git in the folder and return its stdout; "" if it failed and `check` is false, else CloneFailed.

    What it says on stderr is added to `heard`.
    """
    with _with_key(env, tell) as env:
        status, out, err = _run(folder, tell, cancel, args, env)
    told, words = out.decode("utf-8", "replace").strip(), err.decode("utf-8", "replace")
    if heard is not None:
        heard.append(words)
    if status and check:
        raise failure(env, words, status, told)
    return told if not status else ""


def failure(env: dict[str, str], words: str, status: int, told: str = "") -> CloneFailed:
    """Return the error for what git said on stderr: NotLetIn if the host that `env` is for wants other credentials."""
    printed = {"said": words, "told": told}
    if isinstance(env, RemoteEnvironment) and (why := complaint(env.source, env.credential, words)):
        return NotLetIn(why, env.credential, **printed)
    return CloneFailed(f"git said: {output.sentence(words, status)}", **printed)


def _run(folder: Path, tell, cancel, args: tuple[str, ...], env: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run git; return its exit status, stdout and stderr."""
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
            out, err = _hear_out(process, cancel)
        return process.returncode, out, err
    finally:
        tell(f"-{process.pid}")


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
