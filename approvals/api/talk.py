"""Messages of people to agents, and interrupts, over HTTP."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.db.models import Q
from ninja import Query, Router, Schema, Status
from pydantic import Field, StringConstraints

from approvals.actions import gate, interrupts
from approvals.models import Action, AgentMessage, Interrupt
from approvals.sessions import messages
from dashboard.database import clock
from dashboard.problems import conflict
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["talk"])

MAX_LISTED = 100


class NewAgentMessage(Strict):
    text: Annotated[str, StringConstraints(min_length=1, max_length=messages.MAX_TEXT)]
    whole_agent: bool = Field(False, description="for whichever session of the agent comes next, not the action's")


class AgentMessageOut(Schema):
    id: UUID
    by: str
    text: str
    session: str = Field(description="empty: for whichever session comes next")
    at: datetime
    given_at: datetime | None = Field(description="when a response with it was first sent to the agent")
    read_at: datetime | None = Field(description="when the agent acknowledged it")


class AgentMessagesOut(Schema):
    messages: list[AgentMessageOut]


class NewInterrupt(Strict):
    reason: Annotated[str, StringConstraints(max_length=interrupts.MAX_REASON)] = ""
    minutes: Annotated[int, Field(ge=1, le=interrupts.MAX_MINUTES)] = interrupts.DEFAULT_MINUTES
    whole_agent: bool = Field(False, description="all sessions of the agent, not only the action's")


class NamedAction(Schema):
    id: UUID
    number: int
    title: str


class NamedCommand(Schema):
    id: str
    key: str = Field(description="of the workspace")
    shown: str


class InterruptOut(Schema):
    id: UUID
    agent: str
    session: str = Field(description="empty: all sessions")
    by: str
    reason: str
    at: datetime
    until: datetime
    heard_at: datetime | None = Field(description="when a response with it was first sent to the agent")
    lifted_at: datetime | None
    lifted_by: str | None
    denied: list[NamedAction] = Field(description="requests and unused approvals that it cancelled")
    running: list[NamedAction] = Field(description="calls that the agent itself ran, which go on")
    commands: list[NamedCommand] = Field(description="commands in workspaces that it asked to stop")


def message_out(message: AgentMessage) -> dict:
    names = ("id", "text", "session", "at", "given_at", "read_at")
    return {"by": message.user.get_username()} | {name: getattr(message, name) for name in names}


def messages_for(caller, session: str) -> list[dict]:
    """Return the messages that an agent's answer brings, and note that they were given; [] for a person."""
    if caller.is_person:
        return []
    found = messages.unread(caller, session)
    messages.mark_given(found, messages.API, by=caller.actor)
    return [message_out(message) for message in found]


def _interrupt_out(made: Interrupt) -> dict:
    names = ("id", "session", "reason", "at", "until", "heard_at", "lifted_at")
    people = {"by": made.user.get_username(), "lifted_by": made.lifted_by and made.lifted_by.get_username()}
    return {"agent": str(made.agent)} | people | made.done | {name: getattr(made, name) for name in names}


def _session_of(action: Action, body: NewAgentMessage | NewInterrupt) -> str:
    return "" if body.whole_agent else action.session


@router.get("/messages", response={200: AgentMessagesOut} | PROBLEMS)
def list_agent_messages(
    request,
    session: Annotated[str | None, Query(max_length=200, description="only those that this session gets")] = None,
    after: Annotated[UUID | None, Query(description="only those after this message")] = None,
):
    """List people's messages to agents, oldest first, at most 100. An agent's list gives it what it had not got."""
    caller = request.auth
    found = AgentMessage.objects.visible_to(caller).select_related("user", "agent").order_by("at", "pk")
    if session is not None:
        found = found.filter(session__in={"", session})
    if after is not None:
        last = lookup.find(AgentMessage.objects.visible_to(caller), after, "message")
        found = found.filter(Q(at__gt=last.at) | Q(at=last.at, pk__gt=last.pk))
    listed = list(found[:MAX_LISTED])
    if not caller.is_person:
        messages.mark_given(listed, messages.API, by=caller.actor)
    return Status(200, {"messages": [message_out(message) for message in listed]})


@router.post("/messages/{message_id}/read", response={200: AgentMessageOut} | PROBLEMS)
def acknowledge(request, message_id: UUID):
    """As its agent: acknowledge a message, so that answers no longer bring it."""
    found = AgentMessage.objects.visible_to(request.auth).select_related("user", "agent")
    message = lookup.find(found, message_id, "message")
    return Status(200, message_out(messages.acknowledge(message, caller=request.auth)))


@router.post("/actions/{action_id}/tell", response={201: AgentMessageOut} | PROBLEMS)
def tell(request, action_id: UUID, body: NewAgentMessage):
    """Send the action's agent a message for its session. It decides nothing; the action may be over."""
    action = gate.find(action_id, caller=request.auth)
    session = _session_of(action, body)
    return Status(201, message_out(messages.send(action.agent, session=session, caller=request.auth, text=body.text)))


@router.post("/actions/{action_id}/interrupt", response={201: InterruptOut} | PROBLEMS)
def interrupt(request, action_id: UUID, body: NewInterrupt):
    """Interrupt the action's agent in its session: cancel what waits there, stop its commands, refuse its calls."""
    action = gate.find(action_id, caller=request.auth)
    made = interrupts.interrupt(
        action.agent,
        session=_session_of(action, body),
        caller=request.auth,
        reason=body.reason,
        minutes=body.minutes,
    )
    return Status(201, _interrupt_out(made))


@router.post("/actions/{action_id}/go-on", response={200: InterruptOut} | PROBLEMS)
def let_go_on(request, action_id: UUID):
    """Lift what denies calls of the action's session: its own interrupt first, then one of the whole agent."""
    action = gate.find(action_id, caller=request.auth)
    messages.check_may_talk(action.agent, request.auth)
    active = Interrupt.objects.holding(action.agent_id, action.session, clock.now())
    found = active.select_related("user", "agent").order_by("-session").first()
    if found is None:
        raise conflict("It is not interrupted now.")
    interrupts.lift(found, caller=request.auth)
    found.refresh_from_db()
    return Status(200, _interrupt_out(found))
