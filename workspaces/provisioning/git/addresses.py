"""Addresses of git sources: check one, resolve its host, allow a folder of this host."""

import ipaddress
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import idna
from django.conf import settings

from dashboard.problems import invalid
from workspaces.egress.addresses import listed_in, may_be_reached
from workspaces.egress.names import BadName, host_name

CLONE_SECONDS = 600
_LOOK_SECONDS = 0.2  # interval between checks for a cancellation
PORTS = {"https": 443, "http": 80, "git": 9418, "ssh": 22}
TOLD = ("sha", "default_branch", "submodules", "lfs")  # what a clone adds to the source that was asked for
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


def is_lent(source: Git) -> bool:
    """Return whether git may use Handrail's own credentials for the source's host."""
    return source.lent and source.host in settings.HANDRAIL_GIT_HOSTS


def check_word(text: str) -> str:
    """Return an address or a ref that git reads as one word, and as no option; Problem 422 for any other."""
    if text.startswith("-"):
        raise invalid("A git address or ref can't begin with '-'.")
    if any(ord(c) < 33 or ord(c) == 127 for c in text):
        raise invalid("A git address or ref can't contain spaces, backslashes or control characters.")
    return text


def check_git(address: str, ref: str = "") -> Git:
    """Return the checked source; Problem 422 if it could run something, read this host's files or reach its network.

    Whether somebody has an ssh key for its host is for `team_credentials.refuse_without_key`, which knows the team.
    """
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
    # Rebuild the address from its checked parts, so that git and curl cannot parse it differently from us.
    where = f"[{host}]" if ":" in host else host
    rebuilt = f"{user}{where}:{path}" if scp else f"{scheme}://{user}{where}:{port}{path}"
    return Git(rebuilt, ref, scheme, host, port, public_addresses(host, port, named=scheme.startswith("http")), path)


def _parts(address: str) -> tuple[str, str, str, int, str]:
    """Split a URL into (scheme, user with its @, host, port, path); Problem 422 if it is invalid."""
    url = _URL.fullmatch(address)
    if not url or url["scheme"].lower() not in PORTS:
        raise invalid(
            "A git address begins with https://, http://, ssh://, git://, or is a local path that is allowed."
        )
    scheme, user = url["scheme"].lower(), url["user"] or ""
    if user and (scheme != "ssh" or not _USER.fullmatch(user)):
        raise invalid("Don't put credentials in the address: they would be stored with the workspace.")
    port = url["port"] or str(PORTS[scheme])
    if not 0 < int(port) < 65536:
        raise invalid("The address has an invalid port.")
    return scheme, user, url["host"].removeprefix("[").removesuffix("]"), int(port), url["path"]


def owner(path: str) -> str | None:
    """Return the first part of a repository's path, "" if it has no other; None if hosts could read it differently."""
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts) or any(mark in path for mark in "%?#;"):
        return None
    return parts[0] if len(parts) > 1 else ""


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


def public_addresses(host: str, port: int, *, named: bool = False) -> tuple[str, ...]:
    """Resolve the host; Problem 422 if an address is private (egress/addresses.py) and the settings forbid that.

    () for a name that only the company's proxy may know, where it is sent by name (`named`).
    """
    try:
        found = listed_in(settings.HANDRAIL_EGRESS_HOSTS, host) or [
            info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ]
    except (OSError, UnicodeError):
        if named and settings.HANDRAIL_UPSTREAM.on_the_way_to(host, port):
            return ()  # the company's proxy may know it
        raise invalid(f"Can't resolve {host}.") from None
    if not settings.HANDRAIL_PRIVATE_SOURCES:
        for address in found:
            if not may_be_reached(address):
                raise invalid(f"{host} is at a private address ({address}); HANDRAIL_PRIVATE_SOURCES=1 allows that.")
    return tuple(dict.fromkeys(found))
