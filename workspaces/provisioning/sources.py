"""Git sources of a workspace: check an address or an allowed local repository, clone from it, push to it."""

import base64
import ipaddress
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import idna
from django.conf import settings

from dashboard.problems import invalid
from dashboard.workers import warden
from workspaces.egress.addresses import listed_in, may_be_reached
from workspaces.egress.names import BadName, host_name
from workspaces.store import Cancelled

CLONE_SECONDS = 600
_LOOK_SECONDS = 0.2  # interval between checks for a cancellation
_PORTS = {"https": 443, "http": 80, "git": 9418, "ssh": 22}
_SCP = re.compile(r"^([A-Za-z0-9._-]+@)?([A-Za-z0-9.-]+):(?!//)(.+)$")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<user>[^/?#@]*@)?(?P<host>\[[^\]/@]*\]|[^\[\]/?#@:]+)(?::(?P<port>[0-9]{1,5}))?(?P<path>/.*)"
)
_USER = re.compile(r"[A-Za-z0-9._-]+@")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True)
class Git:
    """A checked source: the address for git, and the IP addresses its host resolved to during the check."""

    address: str
    ref: str
    scheme: str = "file"
    host: str = ""
    port: int = 0
    pinned: tuple[str, ...] = ()  # the checked IP addresses; git contacts only these (no DNS rebinding)
    path: str = ""  # on that host
    lent: bool = True  # whether git may use the keys that Handrail has for hosts in HANDRAIL_GIT_HOSTS


def check_word(text: str) -> str:
    """Return an address or a ref that git reads as one word, and as no option; Problem 422 for any other."""
    if text.startswith("-"):
        raise invalid("A git address or ref can't begin with '-'.")
    if any(ord(c) < 33 or ord(c) == 127 for c in text):
        raise invalid("A git address or ref can't contain spaces, backslashes or control characters.")
    return text


def check_git(address: str, ref: str = "") -> Git:
    """Return the checked source; Problem 422 if it could run something, read this host's files or reach its network."""
    if not isinstance(address, str) or not address.strip() or address != address.strip():
        raise invalid("The git address is empty, or has spaces around it.")
    check_word(address)
    check_word(ref)
    if "\\" in address:
        raise invalid("A git address can't contain backslashes.")
    if address.startswith(("/", "file://")):
        return Git(str(allowed_folder(address.removeprefix("file://"), "Local repositories are cloned")), ref)
    if scp := _SCP.match(address):
        user, host, port, scheme, path = scp[1] or "", scp[2], 22, "ssh", scp[3]
    else:
        scheme, user, host, port, path = _parts(address)
    host = _host(host)
    if scheme == "ssh" and host not in settings.HANDRAIL_GIT_HOSTS:
        raise invalid(f"Handrail has no ssh key for {host}. An admin can name the host in HANDRAIL_GIT_HOSTS.")
    # Rebuild the address from its checked parts, so that git and curl cannot parse it differently from us.
    where = f"[{host}]" if ":" in host else host
    rebuilt = f"{user}{where}:{path}" if scp else f"{scheme}://{user}{where}:{port}{path}"
    return Git(rebuilt, ref, scheme, host, port, public_addresses(host, port), path)


def _parts(address: str) -> tuple[str, str, str, int, str]:
    """Split a URL into (scheme, user with its @, host, port, path); Problem 422 if it is invalid."""
    url = _URL.fullmatch(address)
    if not url or url["scheme"].lower() not in _PORTS:
        raise invalid(
            "A git address begins with https://, http://, ssh://, git://, or is a local path that is allowed."
        )
    scheme, user = url["scheme"].lower(), url["user"] or ""
    if user and (scheme != "ssh" or not _USER.fullmatch(user)):
        raise invalid("Don't put credentials in the address: they would be stored with the workspace.")
    port = url["port"] or str(_PORTS[scheme])
    if not 0 < int(port) < 65536:
        raise invalid("The address has an invalid port.")
    return scheme, user, url["host"].removeprefix("[").removesuffix("]"), int(port), url["path"]


def _host(text: str) -> str:
    """Return the host in canonical form: an IDNA 2008 A-label or an IP address; Problem 422 if it is invalid."""
    with suppress(ValueError):
        return str(ipaddress.ip_address(text))
    try:
        return host_name(text if text.isascii() else idna.encode(text, uts46=True).decode())
    except (BadName, idna.IDNAError):
        raise invalid(f"{text[:100]} is not a valid host name.") from None


def allowed_folder(path: str, what: str) -> Path:
    """Return the resolved folder if an admin has allowed it; else Problem 422, its message beginning with `what`."""
    real = Path(path).resolve()
    roots = settings.HANDRAIL_LOCAL_SOURCES
    if not any(real.is_relative_to(root) for root in roots):
        allowed = ", ".join(map(str, roots)) or "none"
        raise invalid(f"{what} from the folders in HANDRAIL_LOCAL_SOURCES only ({allowed}).")
    if real.is_relative_to(settings.HANDRAIL_HOME):
        raise invalid("Handrail's own data can't be a source.")
    if not real.is_dir():
        raise invalid(f"There is no folder {path}.")
    return real


