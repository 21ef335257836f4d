"""Issues, notes, commit statuses and discussions in GitLab's API."""

from datetime import UTC, timedelta

from workspaces.code_hosts import threads
from workspaces.code_hosts.answers import number_of, text_of
from workspaces.code_hosts.base import Refused
from workspaces.code_hosts.host import PER_PAGE, CodeHost
from workspaces.code_hosts.threads import Check, Comment, Issue, Person, Pull

STATES = {"failed": threads.FAILED, "success": threads.PASSED, "skipped": threads.PASSED, "manual": threads.PASSED}
STATES |= {"canceled": threads.PASSED}
PULL_STATES = {"merged": threads.MERGED, "closed": threads.CLOSED}
ON_A_LINE = "DiffNote"


class GitLabThreads(CodeHost):
    def _paged(self, rest: str, **query):
        return self._listed(f"{self.project}{rest}", {"per_page": PER_PAGE} | query)

    async def labelled(self, label):
        async for data in self._paged("/issues", state="opened", labels=label):
            if isinstance(data, dict):
                yield self._issue(data)

    async def issue(self, number):
        _, data = await self.call("GET", f"{self.project}/issues/{number}")
        if not isinstance(data, dict):
            raise Refused(f"{self.repository.site} answered without an issue.")
        return self._issue(data)

    @staticmethod
    def _issue(data: dict) -> Issue:
        title = threads.line_in(data, "title")
        return Issue(number_of(data, "iid"), title, threads.text_in(data, "description"), text_of(data, "web_url"))

    async def labeller(self, number, label):
        found: Person | None = None
        async for data in self._paged(f"/issues/{number}/resource_label_events"):
            named = data.get("label") if isinstance(data, dict) and data.get("action") == "add" else None
            if isinstance(named, dict) and str(named.get("name", "")).casefold() == label.casefold():
                found = threads.person_of(data.get("user"))
        return found

    async def new_comments(self, since):
        day = (since.astimezone(UTC) - timedelta(days=1)).date().isoformat()  # those of `after` itself are left out
        async for data in self._paged("/events", action="commented", after=day, sort="asc"):
            note = data.get("note") if isinstance(data, dict) else None
            if not isinstance(note, dict) or note.get("noteable_type") not in ("Issue", "MergeRequest"):
                continue
            number, is_pull = threads.number_in(note, "noteable_iid"), note["noteable_type"] == "MergeRequest"
            if number and (found := self._note(note, number, is_pull)) and not found.path:
                yield found

    async def comments(self, number, *, is_pull):
        async for each in self._notes(number, is_pull):
            if not each.path:
                yield each

    async def reviews(self, number):
        async for each in self._notes(number, True):
            if each.path:
                yield each

    async def _notes(self, number: int, is_pull: bool):
        async for data in self._paged(f"/{_kind(is_pull)}/{number}/notes", sort="asc"):
            if isinstance(data, dict) and not data.get("system") and (found := self._note(data, number, is_pull)):
                yield found

    @staticmethod
    def _note(data: dict, number: int, is_pull: bool) -> Comment | None:
        by = threads.person_of(data.get("author"))
        if by is None or not isinstance(data.get("id"), int):
            return None
        place = data.get("position") if data.get("type") == ON_A_LINE else None
        place = place if isinstance(place, dict) else {}
        path, line = threads.line_in(place, "new_path", "old_path"), threads.number_in(place, "new_line", "old_line")
        at, text = threads.time_in(data, "created_at"), threads.text_in(data, "body")
        return Comment(f"comment:{data['id']}", number, is_pull, by, text, at, "", path, line)

    async def say(self, number, text, *, is_pull):
        await self.call("POST", f"{self.project}/{_kind(is_pull)}/{number}/notes", {"body": text})

    async def pull(self, number):
        _, data = await self.call("GET", f"{self.project}/merge_requests/{number}")
        state = PULL_STATES.get(text_of(data, "state"), threads.OPEN)
        return Pull(state, text_of(data, "sha"), threads.person_of(data.get("merge_user") or data.get("merged_by")))

    async def checks(self, sha):
        async for data in self._paged(f"/repository/commits/{sha}/statuses"):  # the newest of each name
            if not isinstance(data, dict) or not (name := threads.line_in(data, "name")):
                continue
            state = STATES.get(threads.text_in(data, "status"), threads.RUNNING)
            state = threads.PASSED if state == threads.FAILED and data.get("allow_failure") else state
            about = threads.text_in(data, "target_url"), threads.text_in(data, "description")
            yield Check(f"status:{data.get('id')}", name, state, *about)


def _kind(is_pull: bool) -> str:
    return "merge_requests" if is_pull else "issues"
