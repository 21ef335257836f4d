"""Sessions of agents and their messages, over HTTP. People's own sessions of the desk are at /sessions.

An agent reads its own; a person those of their teams.
"""

from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import AwareDatetime, Field

from approvals.agents.lines import MAX_ID
from approvals.models import AgentSession
from approvals.sessions import exporting, posting, reading
from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import find, page_of
from dashboard.web.pages import download
from workspaces.api import lookup
from workspaces.api.schemas import Strict

router = Router(tags=["conversations"])
MAX_MESSAGES = 500
MAX_PIECE = 4 << 20  # bytes of a text in one response
BYTES = {"responses": {200: {"description": "the text", "content": {"text/plain": {}}}}}
FORMS = {"jsonl": exporting.json_lines, "md": exporting.markdown}


class AgentSessionOut(Schema):
    id: UUID
    agent: str
    workspace: str | None = Field(description="its key")
    parent: UUID | None = Field(description="of a sub-agent: the session that started it")
    started_by: str = Field(description="of a sub-agent: the parent's `call_id` that started it, if it is known")
    native_id: str = Field(description="the program's own id, which its actions have as `session`")
    dialect: str
    title: str = Field(description="the beginning of the first prompt")
    model: str
    cwd: str
    gated_by: str
    started_at: datetime
    last_at: datetime
    ended_at: datetime | None
    end_reason: str
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: Decimal | None
    seq: int = Field(description="of the newest message")
    branch: int = Field(description="how often the transcript was written anew")
    unknown: int = Field(description="rows of the transcript that were not understood")


class AgentSessions(Schema):
    sessions: list[AgentSessionOut] = Field(description="heard of last first")
    cursor: str | None


class SessionMessageOut(Schema):
    seq: int = Field(description="in the order in which Handrail heard of them; `at` is the order of the conversation")
    branch: int
    native_id: str | None
    at: datetime
    role: Literal["user", "assistant", "tool", "system"]
    kind: Literal["text", "thinking", "call", "result", "note"]
    text: str = Field(description="masked; of a call its arguments as JSON; at most 64 KiB")
    bytes: int = Field(description="of the whole text")
    is_whole: bool = Field(description="false: read the rest from /text")
    tool: str
    call_id: str
    ok: bool | None
    model: str
    tokens_in: int
    tokens_out: int
    source: str
    by: str | None
    action: UUID | None
    action_number: int | None
    snapshot: int | None = Field(description="taken before the action ran")


class SessionMessages(Schema):
    messages: list[SessionMessageOut]
    after: int = Field(description="send it as `after` for what comes next")


class NewSessionMessage(Strict):
    role: Literal["user", "assistant", "tool", "system"]
    content: str | dict | list = Field(description="a text, parts of one (`{type: text, text}`), or a call's arguments")
    at: AwareDatetime | None = Field(None, description="of the conversation; without it, now")
    kind: Literal["text", "thinking", "call", "result", "note"] | None = Field(
        None, description="without it text; of a tool result"
    )
    id: str = Field("", max_length=MAX_ID, description="the program's own id of the message: sent again, it stays one")
    tool: str = Field("", max_length=MAX_ID)
    call_id: str = Field("", max_length=MAX_ID, description="of a call and its result; `call_id` of the action")
    ok: bool | None = None
    model: str = Field("", max_length=100)
    workspace: str = Field("", max_length=64, description="key of the workspace that the session works in")


class PostedMessageOut(SessionMessageOut):
    session: UUID = Field(description="Handrail's id of the session")


@router.get("/sessions", response={200: AgentSessions} | PROBLEMS)
def list_agent_sessions(
    request,
    agent: str = Query("", max_length=200, description="name of an agent"),
    workspace: str = Query("", max_length=64, description="key of a workspace"),
    session: str = Query("", max_length=200, description="the program's own id, as actions have it"),
    cursor: str = Query("", max_length=200),
):
    """List sessions of agents, those heard of last first, 50 at a time."""
    rows = reading.sessions_for(request.auth)
    wanted = {"agent__name": agent, "workspace__key": workspace, "native_id": session}
    page = page_of(
        rows.filter(**{name: value for name, value in wanted.items() if value}), cursor, order=reading.NEWEST
    )
    return {"sessions": [exporting.of_session(row) for row in page.rows], "cursor": page.cursor}


@router.get("/sessions/{conversation_id}", response={200: AgentSessionOut} | PROBLEMS)
def read_agent_session(request, conversation_id: UUID):
    """Return one session."""
    return exporting.of_session(_session(request, conversation_id))


@router.get("/sessions/{conversation_id}/messages", response={200: SessionMessages} | PROBLEMS)
def list_session_messages(
    request,
    conversation_id: UUID,
    after: int = Query(0, ge=0, le=2**31 - 1, description="only those with a higher `seq`"),
    limit: int = Query(100, ge=1, le=MAX_MESSAGES),
):
    """List messages by `seq`. A transcript that completes an earlier message changes it without a new `seq`."""
    rows = reading.messages_of(_session(request, conversation_id)).filter(seq__gt=after).order_by("seq")[:limit]
    found = [exporting.of_message(row) for row in rows]
    return {"messages": found, "after": found[-1]["seq"] if found else after}


@router.post("/sessions/{conversation_id}/messages", response={201: PostedMessageOut} | PROBLEMS)
def post_session_message(request, conversation_id: str, body: NewSessionMessage):
    """As an agent: add a message to the own session with this id, the program's own; it is made when it is new.

    A message with the same `id`, or a call or result with the same `call_id`, is stored once.
    """
    workspace = lookup.find(request, body.workspace) if body.workspace else None
    posted = posting.Posted(**body.dict(exclude={"workspace"}))
    message = posting.post(request.auth, conversation_id, posted, workspace)
    return Status(201, exporting.of_message(message) | {"session": message.session_id})


@router.get("/sessions/{conversation_id}/messages/{seq}/text", response=PROBLEMS, openapi_extra=BYTES)
def read_message_text(
    request,
    conversation_id: UUID,
    seq: int,
    offset: int = Query(0, ge=0, le=2**40, description="byte to begin at"),
    length: int = Query(MAX_PIECE, ge=1, le=MAX_PIECE, description="bytes at most"),
):
    """Return bytes of a message's text; the header `Handrail-Size` is the size of all of it."""
    message = _session(request, conversation_id).messages.filter(seq=seq).first() if 0 <= seq < 2**31 else None
    if message is None:
        raise not_found("message")
    text = message.whole.encode()
    headers = {"Handrail-Size": str(len(text)), "X-Content-Type-Options": "nosniff"}
    return HttpResponse(text[offset : offset + length], content_type="text/plain; charset=utf-8", headers=headers)


@router.get("/sessions/{conversation_id}/export", response=PROBLEMS, openapi_extra=BYTES)
def export_agent_session(request, conversation_id: UUID, form: Literal["jsonl", "md"] = "jsonl"):
    """Return a whole session as JSON lines, or as Markdown."""
    session = _session(request, conversation_id)
    return download(request, FORMS[form](session), f"{session.native_id[:40]}.{form}", "text/plain; charset=utf-8")


def _session(request, conversation_id: UUID) -> AgentSession:
    return find(reading.sessions_for(request.auth), conversation_id, "session")
