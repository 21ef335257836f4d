"""Artifacts: files of a snapshot that stay after it."""

from datetime import datetime
from typing import Annotated
from urllib.parse import unquote_to_bytes
from uuid import UUID

from ninja import Query, Router, Schema, Status
from pydantic import Field, StringConstraints

from dashboard.problems import invalid, not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from dashboard.web.pages import download
from workspaces import operations
from workspaces.api.lookup import ended_well, find
from workspaces.api.schemas import Strict
from workspaces.models import Artifact
from workspaces.services import artifacts

router = Router(tags=["artifacts"])

Path = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class NewArtifact(Strict):
    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    paths: Annotated[list[Path], Field(max_length=artifacts.MAX_PATHS)] = Field(
        description="files and folders of the snapshot; bytes that are not UTF-8 as %XX"
    )
    snapshot: int | None = Field(None, ge=1, description="its number; by default the newest")
    note: Annotated[str, StringConstraints(max_length=artifacts.MAX_NOTE)] = ""
    days: int | None = Field(
        None, ge=1, le=artifacts.MAX_DAYS, description="after which it is deleted; null: as retention says"
    )


class ArtifactOut(Schema):
    id: UUID
    name: str
    note: str
    workspace: str = Field(description="the key of the workspace that it was made in, which may be gone")
    repository: str
    snapshot: int
    paths: list[str] = Field(description="percent-encoded")
    is_ready: bool = Field(description="whether its files can be downloaded and carried")
    entries: int
    bytes: int
    by: str
    created_at: datetime
    expires_at: datetime | None


class ArtifactPage(Schema):
    artifacts: list[ArtifactOut]
    cursor: str | None


def _out(row: Artifact) -> dict:
    names = ("id", "name", "note", "repository", "paths", "entries", "bytes", "created_at", "expires_at")
    told = {name: getattr(row, name) for name in names}
    return told | {
        "workspace": row.key,
        "snapshot": row.snapshot_number,
        "is_ready": bool(row.tree),
        "by": row.by.get("label", ""),
    }


def _page(rows, cursor) -> Status:
    page = lookup.page_of(rows, cursor)
    return Status(200, {"artifacts": [_out(row) for row in page.rows], "cursor": page.cursor})


@router.post("/workspaces/{key}/artifacts", response={201: ArtifactOut} | PROBLEMS)
def promote(request, key: str, wish: NewArtifact):
    """Keep files and folders of a snapshot as an artifact, which stays when snapshot and workspace are gone."""
    workspace = find(request, key, "keep_artifact")
    fields = {"number": wish.snapshot, "note": wish.note, "days": wish.days}
    paths = [unquote_to_bytes(path) for path in wish.paths]
    made, operation = artifacts.promote(workspace, wish.name, paths, by=request.auth.actor, **fields)
    ended_well(operations.wait(operation, 60))
    made.refresh_from_db()
    return Status(201, _out(made))


@router.get("/workspaces/{key}/artifacts", response={200: ArtifactPage} | PROBLEMS)
def list_of_workspace(request, key: str, cursor: str | None = None):
    """List the artifacts of a workspace, newest first, 50 per page."""
    return _page(Artifact.objects.filter(workspace=find(request, key)), cursor)


@router.get("/artifacts", response={200: ArtifactPage} | PROBLEMS)
def list_artifacts(
    request,
    repository: Annotated[str | None, Query(max_length=500, description="a git address")] = None,
    workspace: Annotated[str | None, Query(max_length=64, description="its key; it may be gone")] = None,
    name: Annotated[str | None, Query(max_length=100)] = None,
    cursor: str | None = None,
):
    """List artifacts, newest first, 50 per page. An agent sees those of the workspaces that it sees."""
    wanted = {"repository": repository, "key": workspace, "name": name}
    wanted = {column: value for column, value in wanted.items() if value is not None}
    if any("\0" in value for value in wanted.values()):
        raise invalid("A filter can't contain a NUL character.")
    rows = Artifact.objects.visible_to(request.auth).filter(**wanted)
    return _page(rows, cursor)


@router.get("/artifacts/{artifact_id}", response={200: ArtifactOut} | PROBLEMS)
def get_artifact(request, artifact_id: UUID):
    """Return an artifact."""
    return Status(200, _out(_find(request, artifact_id)))


@router.get("/artifacts/{artifact_id}/zip", response={200: None} | PROBLEMS)
def download_artifact(request, artifact_id: UUID):
    """Download the files of an artifact as a zip."""
    found = _find(request, artifact_id)
    return download(request, artifacts.zip_of(found), f"{found.name}.zip", "application/zip")


@router.delete("/artifacts/{artifact_id}", response={204: None} | PROBLEMS)
def delete_artifact(request, artifact_id: UUID):
    """Delete an artifact. For people only."""
    found = _find(request, artifact_id)
    if not request.auth.can("delete_artifact", found.team_id):
        raise not_allowed("You don't have permission to do this.")
    artifacts.delete(found, by=request.auth.actor)
    return Status(204, None)


def _find(request, artifact_id) -> Artifact:
    rows = Artifact.objects.visible_to(request.auth).select_related("team")
    return lookup.find(rows, artifact_id, "artifact")
