"""What code hosts have in common: a repository there, a pull request, and the contract of a host's API."""

import re
import unicodedata
from abc import ABC, abstractmethod
from dataclasses import dataclass

from workspaces.code_hosts.client import Client, Unreachable

PORTS = {"http": 80, "https": 443, "ssh": 22}
MAX_ADDRESS = 2000  # characters
# pattern: an address of at most MAX_ADDRESS characters
ADDRESS = re.compile(
    r"(?P<scheme>https?|ssh)://(?:[^/@]*@)?(?P<host>[A-Za-z0-9.-]+)(?::(?P<port>\d+))?/+(?P<path>[\w.~/+-]+?)/*"
    r"|(?:[\w.-]+@)?(?P<scp_host>[A-Za-z0-9.-]+):(?P<scp_path>[\w.~][\w.~/+-]*?)/*"
)
MAX_TITLE, MAX_BODY = 250, 60_000  # characters; GitHub takes 256 and 65,536


class Refused(Exception):
    """The host did not open the pull request; the message says why."""


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
    def token_name(self) -> str:
        """The name that is proposed for the secret with the token. Several hosts share one: `Secret.origin` decides."""
        return "CODE_HOST_" + re.sub(r"[^A-Z0-9]", "_", self.base.partition("://")[2].upper())


@dataclass(frozen=True)
class PullRequest:
    """A pull request to open; `base` "" stands for the repository's default branch."""

    branch: str
    base: str
    title: str
    body: str


@dataclass(frozen=True)
class Opened:
    """A pull request at its host. `is_new`: it was opened now; else one was open for this branch."""

    number: int
    url: str
    base: str
    is_new: bool = True


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


class CodeHost(ABC):
    """A host's API for one repository and one token. Each call raises Refused with a sentence for a person."""

    name: str

    def __init__(self, client: Client, repository: Repository, token: str):
        self.client, self.repository, self.token = client, repository, token

    @property
    @abstractmethod
    def headers(self) -> dict[str, str]: ...

    @abstractmethod
    async def is_it(self) -> bool:
        """Return whether the host answers as this kind does."""

    @abstractmethod
    async def default_branch(self) -> str: ...

    @abstractmethod
    async def create(self, wanted: PullRequest) -> Opened | None:
        """Open the pull request; None if one is open for this branch already."""

    @abstractmethod
    async def existing(self, wanted: PullRequest) -> Opened | None:
        """Return the open pull request of this branch of this repository, not of a fork, if there is one."""

    async def open(self, wanted: PullRequest) -> Opened:
        base = wanted.base or await self.default_branch()
        if same_branch(base, wanted.branch):
            raise Refused(needs_own_branch(base))
        wanted = PullRequest(wanted.branch, base, wanted.title[:MAX_TITLE], wanted.body[:MAX_BODY])
        opened = await self.create(wanted) or await self.existing(wanted)
        if opened is None:
            raise Refused(f"{self.name} says that a pull request exists for {wanted.branch}, and lists none.")
        return opened

    async def call(self, method: str, url: str, body: dict | None = None, *, also: tuple = ()):
        """Return (status, JSON) of a call that succeeded, or failed with a status of `also`. Raise Refused."""
        try:
            status, told = await self.client.call(method, url, headers=self.headers, body=body)
        except Unreachable as error:
            raise Refused(f"{self.repository.host} did not answer: {error}.") from None
        if status < 300 or status in also:
            return status, told
        raise Refused(f"{self.name} at {self.repository.host} said {status}: {said(told)}.{self._hint(status)}")

    def _hint(self, status: int) -> str:
        named = self.repository.token_name
        return f" Check the secret {named}." if status in (401, 403, 404) else ""


def said(told) -> str:
    """Return the words of an error that a host answered with."""
    if not isinstance(told, dict):
        return "nothing that can be read"
    words = told.get("message") or told.get("error") or told.get("error_description") or ""
    more = [each.get("message") for each in told.get("errors") or () if isinstance(each, dict)]
    parts = [*words, *more] if isinstance(words, list) else [words, *more]
    return "; ".join(str(part) for part in parts if part)[:300].rstrip(".") or "nothing that can be read"


def text_of(told, *names: str) -> str:
    """Return a text in nested objects of an answer. Raise Refused if the answer has another shape."""
    for name in names:
        told = told.get(name) if isinstance(told, dict) else None
    if not isinstance(told, str) or not told:
        raise Refused(f"The code host's answer has no {'.'.join(names)}.")
    return told


def is_of_a_fork(told: dict) -> bool:
    """Return whether a pull request, as GitHub and Gitea describe it, comes from another repository than it goes to."""
    head, base = ((told.get(side) or {}).get("repo", {}) for side in ("head", "base"))
    return head is None or head.get("full_name") != (base or {}).get("full_name")  # None: the fork was deleted


def web_address(url: str) -> str:
    """Return the address of a pull request for people. Raise Refused for one that is no web address."""
    if not re.fullmatch(r"https?://[^\s\"'<>\\]{1,500}", url) or not url.isprintable():
        raise Refused("The code host's answer has no usable address of the pull request.")
    return url


def number_of(told, name: str) -> int:
    number = told.get(name) if isinstance(told, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise Refused(f"The code host's answer has no {name}.")
    return number
