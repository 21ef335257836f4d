"""The notes of a workspace: read, edited, and their versions compared."""

from datetime import datetime

from ninja import Query, Router, Schema, Status
from pydantic import Field

from dashboard.database import clock
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.lookup import Order, page_of
from workspaces.api import schemas
from workspaces.api.lookup import answered, find, number_of
from workspaces.models import NoteVersion
from workspaces.services.notes import editing, texts, versions

router = Router(tags=["notes"])


class NoteEdit(schemas.Strict):
    text: str = Field(max_length=texts.MAX_BYTES)
    seen: str | None = Field(None, max_length=64, description="sha256 of the notes that were read; 409 if they changed")
    days: int | None = Field(None, ge=1, le=texts.MAX_DAYS, description="for how long they are given")


class NoteVersionOut(Schema):
    version: int
    sha256: str
    by: dict
    at: datetime
    redacted: list[str]
    is_cut: bool
    expires_at: datetime | None
    is_expired: bool
    waits: bool


class NotesOut(Schema):
    text: str
    sha256: str
    current: NoteVersionOut | None


class NoteTextOut(NoteVersionOut):
    text: str


class NoteVersionPage(Schema):
    versions: list[NoteVersionOut]
    cursor: str | None


class NotesComparedOut(Schema):
    a: int
    b: int
    patch: str


@router.get("/workspaces/{key}/notes", response={200: NotesOut} | PROBLEMS)
def read(request, key: str):
    """Return the newest version of the notes. Agents get no text of one that has expired."""
    found = versions.newest(find(request, key))
    is_given = found is not None and (request.auth.is_person or not found.is_expired(clock.now()))
    told = {"text": found.text, "sha256": found.sha256} if is_given else {"text": "", "sha256": ""}
    return Status(200, told | {"current": _out(found) if found else None})


@router.put("/workspaces/{key}/notes", response={200: dict, 202: schemas.AskedOut} | PROBLEMS, auth=AsyncBearer())
async def edit(request, key: str, wish: NoteEdit):
    """Replace the notes. In a workspace that is paused or stopped, a person's edit waits for the next resume."""
    return await answered(request, _edit, key, wish)


def _edit(request, key, wish):
    workspace = find(request, key, "use_workspace")
    how = {"seen": wish.seen, "days": wish.days}
    return Status(200, _out(editing.edit(workspace, wish.text, caller=request.auth, **how)))


@router.get("/workspaces/{key}/notes/versions", response={200: NoteVersionPage} | PROBLEMS)
def list_versions(request, key: str, cursor: str | None = None):
    """List the versions, the newest first."""
    rows = NoteVersion.objects.filter(workspace=find(request, key)).defer("text")
    page = page_of(rows, cursor, order=Order("number", read=int))
    return Status(200, {"versions": [_out(version) for version in page.rows], "cursor": page.cursor})


@router.get("/workspaces/{key}/notes/versions/{n}", response={200: NoteTextOut} | PROBLEMS)
def one(request, key: str, n: str):
    """Return a version with its text; expired ones too, but not to agents."""
    found = versions.find(find(request, key), number_of(n) or 0)
    hidden = not request.auth.is_person and found.is_expired(clock.now())
    return Status(200, _out(found) | {"text": "" if hidden else found.text})


@router.get("/workspaces/{key}/notes/compare", response={200: NotesComparedOut} | PROBLEMS)
def compare(request, key: str, a: int = Query(ge=1, lt=1 << 31), b: int = Query(ge=1, lt=1 << 31)):
    """Return the difference between two versions, in the unified format."""
    workspace = find(request, key)
    return Status(200, {"a": a, "b": b, "patch": versions.patch(*(versions.find(workspace, n) for n in (a, b)))})


def _out(version: NoteVersion) -> dict:
    names = ("sha256", "by", "redacted", "is_cut", "expires_at")
    return {name: getattr(version, name) for name in names} | {
        "version": version.number,
        "at": version.created_at,
        "is_expired": version.is_expired(clock.now()),
        "waits": version.given_at is None,
    }
