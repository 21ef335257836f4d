"""Where people are signed in, over HTTP: each person's own sessions, and for an admin those of the team's members."""

from datetime import datetime
from typing import Annotated

from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user_model
from ninja import Path, Query, Router, Schema, Status
from pydantic import Field

from approvals.notify.devices import forget_session
from dashboard.people import sessions
from dashboard.problems import not_allowed, not_found
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["sessions"])
NAME = r"^[\w.@+-]+$"  # the length apart: a pattern that counts \w compiles to 15 MB
Name = Annotated[str, Query(pattern=NAME, max_length=150, description="user name of a member; without it oneself")]
SessionId = Annotated[int, Path(ge=1, le=2**31 - 1)]


class SessionOut(Schema):
    id: int
    user: str
    device: str = Field(description="such as Firefox on Android")
    address: str = Field(description="from where it was last used")
    how: str = Field(description="how the sign-in was done, such as password or link; empty if not known")
    created_at: datetime
    last_seen_at: datetime


class Sessions(Schema):
    sessions: list[SessionOut]


class Ended(Schema):
    ended: int


@router.get("/me/sessions", response={200: Sessions} | PROBLEMS)
def list_sessions(request, user: Name | None = None):
    """Return where a person is signed in, the last used first: oneself, or for an admin a member of the team."""
    person = _whose(request, user)
    return Status(200, {"sessions": [_shown(found, person) for found in sessions.of(person)]})


@router.delete("/me/sessions/{session_id}", response={204: None} | PROBLEMS)
def end_session(request, session_id: SessionId):
    """End one session of oneself, or for an admin of a member of the team."""
    _person_only(request)
    own = UserSession.objects.filter(pk=session_id, user=request.auth.user)
    row = (own | UserSession.objects.filter(pk=session_id, user__in=_managed(request))).select_related("user").first()
    if row is None:
        raise not_found("session")
    forget_session(sessions.end(row.user, row.pk, by=request.auth.actor))
    return Status(204, None)


@router.delete("/me/sessions", response={200: Ended} | PROBLEMS)
def end_sessions(request, user: Name | None = None):
    """End all sessions of oneself, or for an admin of a member of the team. Tokens stay."""
    ended = sessions.end_all(_whose(request, user), by=request.auth.actor)
    for key in ended:
        forget_session(key)
    return Status(200, {"ended": len(ended)})


def _person_only(request):
    if not request.auth.is_person:
        raise not_allowed("Only people have sessions.")


def _managed(request):
    """Return the people whose sessions the caller may end: the members of the team, if they manage it."""
    teams = [team for team in request.auth.team_ids if request.auth.can("manage_people", team)]
    return get_user_model().objects.filter(memberships__team__in=teams)


def _whose(request, name: str | None):
    """Return the person with this user name, oneself without one. Problem 403 or 404 for those who aren't managed."""
    _person_only(request)
    if name is None or name == request.auth.user.get_username():
        return request.auth.user
    if not any(request.auth.can("manage_people", team) for team in request.auth.team_ids):
        raise not_allowed("Only an admin sees the sessions of others.")
    person = _managed(request).filter(username=name).first()
    if person is None:
        raise not_found("member")
    return person


def _shown(found: sessions.SignedIn, person) -> dict:
    return {
        "id": found.row.pk,
        "user": person.get_username(),
        "device": found.device,
        "address": "" if found.row.ip == sessions.NO_ADDRESS else found.row.ip,
        "how": found.how,
        "created_at": found.row.created_at,
        "last_seen_at": found.row.last_seen_at,
    }