def public_addresses(host: str, port: int) -> tuple[str, ...]:
    """Resolve the host; Problem 422 if an address is private (egress/addresses.py) and the settings forbid that."""
    try:
        found = listed_in(settings.HANDRAIL_EGRESS_HOSTS, host) or [
            info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ]
    except (OSError, UnicodeError):
        raise invalid(f"Can't resolve {host}.") from None
    if not settings.HANDRAIL_PRIVATE_SOURCES:
        for address in found:
            if not may_be_reached(address):
                raise invalid(f"{host} is at a private address ({address}); HANDRAIL_PRIVATE_SOURCES=1 allows that.")
    return tuple(dict.fromkeys(found))


class CloneFailed(Exception):
    """A clone or push failed; the message is for a person and usually git's own."""


def clone(source: Git, target: Path, *, cancel: threading.Event | None = None) -> str:
    """Clone into the empty folder `target`, check out the ref and return the commit's SHA ("" for an empty repository).

    Setting `cancel` kills git and raises Cancelled; the caller removes what was written to `target`.
    """
    verify = ("rev-parse", "--verify", "--quiet")
    options = ("--quiet", "--no-checkout", "--template=", "--no-hardlinks")
    with git_in(target, cancel) as git:
        env = _environment(source)
        git(*_pin(source), "clone", *options, "--", _contacted(source), ".", env=env)
        git("remote", "set-url", "origin", source.address)
        if not source.ref:
            if git(*verify, "HEAD", check=False) == "":
                return ""
            git("checkout", "--quiet")
        elif git(*verify, "--end-of-options", f"refs/remotes/origin/{source.ref}", check=False):
            git("checkout", "--quiet", "-B", source.ref, "--track", f"origin/{source.ref}")
        else:
            named = (*verify, "--end-of-options", f"{source.ref}^{{commit}}")
            sha = git(*named, check=False)
            if not sha and _COMMIT.fullmatch(source.ref):  # no branch leads to it; a host may give it all the same
                fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
                git(*_pin(source), *fetch, _contacted(source), source.ref, env=env, check=False)
                sha = git(*named, check=False)
            if not sha:
                raise CloneFailed(f"The repository has no branch, tag or commit {source.ref!r}.")
            git("checkout", "--quiet", "--detach", sha)
        return git("rev-parse", "HEAD")


Check = Callable[[Path, str, list[str]], None]


def push_bundle(scratch: Path, source: Git, branch: str, *, check: Check, token: str = "", again: bool = False) -> str:
    """Push HEAD of the bundle in `scratch` to a branch of the source, never by force; return the commit's SHA.

    `check(repository, sha, tips)` refuses by raising, before anything is pushed: `tips` are those of the branches that
    the source has, which this repository may lack. Raise CloneFailed if a branch there has this commit already, unless
    it is this branch and `again` is true. `token`: the password for an HTTP host.

    The bundle comes from a workspace and is untrusted: its objects are checked, and it carries no git configuration.
    """
    repository = scratch / "repository"
    repository.mkdir()
    with git_in(repository) as git:
        git("init", "--quiet", "--bare", "--template=")
        git("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "../bundle", "HEAD:refs/heads/pushed")
        sha = git("rev-parse", "refs/heads/pushed")
        env = _environment(source) | _signed_in(source, token)
        there = _branches_there(git, source, env)
        check(repository, sha, list(there.values()))
        if again and there.get(branch) == sha:
            return sha
        if sha in there.values():
            named = branch if there.get(branch) == sha else next(name for name, tip in there.items() if tip == sha)
            raise CloneFailed(f"Nothing to push: HEAD, {sha[:12]}, is what {named} there has already.")
        git(*_pin(source), "push", "--quiet", _contacted(source), f"{sha}:refs/heads/{branch}", env=env)
    return sha


def default_branch(source: Git, *, token: str = "") -> str:
    """Return the branch that the source's HEAD names, "" if it does not say. Raise CloneFailed."""
    with tempfile.TemporaryDirectory() as folder, git_in(Path(folder)) as git:
        env = _environment(source) | _signed_in(source, token)
        told = git(*_pin(source), "ls-remote", "--symref", "--", _contacted(source), "HEAD", env=env)
    named = re.search(r"^ref: refs/heads/(.+)\tHEAD$", told, re.MULTILINE)
    return named[1] if named else ""


def _branches_there(git: Callable[..., str], source: Git, env: dict[str, str]) -> dict[str, str]:
    """Return {branch: SHA} of the source as it is now."""
    told = git(*_pin(source), "ls-remote", "--quiet", "--heads", "--", _contacted(source), env=env)
    rows = (line.split("\t", 1) for line in told.splitlines() if "\t" in line)
    return {name.removeprefix("refs/heads/"): sha for sha, name in rows}


def _pin(source: Git) -> list[str]:
    """Return git options that make curl contact only the checked addresses, and follow no redirects."""
    if not source.scheme.startswith("http"):
        return []
    found = ",".join(f"[{address}]" if ":" in address else address for address in source.pinned)
    return ["-c", f"http.curloptResolve={source.host}:{source.port}:{found}", "-c", "http.followRedirects=false"]


def _contacted(source: Git) -> str:
    """Return the address for git. git:// cannot be pinned, so its host becomes the IP address (see `_environment`)."""
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


def _environment(source: Git) -> dict[str, str]:
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


def _signed_in(source: Git, token: str) -> dict[str, str]:
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
