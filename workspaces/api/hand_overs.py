"""Hand a workspace over to the next agent or person, and read hand-overs."""

from datetime import datetime

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import page_of
from dashboard.web.pages import as_uuid
from workspaces import lifecycle
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.manifests import keep
from workspaces.models import HandOver
from workspaces.services.notes import hand_over

router = Router(tags=["notes"])


class NewHandOver(schemas.Strict):
    agent: str = Field(
        "", max_length=100, description="the name of the agent that goes on; it is bound to the workspace"
    )
    person: str = Field("", max_length=150, description="or the name of the person, who is notified")
    message: str = Field("", max_length=hand_over.MAX_MESSAGE)


class HandOverOut(Schema):
    id: str
    to: dict
    by: dict
    at: datetime
    message: str
    redacted: list[str]
    snapshot: int
    manifest_sha256: str
    notes_version: int | None
    questions: list[dict]


class HandOverWhole(HandOverOut):
    notes: str
    manifest: dict | None


class HandOverPage(Schema):
    hand_overs: list[HandOverOut]
    cursor: str | None


@router.post("/workspaces/{key}/hand-overs", response={201: HandOverOut} | PROBLEMS)
def make(request, key: str, wish: NewHandOver):
    """Hand the workspace over: a snapshot is taken if needed, and its notes and open questions are recorded with it."""
    workspace = find(request, key, "hand_over")
    if wish.agent:
        lifecycle.require_permission(request.auth, "manage_agents", workspace)
    made = hand_over.hand_over(workspace, caller=request.auth, **wish.model_dump())
    return Status(201, _out(made))


@router.get("/workspaces/{key}/hand-overs", response={200: HandOverPage} | PROBLEMS)
def list_hand_overs(request, key: str, cursor: str | None = None):
    """List the hand-overs of a workspace, the newest first."""
    page = page_of(hand_over.of_workspace(find(request, key)).select_related("note"), cursor)
    return Status(200, {"hand_overs": [_out(made) for made in page.rows], "cursor": page.cursor})


@router.get("/workspaces/{key}/hand-overs/{hand_over_id}", response={200: HandOverWhole} | PROBLEMS)
def one(request, key: str, hand_over_id: str):
    """Return a hand-over with the text of the notes and the manifest of the snapshot."""
    made = hand_over.find(find(request, key), as_uuid(hand_over_id))
    manifest = getattr(made.snapshot, "manifest", None) if made.snapshot else None
    whole = {"notes": made.note.text if made.note else "", "manifest": manifest and keep.download_of(manifest)}
    return Status(200, _out(made) | whole)


def _out(made: HandOver) -> dict:
    return {
        "id": str(made.pk),
        "to": made.to,
        "by": made.by,
        "at": made.created_at,
        "message": made.message,
        "redacted": made.redacted,
        "snapshot": made.snapshot_number,
        "manifest_sha256": made.manifest_sha256,
        "notes_version": made.note.number if made.note else None,
        "questions": made.questions,
    }
