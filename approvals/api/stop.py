"""Stop everything over HTTP, and lift the stop."""

from datetime import datetime

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.actions import emergency_stop
from dashboard.models import Team
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["stop"])


class StopOut(Schema):
    stopped_at: datetime
    withdrawn: int = Field(description="requests and unused approvals that were cancelled")
    commands: int
    services: int
    terminals: int
    workspaces: int = Field(description="those that were up or starting, and stop now")


class LiftOut(Schema):
    stopped_at: None = None


@router.post("/stop", response={200: StopOut} | PROBLEMS)
def stop_everything(request):
    """Cancel all requests of the team, end its programs, stop its workspaces, and block new starts."""
    team = Team.objects.get(pk=request.auth.team_ids[0])
    ended = emergency_stop.stop_everything(team, caller=request.auth)
    return Status(200, ended | {"stopped_at": team.stopped_at})


@router.post("/stop/lift", response={200: LiftOut} | PROBLEMS)
def lift_stop(request):
    """Let agents ask again; nothing that was cancelled or ended comes back."""
    emergency_stop.lift_stop(Team.objects.get(pk=request.auth.team_ids[0]), caller=request.auth)
    return Status(200, {})
