"""Lessons of a repository: read by its workspaces, proposed, and decided by people."""

from datetime import datetime

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.database import clock
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import Order, page_of
from dashboard.web.pages import as_uuid
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.models import Lesson
from workspaces.services.notes import lessons, texts, versions

router = Router(tags=["notes"])


class NewLesson(schemas.Strict):
    text: str = Field(max_length=lessons.MAX_BYTES)
    days: int | None = Field(None, ge=1, le=texts.MAX_DAYS, description="for how long it is given once accepted")
    version: int | None = Field(None, ge=1, lt=1 << 31, description="the version of the notes that it is taken from")


class AcceptedDifference(schemas.Strict):
    seen: str = Field(max_length=64, description="`seen` of the lesson, with the difference that was read")


class LessonOut(Schema):
    id: str
    repository: str
    number: int
    text: str
    sha256: str
    state: str
    author: dict
    proposed_by: dict
    workspace: str
    version: int | None
    redacted: list[str]
    created_at: datetime
    decided_by: dict
    decided_at: datetime | None
    expires_at: datetime | None
    is_expired: bool


class LessonWithDifference(LessonOut):
    patch: str
    seen: str


class LessonPage(Schema):
    lessons: list[LessonOut]
    cursor: str | None


class LessonsGiven(Schema):
    repository: str
    text: str
    lessons: list[LessonOut]


@router.get("/workspaces/{key}/lessons", response={200: LessonsGiven} | PROBLEMS)
def given(request, key: str):
    """Return the lessons in force for the workspace's repository: as data, and as the quoted text of lessons.md."""
    workspace = find(request, key)
    repository = lessons.repository_of(workspace)
    found = lessons.in_force(workspace.team_id, repository)
    told = {"repository": repository, "text": lessons.quoted(repository, found)}
    return Status(200, told | {"lessons": [_out(lesson) for lesson in found]})


@router.post("/workspaces/{key}/lessons", response={201: LessonOut} | PROBLEMS)
def propose(request, key: str, wish: NewLesson):
    """Propose a lesson for the workspace's repository. Nobody is given it until a person has accepted it."""
    workspace = find(request, key, "propose_lesson")
    note = versions.find(workspace, wish.version) if wish.version else None
    made = lessons.propose(workspace, wish.text, by=request.auth.actor, days=wish.days, note=note)
    return Status(201, _out(made))


@router.get("/lessons", response={200: LessonPage} | PROBLEMS)
def list_lessons(request, repository: str = "", state: str = "", cursor: str | None = None):
    """List lessons, the newest first, of all repositories or one; `state`: proposed, accepted, declined, removed."""
    if "\0" in repository + state:
        raise invalid("A filter can't contain a NUL character.")
    wanted = {name: value for name, value in (("repository", repository), ("state", state)) if value}
    page = page_of(lessons.visible_to(request.auth).filter(**wanted), cursor, order=Order("created_at"))
    return Status(200, {"lessons": [_out(lesson) for lesson in page.rows], "cursor": page.cursor})


@router.get("/lessons/{lesson_id}", response={200: LessonWithDifference} | PROBLEMS)
def one(request, lesson_id: str):
    """Return a lesson, and the difference that accepting it, or removing an accepted one, makes to what is given."""
    lesson = lessons.find(request.auth, as_uuid(lesson_id))
    return Status(200, {"patch": lessons.patch(lesson), "seen": lessons.seen_digest(lesson)} | _out(lesson))


@router.post("/lessons/{lesson_id}/accept", response={200: LessonOut} | PROBLEMS)
def accept(request, lesson_id: str, wish: AcceptedDifference):
    """Put a proposed lesson in force. 409 if the difference is no longer the one that `seen` names."""
    lesson = _to_decide(request, lesson_id)
    lessons.accept(lesson, seen=wish.seen, by=request.auth.actor)
    return Status(200, _out(lesson))


@router.post("/lessons/{lesson_id}/decline", response={200: LessonOut} | PROBLEMS)
def decline(request, lesson_id: str):
    """Decline a proposed lesson."""
    lesson = _to_decide(request, lesson_id)
    lessons.decline(lesson, by=request.auth.actor)
    return Status(200, _out(lesson))


@router.delete("/lessons/{lesson_id}", response={200: LessonOut} | PROBLEMS)
def remove(request, lesson_id: str):
    """Take an accepted lesson out of force; it stays in the list as removed."""
    lesson = _to_decide(request, lesson_id)
    lessons.remove(lesson, by=request.auth.actor)
    return Status(200, _out(lesson))


def _to_decide(request, lesson_id: str) -> Lesson:
    lesson = lessons.find(request.auth, as_uuid(lesson_id))
    if not request.auth.can("decide_lesson", lesson.team_id):
        raise not_allowed("You don't have permission to do this.")
    return lesson


def _out(lesson: Lesson) -> dict:
    names = ("repository", "number", "text", "sha256", "state", "author", "proposed_by", "redacted", "created_at")
    names += ("decided_by", "decided_at", "expires_at")
    return {name: getattr(lesson, name) for name in names} | {
        "id": str(lesson.pk),
        "workspace": lesson.workspace_key,
        "version": lesson.note_number,
        "is_expired": lesson.is_expired(clock.now()),
    }
