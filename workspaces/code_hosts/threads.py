"""What is read and written at a code host for a task: issues, comments, checks and reviews of a pull request.

Each text is data that somebody wrote there. Accounts are known by the host's own id, as a name can change hands.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime

from workspaces.code_hosts.answers import MAX_WORDS, one_line

MAX_TEXT = 20_000  # characters that are kept of a text
MAX_LOGIN = 100
PASSED, FAILED, RUNNING = "passed", "failed", "running"
OPEN, MERGED, CLOSED = "open", "merged", "closed"


@dataclass(frozen=True)
class Person:
    """An account at a host."""

    id: str
    login: str


@dataclass(frozen=True)
class Issue:
    number: int
    title: str
    text: str
    url: str


@dataclass(frozen=True)
class Comment:
    """A comment; `path` and `line` are those of a review's comment on a line. `key`: unique in its repository."""

    key: str
    number: int  # of its issue or pull request
    is_pull: bool
    by: Person
    text: str
    at: datetime | None = None
    url: str = ""
    path: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Check:
    """What a service says of a commit; `state`: passed, failed or running."""

    key: str
    name: str
    state: str
    url: str = ""
    summary: str = ""


@dataclass(frozen=True)
class Pull:
    """How a pull request stands: `state` open, merged or closed, `sha` of its newest commit, who merged it."""

    state: str
    sha: str
    by: Person | None = None


class Threads(ABC):
    """The part of a host's API that tasks use."""

    @abstractmethod
    def labelled(self, label: str) -> AsyncIterator[Issue]:
        """Yield the open issues with the label, the newest first."""

    @abstractmethod
    async def labeller(self, number: int, label: str) -> Person | None:
        """Return who put the label on the issue last."""

    @abstractmethod
    async def issue(self, number: int) -> Issue:
        """Return an issue."""

    @abstractmethod
    def new_comments(self, since: datetime) -> AsyncIterator[Comment]:
        """Yield the comments on issues and pull requests of the repository since a time, perhaps some from before."""

    @abstractmethod
    def comments(self, number: int, *, is_pull: bool) -> AsyncIterator[Comment]:
        """Yield the comments on an issue or a pull request, without those on lines."""

    @abstractmethod
    async def say(self, number: int, text: str, *, is_pull: bool) -> None:
        """Write a comment."""

    @abstractmethod
    async def pull(self, number: int) -> Pull:
        """Return how a pull request stands."""

    @abstractmethod
    def checks(self, sha: str) -> AsyncIterator[Check]:
        """Yield the newest of each check of a commit."""

    @abstractmethod
    def reviews(self, number: int) -> AsyncIterator[Comment]:
        """Yield what reviews of a pull request say, on lines and as a whole."""


def person_of(data) -> Person | None:
    """Return the account in an answer; None if there is none."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), int):
        return None
    login = one_line(str(data.get("login") or data.get("username") or data.get("user_name") or ""))[:MAX_LOGIN]
    return Person(str(data["id"]), login) if login else None


def text_in(data: dict, *names: str) -> str:
    """Return the first of these texts that is there, "" without one."""
    found = next((data[name] for name in names if isinstance(data.get(name), str) and data[name]), "")
    return found.replace("\r\n", "\n").replace("\0", "␀")[:MAX_TEXT]


def line_in(data: dict, *names: str) -> str:
    return one_line(text_in(data, *names))[:MAX_WORDS]


def time_in(data: dict, *names: str) -> datetime | None:
    """Return a time with its zone; None if there is none."""
    try:
        found = datetime.fromisoformat(text_in(data, *names))
    except ValueError:
        return None
    return found if found.tzinfo else None


def number_in(data: dict, *names: str) -> int | None:
    return next((data[name] for name in names if isinstance(data.get(name), int) and data[name] > 0), None)


def number_at_end(address: str) -> int | None:
    """Return the number that an address of an issue or pull request ends with."""
    found = re.search(r"/(\d{1,12})$", address.partition("#")[0])
    return int(found[1]) if found else None


def rows(data) -> list[dict]:
    """Return the objects of a list in an answer."""
    return [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
