"""Who is on duty, over HTTP: one's own switch and quiet hours, and the people of the team who are on duty now."""

import zoneinfo
from datetime import time
from typing import Annotated

from ninja import Router, Schema
from pydantic import Field

from approvals.evaluation import duty
from approvals.models import NotificationSettings
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["duty"])


class DutyOut(Schema):
    on_duty: bool = Field(description="the person's own switch")
    quiet_from: time | None = Field(description="the beginning of the quiet hours, in which the person is off duty")
    quiet_until: time | None
    zone: str = Field(description="of these times")
    now: bool = Field(description="whether the person is on duty now, for the team of the token")


class DutyIn(Strict):
    on_duty: bool
    quiet_from: time | None = None
    quiet_until: time | None = None
    zone: Annotated[str, Field(max_length=64)] = "UTC"


class PeopleOut(Schema):
    people: list[str] = Field(description="who may approve and is on duty now, by name")


@router.get("/duty", response={200: PeopleOut} | PROBLEMS)
def list_people_on_duty(request):
    """List who of the team may approve and is on duty now. For people."""
    _must_be_person(request)
    team = Team.objects.get(pk=request.auth.team_ids[0])
    return {"people": [user.get_username() for user in duty.people_on_duty(team, clock.now())]}


@router.get("/me/duty", response={200: DutyOut} | PROBLEMS)
def read_duty(request):
    """Whether the caller is on duty, and their quiet hours. For people."""
    _must_be_person(request)
    return _out(request, duty.settings_of(request.auth.user))


@router.put("/me/duty", response={200: DutyOut} | PROBLEMS)
def switch_duty(request, body: DutyIn):
    """Go on or off duty, and set the quiet hours; times that are left out end them. For people."""
    _must_be_person(request)
    if (body.quiet_from is None) != (body.quiet_until is None):
        raise invalid("Quiet hours need a beginning and an end.")
    if body.zone not in zoneinfo.available_timezones():
        raise invalid(f"{body.zone} is no time zone; write it as Europe/Berlin.")
    found, _ = NotificationSettings.objects.update_or_create(user=request.auth.user, defaults=body.model_dump())
    return _out(request, found)


def _must_be_person(request):
    if not request.auth.is_person:
        raise not_allowed("Only people are on duty.")


def _out(request, wanted: NotificationSettings) -> dict:
    own = {name: getattr(wanted, name) for name in ("on_duty", "quiet_from", "quiet_until", "zone")}
    team_id = request.auth.team_ids[0]
    return own | {"now": request.auth.can("decide", team_id) and duty.is_on_duty(wanted, team_id, clock.now())}
