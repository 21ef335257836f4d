"""How often the policy asks, over HTTP."""

from ninja import Router, Schema
from pydantic import Field

from approvals.ask_rate import ask_rate
from approvals.models import Action
from dashboard import clock
from dashboard.api_base import PROBLEMS

router = Router(tags=["policy"])


class AsksOut(Schema):
    days: int = Field(description="the length of the period, which ends now")
    calls: int = Field(description="actions that agents asked for")
    asked: int = Field(description="those that needed a person's approval; neither auto-approved nor forbidden")
    active_hours: int = Field(description="hours of the clock, in UTC, with at least one call")
    per_100_calls: float
    per_active_hour: float


@router.get("/policy/asks", response={200: AsksOut} | PROBLEMS)
def asks(request):
    """How often people were asked in the last seven days, of the actions that the caller may see."""
    return ask_rate(Action.objects.visible_to(request.auth), clock.now())
