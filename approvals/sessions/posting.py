"""Store messages that an agent posts about its own conversation, where no hook and no transcript tells them."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from approvals.agents.lines import MAX_ID, Line
from approvals.models import Action, AgentSession, Message, MessageKind, MessageSource, Role
from approvals.sessions import reading, rows, sessions
from dashboard import json_text
from dashboard.people.access import Caller
from dashboard.problems import invalid, not_allowed
from dashboard.web.lookup import find
from dashboard.web.pages import as_uuid
from workspaces.models import Workspace

DIALECT = "api"
KINDS = {
    Role.USER: {MessageKind.TEXT, MessageKind.NOTE},
    Role.ASSISTANT: {MessageKind.TEXT, MessageKind.THINKING, MessageKind.CALL},
    Role.TOOL: {MessageKind.RESULT},
    Role.SYSTEM: {MessageKind.TEXT, MessageKind.NOTE},
}  # that each role may have


@dataclass(frozen=True)
class Posted:
    """A message as the agent's program posts it. With an `id` it is stored once, however often it is sent."""

    role: str
    content: str | dict | list
    at: datetime | None = None
    kind: str | None = None
    id: str = ""
    tool: str = ""
    call_id: str = ""
    ok: bool | None = None
    model: str = ""

    @property
    def line(self) -> Line:
        kind = self.kind or (MessageKind.RESULT if self.role == Role.TOOL else MessageKind.TEXT)
        if kind not in KINDS[Role(self.role)]:
            raise invalid(f"A message of the role {self.role} can't be of the kind {kind}.", field="kind")
        about = {"tool": self.tool, "call_id": self.call_id, "ok": self.ok, "model": self.model}
        content = self.content if kind == MessageKind.CALL else _text(self.content)
        return Line(self.role, kind, content, at=self.at, native_id=self.id, **about)


def _text(content: str | dict | list) -> str:
    """Return a content as text: parts of a text are joined, anything else is written as JSON."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
        return "\n".join(texts)
    return json_text.dumps(content, ensure_ascii=False)


def post(caller: Caller, native_id: str, posted: Posted, workspace: Workspace | None) -> Message:
    """Store a message in the agent's own session `native_id`, which begins with its first one; return its row.

    A message with an `id`, or a call or result with a `call_id`, that is known is returned as it is. Problem 404 for
    Handrail's id of a session that the caller cannot see, 403 for a person, 422 for an id that is too long or a kind
    that the role cannot have.
    """
    row = _row(caller, native_id)
    if caller.is_person:
        raise not_allowed("A conversation is told by its agent: use an agent's token.")
    if len(native_id) > MAX_ID:
        raise invalid(f"A session's id has at most {MAX_ID} characters.", field="id")
    line = posted.line
    with transaction.atomic():
        session = _session(caller, native_id, row, workspace)
        rows.add(session, [line], MessageSource.API)
        stored = session.messages.filter(native_id=line.key) if line.key else session.messages.order_by("-seq")
        return stored.select_related("session").first()


def link(action: Action):
    """Connect an action with its call, if that was posted before it was asked about."""
    own = AgentSession.objects.filter(agent=action.agent_id, native_id=action.session)
    Message.objects.filter(session__in=own, call_id=action.call_id, kind=MessageKind.CALL).update(action=action)


def _row(caller: Caller, native_id: str) -> AgentSession | None:
    """Return the session whose row has this id; None if it is the id of none. Problem 404 if it is another's."""
    pk = as_uuid(native_id)
    if not pk or not AgentSession.objects.filter(pk=pk).exists():
        return None
    return find(reading.sessions_for(caller), pk, "session")


def _session(caller: Caller, native_id: str, row: AgentSession | None, workspace: Workspace | None) -> AgentSession:
    """Return the agent's newest session with this id: one that hooks tell goes on, else it is one of the API."""
    newest = AgentSession.objects.filter(agent=caller.agent, native_id=native_id).order_by("-last_at")
    known = row or newest.first()
    dialect, native_id = (known.dialect, known.native_id) if known else (DIALECT, native_id)
    if workspace is None and caller.workspace_id:
        workspace = Workspace.objects.filter(pk=caller.workspace_id).first()
    return sessions.session_of(caller.agent, dialect, native_id, workspace=workspace)
