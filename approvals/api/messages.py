"""Questions about actions, and their answers, over HTTP."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import StringConstraints

from approvals.actions import gate, questions_to_agents
from approvals.models import ActionMessage
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["actions"])


class NewMessage(Strict):
    text: Annotated[str, StringConstraints(min_length=1, max_length=questions_to_agents.MAX_TEXT)]


class MessageOut(Schema):
    id: UUID
    kind: Literal["question", "answer"]
    by: str
    text: str
    at: datetime
    heard_at: datetime | None


class MessagesOut(Schema):
    messages: list[MessageOut]


def _message(message: ActionMessage, action) -> dict:
    by = message.user.get_username() if message.user else str(action.agent)
    return {"by": by} | {name: getattr(message, name) for name in ("id", "kind", "text", "at", "heard_at")}


@router.get("/actions/{action_id}/messages", response={200: MessagesOut} | PROBLEMS)
def list_messages(request, action_id: UUID):
    """List what people asked about the action and what its agent answered, oldest first."""
    action = gate.find(action_id, caller=request.auth)
    found = action.messages.select_related("user").order_by("at")
    return Status(200, {"messages": [_message(message, action) for message in found]})


@router.post("/actions/{action_id}/messages", response={201: MessageOut} | PROBLEMS)
def send_message(request, action_id: UUID, body: NewMessage):
    """As a person: ask the agent about its pending call. As that agent: answer. The action waits on either way."""
    action = gate.find(action_id, caller=request.auth)
    send = questions_to_agents.ask if request.auth.is_person else questions_to_agents.answer
    return Status(201, _message(send(action, caller=request.auth, text=body.text), action))
