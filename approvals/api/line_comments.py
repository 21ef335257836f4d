"""Comments on lines of diffs, over HTTP."""

from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import unquote_to_bytes
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field, StringConstraints

from approvals.actions import gate
from approvals.line_comments import drafts, sending
from approvals.models import LineComment
from dashboard.problems import invalid
from dashboard.web.api_base import PROBLEMS
from workspaces import lifecycle
from workspaces.api.lookup import find
from workspaces.api.schemas import Strict
from workspaces.changes import history
from workspaces.changes.comparisons import compare, find_point

router = Router(tags=["comments"])

Text = Annotated[str, StringConstraints(min_length=1, max_length=drafts.MAX_TEXT)]
Line = Annotated[int, Field(ge=1, lt=10**8)]
Point = Annotated[str, StringConstraints(min_length=1, max_length=80)]
MAX_LISTED = 500


class NewCardComment(Strict):
    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] = Field(
        description="as the diff has it; bytes that are not UTF-8 as %XX"
    )
    line: Line
    end_line: Line | None = Field(None, description="the last line; without it the comment is about one")
    side: Literal["new", "old"] = Field("new", description="whose lines are counted: after the change, or before it")
    text: Text


class NewLineComment(NewCardComment):
    from_: Point = Field(alias="from")
    to: Point = "live"


class ChangedText(Strict):
    text: Text


class SendTo(Strict):
    agent: Annotated[str, StringConstraints(max_length=100)] = Field(
        "", description="its name; it may be left out if only one agent works in the workspace"
    )


class LineCommentOut(Schema):
    id: UUID
    by: str
    workspace: str | None
    action: UUID | None = Field(description="whose card shows the diff")
    path: str
    path_b64: str | None = None
    side: str
    line: int
    end_line: int
    quote: str = Field(description="the lines as they were")
    text: str
    at: datetime
    state: Literal["draft", "sent", "fetched", "acknowledged"]
    sent_at: datetime | None
    agent: str | None = Field(description="that it was sent to")
    denied_action: UUID | None = Field(description="with whose denial it went")
    message: UUID | None = Field(description="that it went with")


class LineCommentsOut(Schema):
    comments: list[LineCommentOut]


def _out(comment: LineComment) -> dict:
    names = ("id", "side", "line", "end_line", "quote", "text", "at", "state", "sent_at")
    return {name: getattr(comment, name) for name in names} | {
        "by": comment.user.get_username(),
        "workspace": comment.workspace and comment.workspace.key,
        "action": comment.action_id,
        "agent": comment.agent and comment.agent.name,
        "denied_action": comment.decision and comment.decision.action_id,
        "message": comment.message_id,
        **history.path_fields("path", unquote_to_bytes(comment.path)),
    }


def _list(caller, **where) -> Status:
    related = ("user", "workspace", "agent", "message", "decision__action")
    found = LineComment.objects.visible_to(caller).filter(**where).select_related(*related).order_by("-at")
    return Status(200, {"comments": [_out(each) for each in found[:MAX_LISTED]]})


def _made(comment: LineComment, status: int = 201) -> Status:
    related = ("user", "workspace", "agent", "message", "decision__action")
    return Status(status, _out(LineComment.objects.select_related(*related).get(pk=comment.pk)))


def _wish(body: NewCardComment) -> dict:
    last = body.line if body.end_line is None else body.end_line
    return {"side": body.side, "line": body.line, "end_line": last, "text": body.text}


def _to_review(request, key: str):
    workspace = find(request, key)  # a review is no activity of the workspace
    lifecycle.require_permission(request.auth, "decide", workspace)
    return workspace


@router.get("/workspaces/{key}/comments", response={200: LineCommentsOut} | PROBLEMS)
def list_of_workspace(request, key: str):
    """List comments on lines of the workspace's changes, newest first: those sent, and one's own drafts.

    An agent's list has those that were sent to it.
    """
    return _list(request.auth, workspace=find(request, key), action=None)


@router.post("/workspaces/{key}/comments", response={201: LineCommentOut} | PROBLEMS)
def comment_on_changes(request, key: str, body: NewLineComment):
    """Write a draft on lines of a file that differs between two points, which are named as in `/diff`."""
    caller, workspace = request.auth, _to_review(request, key)
    comparison = compare(*(find_point(point, workspace, caller) for point in (body.from_, body.to)))
    path = unquote_to_bytes(body.path)
    row = next((row for row in comparison.rows if row.path == path), None)
    old_path = (row and row.old_path) or b""
    points = (body.from_, body.to)
    made = drafts.on_changes(workspace, comparison, path, old_path, points, caller=caller, **_wish(body))
    return _made(made)


@router.post("/workspaces/{key}/comments/send", response={200: LineCommentsOut} | PROBLEMS)
def send_of_workspace(request, key: str, body: SendTo):
    """Send one's drafts on the workspace's changes to an agent, as a message."""
    workspace = _to_review(request, key)
    agents = {agent.name: agent for agent in sending.recipients(workspace)}
    name = body.agent or (next(iter(agents)) if len(agents) == 1 else "")
    if name not in agents:
        raise invalid(f"Name one of the agents that work in this workspace: {', '.join(agents) or 'there is none'}.")
    found = drafts.of_workspace(workspace, request.auth)
    sent = sending.as_message(found, agents[name], session="", caller=request.auth)
    return _list(request.auth, pk__in=[each.pk for each in sent])


@router.get("/actions/{action_id}/comments", response={200: LineCommentsOut} | PROBLEMS)
def list_of_action(request, action_id: UUID):
    """List comments on lines of the action's card, newest first: those sent, and one's own drafts."""
    return _list(request.auth, action=gate.find(action_id, caller=request.auth))


@router.post("/actions/{action_id}/comments", response={201: LineCommentOut} | PROBLEMS)
def comment_on_card(request, action_id: UUID, body: NewCardComment):
    """Write a draft on lines of a diff that the action's card shows.

    It goes along with a denial that has `comments`, or as a message.
    """
    action = gate.find(action_id, caller=request.auth)
    return _made(drafts.on_card(action, unquote_to_bytes(body.path), caller=request.auth, **_wish(body)))


@router.post("/actions/{action_id}/comments/send", response={200: LineCommentsOut} | PROBLEMS)
def send_of_action(request, action_id: UUID):
    """Send one's drafts on the card, and on the changes of its workspace, to the action's agent as a message."""
    action, caller = gate.find(action_id, caller=request.auth), request.auth
    sent = sending.as_message(drafts.of_card(action, caller), action.agent, session=action.session, caller=caller)
    return _list(caller, pk__in=[each.pk for each in sent])


@router.patch("/comments/{comment_id}", response={200: LineCommentOut} | PROBLEMS)
def change(request, comment_id: UUID, body: ChangedText):
    """Change the text of one's own draft."""
    draft = _own(request, comment_id)
    drafts.change(draft, body.text)
    return _made(draft, 200)


@router.delete("/comments/{comment_id}", response={204: None} | PROBLEMS)
def delete(request, comment_id: UUID):
    """Delete one's own draft."""
    drafts.delete(_own(request, comment_id))
    return Status(204, None)


def _own(request, comment_id: UUID) -> LineComment:
    return drafts.find(comment_id, caller=request.auth)
