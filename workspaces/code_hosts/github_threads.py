"""Issues, comments, checks and reviews in GitHub's API, and what Gitea has taken over of it."""

from datetime import UTC

from workspaces.code_hosts import threads
from workspaces.code_hosts.answers import number_of, text_of
from workspaces.code_hosts.base import Refused
from workspaces.code_hosts.host import PER_PAGE, CodeHost
from workspaces.code_hosts.threads import Check, Comment, Issue, Person, Pull

STATES = {"success": threads.PASSED, "failure": threads.FAILED, "error": threads.FAILED, "pending": threads.RUNNING}
SPOILT = ("failure", "timed_out", "action_required", "startup_failure")  # conclusions of check runs


class SharedThreads(CodeHost):
    """What GitHub and Gitea have in common."""

    page_size = "per_page"
    state_of_status = "state"  # the field

    def _paged(self, rest: str, **query):
        return self._listed(f"{self.project}{rest}", {self.page_size: PER_PAGE} | query)

    async def labelled(self, label):
        async for data in self._paged("/issues", state="open", labels=label):
            if isinstance(data, dict) and not data.get("pull_request"):
                yield self._issue(data)

    async def issue(self, number):
        _, data = await self.call("GET", f"{self.project}/issues/{number}")
        if not isinstance(data, dict):
            raise Refused(f"{self.repository.site} answered without an issue.")
        return self._issue(data)

    @staticmethod
    def _issue(data: dict) -> Issue:
        title = threads.line_in(data, "title")
        return Issue(number_of(data, "number"), title, threads.text_in(data, "body"), text_of(data, "html_url"))

    async def new_comments(self, since):
        at = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        async for data in self._paged("/issues/comments", since=at):
            if isinstance(data, dict) and (found := self._comment(data)):
                yield found

    async def comments(self, number, *, is_pull):
        async for data in self._paged(f"/issues/{number}/comments"):
            if isinstance(data, dict) and (found := self._comment(data, number, is_pull)):
                yield found

    @staticmethod
    def _comment(data: dict, number: int | None = None, is_pull: bool = False) -> Comment | None:
        by, where = threads.person_of(data.get("user")), threads.text_in(data, "html_url")
        address = threads.text_in(data, "pull_request_url", "issue_url") or where
        number = number or threads.number_at_end(address)
        if by is None or number is None or not isinstance(data.get("id"), int):
            return None
        is_pull = is_pull or "/pull/" in where or "/pulls/" in where
        at, text = threads.time_in(data, "created_at"), threads.text_in(data, "body")
        return Comment(f"comment:{data['id']}", number, is_pull, by, text, at, where)

    async def say(self, number, text, *, is_pull):
        await self.call("POST", f"{self.project}/issues/{number}/comments", {"body": text})

    async def pull(self, number):
        _, data = await self.call("GET", f"{self.project}/pulls/{number}")
        state = threads.OPEN if text_of(data, "state") == "open" else threads.CLOSED
        state = threads.MERGED if data.get("merged") is True else state
        return Pull(state, text_of(data, "head", "sha"), threads.person_of(data.get("merged_by")))

    async def checks(self, sha):
        seen: set[str] = set()
        async for data in self._paged(f"/commits/{sha}/statuses"):  # the newest first
            name = threads.line_in(data, "context") if isinstance(data, dict) else ""
            if not name or name in seen:
                continue
            seen.add(name)
            state = STATES.get(threads.text_in(data, self.state_of_status), threads.PASSED)
            about = threads.text_in(data, "target_url"), threads.text_in(data, "description")
            yield Check(f"status:{data.get('id')}", name, state, *about)

    async def reviews(self, number):
        async for data in self._paged(f"/pulls/{number}/reviews"):
            by = threads.person_of(data.get("user")) if isinstance(data, dict) else None
            if by is None:
                continue
            at, where = threads.time_in(data, "submitted_at"), threads.text_in(data, "html_url")
            if text := threads.text_in(data, "body"):
                yield Comment(f"review:{data.get('id')}", number, True, by, text, at, where)
            async for each in self._comments_of_review(number, data):
                yield each

    async def _comments_of_review(self, number: int, review: dict):
        async for data in self._paged(f"/pulls/{number}/reviews/{review.get('id')}/comments"):
            if isinstance(data, dict) and (found := self._line(data, number)):
                yield found

    @staticmethod
    def _line(data: dict, number: int) -> Comment | None:
        by = threads.person_of(data.get("user"))
        if by is None:
            return None
        about = threads.time_in(data, "created_at"), threads.text_in(data, "html_url"), threads.line_in(data, "path")
        line = threads.number_in(data, "line", "original_line", "position", "original_position")
        return Comment(f"line:{data.get('id')}", number, True, by, threads.text_in(data, "body"), *about, line)


class GitHubThreads(SharedThreads):
    async def labeller(self, number, label):
        found: Person | None = None
        async for data in self._paged(f"/issues/{number}/events"):
            if isinstance(data, dict) and data.get("event") == "labeled" and _names(data.get("label"), label):
                found = threads.person_of(data.get("actor"))
        return found

    async def checks(self, sha):
        async for each in super().checks(sha):
            yield each
        _, data = await self.call("GET", f"{self.project}/commits/{sha}/check-runs?per_page=100")
        for run in threads.rows(data.get("check_runs") if isinstance(data, dict) else None):
            state = threads.RUNNING
            if run.get("status") == "completed":
                state = threads.FAILED if run.get("conclusion") in SPOILT else threads.PASSED
            output = run.get("output") if isinstance(run.get("output"), dict) else {}
            said = "\n".join(filter(None, (threads.text_in(output, "title"), threads.text_in(output, "summary"))))
            where = threads.text_in(run, "html_url")
            yield Check(f"check:{run.get('id')}", threads.line_in(run, "name"), state, where, said)

    async def _comments_of_review(self, number, review):
        """Yield nothing: `reviews` lists those of all reviews at once."""
        return
        yield

    async def reviews(self, number):
        async for each in super().reviews(number):
            yield each
        async for data in self._paged(f"/pulls/{number}/comments"):
            if isinstance(data, dict) and (found := self._line(data, number)):
                yield found


class GiteaThreads(SharedThreads):
    page_size = "limit"
    state_of_status = "status"

    async def labelled(self, label):
        async for data in self._paged("/issues", state="open", labels=label, type="issues"):
            if isinstance(data, dict) and not data.get("pull_request"):
                yield self._issue(data)

    async def labeller(self, number, label):
        found: Person | None = None
        async for data in self._paged(f"/issues/{number}/timeline"):
            is_put = isinstance(data, dict) and data.get("type") == "label" and data.get("body") == "1"
            if is_put and _names(data.get("label"), label):
                found = threads.person_of(data.get("user"))
        return found


def _names(data, label: str) -> bool:
    return isinstance(data, dict) and str(data.get("name", "")).casefold() == label.casefold()
