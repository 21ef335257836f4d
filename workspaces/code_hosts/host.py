"""The contract of a code host's API, and what all hosts share: calls, pages of a listing, drafts, updated texts."""

import re
from abc import abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlencode

from workspaces.code_hosts.answers import error_text
from workspaces.code_hosts.base import (
    MAX_BODY,
    MAX_TITLE,
    Account,
    Opened,
    PullRequest,
    Refused,
    needs_own_branch,
    same_branch,
)
from workspaces.code_hosts.client import Client, Unreachable
from workspaces.code_hosts.threads import Threads

MAX_PAGES = 200  # of a listing
PER_PAGE = 50  # which every host allows


class CodeHost(Threads):
    """A host's API for one repository and one token. Each call raises Refused with a sentence for a person."""

    kind: str
    name: str
    draft = ""  # what a draft's title begins with, where that is what makes it one
    drafts = re.compile(r"(?!)")  # all beginnings that do

    def __init__(self, client: Client, account: Account):
        self.client, self.repository, self.token = client, account.repository, account.token
        self.secret = account.secret or self.repository.token_name

    # What a host's own class says ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def headers(self) -> dict[str, str]: ...

    @property
    @abstractmethod
    def project(self) -> str:
        """The address of the repository in the API."""

    @abstractmethod
    async def serves_this_api(self) -> bool | None:
        """Return whether the host answers as this kind does; None if it does not say without another token."""

    @abstractmethod
    async def create(self, wanted: PullRequest) -> Opened | None:
        """Open the pull request; None if one is open for these two branches already."""

    @abstractmethod
    def listing(self, wanted: PullRequest) -> tuple[str, dict]:
        """Return the address and the query that list the open pull requests, at least those of these two branches."""

    @abstractmethod
    def read(self, data: dict, wanted: PullRequest) -> Opened | None:
        """Return an entry of the listing if it is of these two branches of this repository, not of a fork."""

    @abstractmethod
    async def update(self, number: int, texts: dict[str, str]) -> None:
        """Replace the title, the body or both of an open pull request."""

    @abstractmethod
    def branch_address(self, branch: str) -> str:
        """Return the address of a branch in the API."""

    @abstractmethod
    async def is_taken_back(self, step: dict) -> bool:
        """Return whether a step of workspaces.services.taking_back is done already.

        Raise Refused if it no longer fits: somebody merged or deleted what it would change.
        """

    @abstractmethod
    async def take_back(self, step: dict) -> None:
        """Carry out a step that fits."""

    async def reviews_since(self, number: int, at: datetime) -> list[int]:
        """Return the reviews of a pull request that were given since then, where the host names reviews."""
        return []

    # What all of them do -------------------------------------------------------------------------------------------

    async def default_branch(self) -> str:
        _, data = await self.call("GET", self.project)
        found = data.get("default_branch") if isinstance(data, dict) else None
        if not isinstance(found, str) or not found:
            raise Refused(f"{self.name} at {self.repository.site} names no default branch of {self.repository.path}.")
        return found

    async def tip_of(self, branch: str) -> str:
        """Return the commit of a branch there, "" if there is no such branch."""
        status, data = await self.call("GET", self.branch_address(branch), also=(404,))
        commit = data.get("commit") if status != 404 and isinstance(data, dict) else None
        tip = (commit.get("sha") or commit.get("id")) if isinstance(commit, dict) else None
        return tip if isinstance(tip, str) else ""

    async def base_of(self, wanted: PullRequest) -> str:
        """Return the branch that the pull request goes into. Raise Refused if it isn't there or is its own branch."""
        default = await self.default_branch()
        base = wanted.base or default
        for other in dict.fromkeys((base, default)):
            if same_branch(other, wanted.branch):
                raise Refused(needs_own_branch(other))
        if not await self.tip_of(base):
            raise Refused(f"{self.repository.path} at {self.repository.site} has no branch {base} to open it into.")
        return base

    async def find(self, wanted: PullRequest) -> Opened | None:
        """Return the open pull request of these two branches of this repository."""
        async for data in self._listed(*self.listing(wanted)):
            if isinstance(data, dict) and (found := self.read(data, wanted)):
                return found
        return None

    async def open(self, wanted: PullRequest) -> Opened:
        """Open the pull request into `wanted.base`, or bring the texts of the one that is open up to date."""
        title = wanted.title[:MAX_TITLE]
        if wanted.draft and not self.drafts.match(title):
            title = self.draft + title
        wanted = replace(wanted, title=title, body=wanted.body[:MAX_BODY])
        if opened := await self.create(wanted):
            return opened
        found = await self.find(wanted)
        if found is None:
            which = f"from {wanted.branch} into {wanted.base}"
            raise Refused(f"{self.name} at {self.repository.site} has a pull request {which} already, and lists none.")
        return await self._updated(found, wanted)

    async def _updated(self, found: Opened, wanted: PullRequest) -> Opened:
        """Replace the texts that were given; a draft stays a draft, which at some hosts is a matter of the title."""
        texts = {name: getattr(wanted, name) for name in wanted.given}
        if "title" in texts and self.drafts.match(found.title) and not self.drafts.match(texts["title"]):
            texts["title"] = self.draft + texts["title"]
        if not texts:
            return found
        try:
            await self.update(found.number, texts)
        except Refused as error:
            what = " and ".join({"title": "title", "body": "description"}[name] for name in texts)
            data = f"Pull request #{found.number} is open ({found.url}), but its {what} can't be changed: {error}"
            raise Refused(data, error.status) from None
        return replace(found, updated=tuple(texts), title=texts.get("title", found.title))

    async def _listed(self, url: str, query: dict) -> AsyncIterator[object]:
        """Yield the entries of all pages of a listing, however the host counts pages; none twice."""
        seen: set[str] = set()
        for page in range(1, MAX_PAGES + 1):
            _, found = await self.call("GET", f"{url}?{urlencode(query | {'page': page})}")
            fresh = [each for each in found if repr(each) not in seen] if isinstance(found, list) else []
            if not fresh:
                return
            seen |= {repr(each) for each in fresh}
            for each in fresh:
                yield each

    async def is_there(self, url: str) -> bool:
        """Return whether something is at an address of the API."""
        return (await self.call("GET", url, also=(404,)))[0] != 404

    async def call(self, method: str, url: str, body: dict | None = None, *, also: tuple = ()):
        """Return (status, JSON) of a call that succeeded, or failed with a status of `also`. Raise Refused."""
        try:
            status, data = await self.client.call(method, url, headers=self.headers, body=body)
        except Unreachable as error:
            raise Refused(f"{self.repository.site} did not answer: {error}.", 0) from None
        if status < 300 or status in also:
            return status, data
        raise self.refused(status, data)

    def no_longer_fits(self, what: str) -> Refused:
        """Return the refusal of a step of which somebody changed what it is about; `what` completes a sentence."""
        return Refused(f"{what} at {self.repository.site} meanwhile.")

    def refused(self, status: int, data) -> Refused:
        """Return the refusal for an answer, with the host's words and, where it may be the token, the secret's name."""
        words = error_text(data).replace(self.token, "…") if self.token else error_text(data)
        hint = f" Check the secret {self.secret}." if status in (401, 403, 404) else ""
        return Refused(f"{self.name} at {self.repository.site} said {status}: {words}.{hint}", status)
