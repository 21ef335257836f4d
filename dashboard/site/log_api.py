"""The log of a team as a file, and the signed checkpoints that prove it, for tokens of leads and admins."""

import json
from typing import Annotated, Literal

from django.http import StreamingHttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import Field

from dashboard.database.batches import in_batches
from dashboard.event_log import checkpoints
from dashboard.keys import log_key
from dashboard.models import Event, Team
from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.pages import in_threads
from handrail_verify import agentack

router = Router(tags=["log"])
JSON_LINES = "application/jsonl"
AS_LINES = {"responses": {200: {"description": "OK", "content": {JSON_LINES: {"schema": {"type": "string"}}}}}}
MAX_CHECKPOINTS = 1000


class CheckpointSignature(Schema):
    algorithm: str = Field(description="Ed25519")
    key: str = Field(description="the public key in base64; keep your own copy, this one is only a hint")
    value: str
    timestamp: str = Field(
        "", description="what an outside witness answered (RFC 3161), in base64; empty where none was asked"
    )


class LogCheckpointOut(Schema):
    """The log of the team ended with event `seq` at `at`; what is signed is all but sha256 and signature."""

    checkpoint: int = Field(description="version of this form")
    team: str
    seq: int
    hash: str
    at: str
    sha256: str
    signature: CheckpointSignature


class LogCheckpoints(Schema):
    checkpoints: list[LogCheckpointOut] = Field(description="newest last")
    key: str = Field(description="the public key that signs now, in base64")


def _team(request) -> Team:
    team = Team.objects.get(pk=request.auth.team_ids[0])
    if not request.auth.can("export_log", team):
        raise not_allowed("Exporting the log takes a lead or an admin.")
    return team


@router.get("/log/export", response={200: str} | PROBLEMS, openapi_extra=AS_LINES)
def export_log(request, format: Literal["log", "agentack"] = "log"):
    """Return the team's whole log as JSON lines, oldest first, as `python -m handrail_verify log` reads it.

    As `agentack` it is a trace that AgentAck 0.6 checks, made from the same events.
    """
    team = _team(request)
    events = Event.objects.filter(team=team, seq__lte=team.event_seq).order_by("seq")
    exported = (event.as_export() for event in in_batches(events))
    rows = agentack.trace(exported) if format == "agentack" else exported
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    name = f"handrail-{team.slug}-{format}.jsonl"
    return StreamingHttpResponse(
        in_threads(lines) if hasattr(request, "scope") else lines,
        content_type=f"{JSON_LINES}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@router.get("/log/checkpoints", response={200: LogCheckpoints} | PROBLEMS)
def list_checkpoints(
    request,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="only those of later events")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_CHECKPOINTS)] = MAX_CHECKPOINTS,
):
    """Return the newest signed checkpoints of the team's log. Keep them where nobody of this installation can write."""
    newest = _team(request).log_checkpoints.filter(seq__gt=after).order_by("-seq")[:limit]
    found = [checkpoints.as_download(one) for one in reversed(newest)]
    return Status(200, {"checkpoints": found, "key": log_key.public_key()})
