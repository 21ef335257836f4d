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
        async for told in self._paged("/issues", state="open", labels=label):
            if isinstance(told, dict) and not told.get("pull_request"):
                yield self._issue(told)

    async def issue(self, number):
        _, told = await self.call("GET", f"{self.project}/issues/{number}")
        if not isinstance(told, dict):
            raise Refused(f"{self.repository.site} answered without an issue.")
        return self._issue(told)

    @staticmethod
    def _issue(told: dict) -> Issue:
        title = threads.line_in(told, "title")
        return Issue(number_of(told, "number"), title, threads.text_in(told, "body"), text_of(told, "html_url"))

    async def new_comments(self, since):
        at = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        async for told in self._paged("/issues/comments", since=at):
            if isinstance(told, dict) and (found := self._comment(told)):
                yield found

    async def comments(self, number, *, is_pull):
        async for told in self._paged(f"/issues/{number}/comments"):
            if isinstance(told, dict) and (found := self._comment(told, number, is_pull)):
                yield found

    @staticmethod
    def _comment(told: dict, number: int | None = None, is_pull: bool = False) -> Comment | None:
        by, where = threads.person_of(told.get("user")), threads.text_in(told, "html_url")
        address = threads.text_in(told, "pull_request_url", "issue_url") or where
        number = number or threads.number_at_end(address)
        if by is None or number is None or not isinstance(told.get("id"), int):
            return None
        is_pull = is_pull or "/pull/" in where or "/pulls/" in where
        at, text = threads.time_in(told, "created_at"), threads.text_in(told, "body")
        return Comment(f"comment:{told['id']}", number, is_pull, by, text, at, where)

    async def say(self, number, text, *, is_pull):
        await self.call("POST", f"{self.project}/issues/{number}/comments", {"body": text})

    async def pull(self, number):
        _, told = await self.call("GET", f"{self.project}/pulls/{number}")
        state = threads.OPEN if text_of(told, "state") == "open" else threads.CLOSED
        state = threads.MERGED if told.get("merged") is True else state
        return Pull(state, text_of(told, "head", "sha"), threads.person_of(told.get("merged_by")))

    async def checks(self, sha):
        seen: set[str] = set()
        async for told in self._paged(f"/commits/{sha}/statuses"):  # the newest first
            name = threads.line_in(told, "context") if isinstance(told, dict) else ""
            if not name or name in seen:
                continue
            seen.add(name)
            state = STATES.get(threads.text_in(told, self.state_of_status), threads.PASSED)
            about = threads.text_in(told, "target_url"), threads.text_in(told, "description")
            yield Check(f"status:{told.get('id')}", name, state, *about)

    async def reviews(self, number):
        async for told in self._paged(f"/pulls/{number}/reviews"):
            by = threads.person_of(told.get("user")) if isinstance(told, dict) else None
            if by is None:
                continue
            at, where = threads.time_in(told, "submitted_at"), threads.text_in(told, "html_url")
            if text := threads.text_in(told, "body"):
                yield Comment(f"review:{told.get('id')}", number, True, by, text, at, where)
            async for each in self._comments_of_review(number, told):
                yield each

    async def _comments_of_review(self, number: int, review: dict):
        async for told in self._paged(f"/pulls/{number}/reviews/{review.get('id')}/comments"):
            if isinstance(told, dict) and (found := self._line(told, number)):
                yield found

    @staticmethod
    def _line(told: dict, number: int) -> Comment | None:
        by = threads.person_of(told.get("user"))
        if by is None:
            return None
        about = threads.time_in(told, "created_at"), threads.text_in(told, "html_url"), threads.line_in(told, "path")
        line = threads.number_in(told, "line", "original_line", "position", "original_position")
        return Comment(f"line:{told.get('id')}", number, True, by, threads.text_in(told, "body"), *about, line)


class GitHubThreads(SharedThreads):
    async def labeller(self, number, label):
        found: Person | None = None
        async for told in self._paged(f"/issues/{number}/events"):
            if isinstance(told, dict) and told.get("event") == "labeled" and _names(told.get("label"), label):
                found = threads.person_of(told.get("actor"))
        return found

    async def checks(self, sha):
        async for each in super().checks(sha):
            yield each
        _, told = await self.call("GET", f"{self.project}/commits/{sha}/check-runs?per_page=100")
        for run in threads.rows(told.get("check_runs") if isinstance(told, dict) else None):
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
        async for told in self._paged(f"/pulls/{number}/comments"):
            if isinstance(told, dict) and (found := self._line(told, number)):
                yield found


class GiteaThreads(SharedThreads):
    page_size = "limit"
    state_of_status = "status"

    async def labelled(self, label):
        async for told in self._paged("/issues", state="open", labels=label, type="issues"):
            if isinstance(told, dict) and not told.get("pull_request"):
                yield self._issue(told)

    async def labeller(self, number, label):
        found: Person | None = None
        async for told in self._paged(f"/issues/{number}/timeline"):
            is_put = isinstance(told, dict) and told.get("type") == "label" and told.get("body") == "1"
            if is_put and _names(told.get("label"), label):
                found = threads.person_of(told.get("user"))
        return found


def _names(told, label: str) -> bool:
    return isinstance(told, dict) and str(told.get("name", "")).casefold() == label.casefold()
