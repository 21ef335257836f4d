"""Sessions of agents and their messages."""

import uuid
from collections.abc import Iterator

from handrail_client.actions import bounded
from handrail_client.errors import Unreachable
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

    def post(self, session: str, role: str, content: str | dict | list, **more) -> dict:
        """Add a message to the agent's own session, under the program's own id of it; return the message.

        `more`: kind, id, at, tool, call_id, ok, model, workspace. A message with an `id` is stored once.
        """
        body = {"role": role, "content": content} | {name: value for name, value in more.items() if value is not None}
        message = self.http.post(f"/sessions/{bounded(session)}/messages", body)
        if "seq" not in message:
            raise Unreachable("This is no desk's answer to a message.")
        return message

    def export(self, session_id: str, form: str = "jsonl") -> Iterator[bytes]:
        """Yield the session as JSON lines ("jsonl") or Markdown ("md")."""
        return self.http.pieces(f"/sessions/{uuid.UUID(session_id)}/export", form=form)
