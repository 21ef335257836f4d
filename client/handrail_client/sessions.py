"""Sessions of agents and their messages."""

import uuid
from collections.abc import Iterator

from handrail_client.http import Http


class Sessions:
    """The sessions that a token may read: an agent its own, a person those of their teams."""

    def __init__(self, http: Http):
        self.http = http

    def all(self, **filters) -> Iterator[dict]:
        """Yield sessions, those heard of last first; filters: agent, workspace, session."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.http.get("/sessions", cursor=cursor, **filters)
            yield from page["sessions"]
            cursor = page["cursor"]

    def messages(self, session_id: str, *, after: int = 0) -> Iterator[dict]:
        """Yield the messages of a session by `seq`, those after a given one."""
        while True:
            page = self.http.get(f"/sessions/{uuid.UUID(session_id)}/messages", after=after)
            yield from page["messages"]
            if not page["messages"]:
                return
            after = page["after"]

    def export(self, session_id: str, form: str = "jsonl") -> Iterator[bytes]:
        """Yield the session as JSON lines ("jsonl") or Markdown ("md")."""
        return self.http.pieces(f"/sessions/{uuid.UUID(session_id)}/export", form=form)
