"""What code hosts have in common: a repository there, an account for it, and a pull request."""

import re
import unicodedata
from dataclasses import dataclass

PORTS = {"http": 80, "https": 443, "ssh": 22}
MAX_ADDRESS = 2000  # characters
# pattern: an address of at most MAX_ADDRESS characters
ADDRESS = re.compile(
    r"(?P<scheme>https?|ssh)://(?:[^/@]*@)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>\d+))?/+(?P<path>[\w.~/+-]+?)/*"
    r"|(?:[\w.-]+@)?(?P<scp_host>[A-Za-z0-9.-]+):(?P<scp_path>[\w.~][\w.~/+-]*?)/*"
)
MAX_TITLE, MAX_BODY = 250, 60_000  # characters; GitHub takes 256 and 65,536


class Refused(Exception):
    """The host did not do what was asked; the message says why. `status`: its answer's, 0 without an answer."""

    def __init__(self, message: str, status: int = -1):
        super().__init__(message)
        self.status = status

    @property
    def is_no_answer(self) -> bool:
        """Whether the host did not say what it did."""
        return self.status == 0 or self.status >= 500

    @property
    def next_step(self) -> str:
        """A sentence that says when to try again."""
        if self.status in (401, 403, 404):
            return "Try again when the token may do this."
        if self.is_no_answer or self.status == 429:
            return "Try again when the host answers as usual."
        return "Try again when this is resolved."


@dataclass(frozen=True)
class Repository:
    """A repository at a code host. `base` is the address of the host's site, without a slash at its end."""

    host: str
    base: str
    path: str  # OWNER/NAME; at GitLab the owner may be several groups

    @property
    def owner(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def site(self) -> str:
        """The host with its port, as people write it."""
        return self.base.partition("://")[2]

    @property
    def token_name(self) -> str:
        """The name that is proposed for the secret with the token. Several hosts share one: `Secret.origin` decides."""
        return "CODE_HOST_" + re.sub(r"[^A-Z0-9]", "_", self.base.partition("://")[2].upper())


@dataclass(frozen=True)
class Account:
    """A repository with the token for its host. Only `addresses` are contacted, if there are any.

    `addresses` are those that the host's name was checked to lead to. `kind`: github, gitlab, gitea or forgejo where a
    lead stated it, "" where the host is asked. `secret`: the name under which people know the token.
    """

    repository: Repository
    token: str
    secret: str = ""
    addresses: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class PullRequest:
    """A pull request to open; `base` "" stands for the repository's default branch.

    `given`: which of title and body somebody gave. Only these replace the texts of one that is open already.
    """

    branch: str
    base: str
    title: str
    body: str
    draft: bool = False
    given: tuple[str, ...] = ("title", "body")


@dataclass(frozen=True)
class Opened:
    """A pull request at its host. `is_new`: it was opened now; else it was open, and `updated` texts were replaced."""

    number: int
    url: str
    base: str
    is_new: bool = True
    title: str = ""
    updated: tuple[str, ...] = ()


def repository_of(address: str) -> Repository | None:
    """Return the repository that a git address leads to; None for a local path and git://."""
    found = ADDRESS.fullmatch(address) if len(address) <= MAX_ADDRESS else None
    if found is None or address.startswith("/"):
        return None
    host = (found["host"] or found["scp_host"]).lower()
    path = (found["path"] or found["scp_path"]).strip("/").removesuffix(".git")
    if "/" not in path or {"", ".", ".."} & set(path.split("/")):
        return None
    scheme = found["scheme"] if found["scheme"] in ("http", "https") else "https"
    default = {"http": "80", "https": "443"}[scheme]
    port = found["port"] if found["scheme"] == scheme and found["port"] != default else None
    return Repository(host, f"{scheme}://{host}{f':{port}' if port else ''}", path)


def same_branch(one: str, other: str) -> bool:
    """Return whether two names may stand for one branch: hosts differ in how they read refs/heads/ and case."""
    return _plain(one) == _plain(other)


def _plain(branch: str) -> str:
    name = unicodedata.normalize("NFC", branch).casefold()
    return re.sub(r"^(refs/)?heads/", "", name)


def needs_own_branch(base: str) -> str:
    return f"A pull request needs a branch of its own; {base} is where it would go."


def origin_of(address: str) -> str:
    """Return the address of a host in the form of `Repository.base`; "" for anything else than scheme, host, port."""
    found = re.fullmatch(r"(https?|ssh)://([A-Za-z0-9.-]+)(?::(\d{1,5}))?/?", address.strip())
    if not found:
        return ""
    scheme, host, port = found[1], found[2].lower(), int(found[3] or PORTS[found[1]])
    return f"{scheme}://{host}" if port == PORTS[scheme] else f"{scheme}://{host}:{port}"
