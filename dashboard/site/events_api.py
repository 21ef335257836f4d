"""The event log over HTTP: events after a cursor, optionally waiting for the next one."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.db.models import F
from ninja import Query, Router, Schema, Status
from pydantic import Field

from dashboard.database.threads import query_in_thread
from dashboard.live.long_poll import place_for, wait_for
from dashboard.models import Event, Team
from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import find
from workspaces.models import Workspace

router = Router(tags=["events"])
PAGE = 200


class Who(Schema):
    type: str = Field(description="person, agent or system")
    id: str
    label: str


class What(Schema):
    type: str
    id: str


class EventOut(Schema):
    id: int = Field(description="grows by one with each event of the team; the cursor")
    at: datetime
    actor: Who
    verb: str
    subject: What
    workspace: UUID | None
    data: dict[str, Any]
    hash: str


class Events(Schema):
    events: list[EventOut]
    cursor: int = Field(description="`after` of the next call")


@router.get("/events", response={200: Events} | PROBLEMS, auth=AsyncBearer())
async def list_events(
    request,
    after: Annotated[int, Query(ge=0, le=2**63 - 1)] = 0,
    wait: Annotated[float, Query(ge=0, le=60, description="seconds to wait for the first one")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    workspace: Annotated[
        str, Query(max_length=64, description="key or id: only events of this workspace, also of a deleted one")
    ] = "",
):
    """Return the events after a cursor, oldest first: a person sees the team's, an agent its own."""
    caller = request.auth
    of_it = {"workspace_id": await query_in_thread(_workspace_id, caller, workspace)} if workspace else {}

    def read_events():
        # The counter first: an event committed in between then comes with the next call instead of being skipped.
        upto = max(Team.objects.filter(pk__in=caller.team_ids).values_list("event_seq", flat=True), default=0)
        found = Event.objects.visible_to(caller).filter(seq__gt=after, seq__lte=upto, **of_it).order_by("seq")[:limit]
        return [_shown(event) for event in found], upto

    with place_for(caller):
        found, upto = await wait_for(read_events, lambda seen: bool(seen[0]), team_ids=caller.team_ids, timeout=wait)
    cursor = found[-1]["id"] if len(found) == limit else max(upto, after)
    return Status(200, {"events": found, "cursor": cursor})


def _workspace_id(caller, name: str) -> UUID:
    """Return the id of the newest workspace with this key, or of that with this id. Problem 404 if there is none."""
    if "\0" in name:  # PostgreSQL takes none in a text
        raise not_found("workspace")
    visible = Workspace.objects.visible_to(caller)
    newest_first = (F("trashed_at").desc(nulls_first=True), "-created_at")
    named = visible.filter(key=name).order_by(*newest_first).first()
    if named is None:
        named = find(visible, name, "workspace")
    return named.pk


def _shown(event: Event) -> dict:
    return {
        "id": event.seq,
        "at": event.at,
        "actor": {"type": event.actor_type, "id": event.actor_id, "label": event.actor_label},
        "verb": event.verb,
        "subject": {"type": event.subject_type, "id": event.subject_id},
        "workspace": event.workspace_id,
        "data": event.data,
        "hash": event.hash,
    }
