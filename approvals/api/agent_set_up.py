"""How far each agent is set up that Handrail can start, and the steps that no other part of the API takes."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.agent_runs import set_up, trials
from approvals.models import TrialState
from dashboard.models import Team
from dashboard.problems import conflict, not_allowed, not_found
from dashboard.web.api_base import PROBLEMS
from workspaces import extensions
from workspaces.api.lookup import team_of
from workspaces.api.schemas import Strict
from workspaces.models import Operation
from workspaces.services import agent_installs

router = Router(tags=["agent runs"])


class InstallOut(Schema):
    id: UUID
    phase: str
    progress: dict = Field(description="`bytes`: what npm has written so far")
    outcome: dict | None


class AgentKeyOut(Schema):
    secret: str = Field(description="the name of the secret, given to Handrail for models")
    state: Literal["set", "expired", "unreadable", "missing"]


class TrialOut(Schema):
    id: UUID
    program: str
    environment: str
    state: Literal[*TrialState.values]
    heard: bool = Field(description="an allowed call came to the gate")
    denied: bool = Field(description="a forbidden one did not run, and the model read the reason")
    reason: str
    run: UUID | None
    created_at: datetime
    ended_at: datetime | None


class AgentProgramOut(Schema):
    name: str
    title: str
    package: str
    version: str = Field(description="the one that Handrail is tested with, which is installed")
    installed: list[str] = Field(description="versions on this host")
    install: InstallOut | None = Field(description="the newest installation of that version")
    provider: str
    model: str
    key: AgentKeyOut
    environments: list[str] = Field(description="in which it can be started")
    trial: TrialOut | None = Field(description="the newest in one of these")
    steps: dict[str, bool] = Field(description="in order: program, key, environment, trial")
    next_step: str


class AgentProgramsOut(Schema):
    programs: list[AgentProgramOut]


class KeyAnswerOut(Schema):
    status: int | None = Field(description="of the provider's response; null if it was not reached")
    words: str


class NewTrial(Strict):
    environment: str = Field("", max_length=80, description="empty: the first in which the agent can be started")


@router.get("/agent-programs", response={200: AgentProgramsOut} | PROBLEMS)
def list_agent_programs(request):
    """List the agents that Handrail can start, with how far each is set up in the team."""
    team = _to_read(request)
    found = [set_up.SetUp(team, program) for program in extensions.agent_programs.values()]
    return Status(200, {"programs": [_out(each) for each in found]})


@router.get("/agent-programs/{agent_program}", response={200: AgentProgramOut} | PROBLEMS)
def get_agent_program(request, agent_program: str):
    """Return how far one agent is set up. Each step is read from what is there, whoever did it."""
    return Status(200, _out(set_up.find(_to_read(request), agent_program)))


@router.post("/agent-programs/{agent_program}/install", response={202: AgentProgramOut} | PROBLEMS)
def install_agent_program(request, agent_program: str):
    """Install its program on the team's host; `install` says how it goes. 409 while another is installed."""
    found = _to_change(request, agent_program, "manage_environments")
    agent_installs.ask(found.team, found.program, by=request.auth.actor)
    return Status(202, _out(set_up.find(found.team, agent_program)))


@router.post("/agent-programs/{agent_program}/try-key", response={200: KeyAnswerOut} | PROBLEMS)
def try_agent_key(request, agent_program: str):
    """Ask the provider for the smallest answer with the team's key. It costs a few tokens; 409 without a key."""
    from approvals.agent_runs.model_relay import key_check  # here: aiohttp takes 12 MB

    found = _to_change(request, agent_program, "manage_secrets")
    about = found.team, found.program.provider, found.key_name, found.model
    answer = key_check.check(*about, by=request.auth.actor)
    return Status(200, {"status": answer.status, "words": answer.words})


@router.post("/agent-programs/{agent_program}/trials", response={201: TrialOut} | PROBLEMS)
def try_agent_program(request, agent_program: str, wish: NewTrial):
    """Try whether the gate holds the program: in a workspace that is deleted afterwards, with a built-in model."""
    found = _to_change(request, agent_program, "start_agents")
    if not found.environments:
        raise conflict(f"No environment names {found.program.title} and its models.")
    chosen = next((each for each in found.environments if wish.environment in ("", each.name)), None)
    if chosen is None:
        raise not_found("environment")
    return Status(201, _trial(trials.start(chosen, found.program.name, caller=request.auth)))


def _to_read(request) -> Team:
    """Return the team of a person; agents have no say in how they are set up. Problem 403."""
    team: Team = team_of(request)
    if not request.auth.can("read_log", team):
        raise not_allowed("You don't have permission to do this.")
    return team


def _to_change(request, name: str, verb: str) -> set_up.SetUp:
    team: Team = team_of(request)
    if not request.auth.can(verb, team):
        raise not_allowed("You don't have permission to do this.")
    return set_up.find(team, name)


def _out(found: set_up.SetUp) -> dict:
    program = found.program
    names = ("name", "title", "package", "version", "provider")
    return {name: getattr(program, name) for name in names} | {
        "installed": found.versions,
        "install": _install(found.install) if found.install else None,
        "model": found.model,
        "key": {"secret": found.key_name, "state": found.key_state},
        "environments": [each.name for each in found.environments],
        "trial": _trial(found.trial) if found.trial else None,
        "steps": found.steps,
        "next_step": found.next_step,
    }


def _install(operation: Operation) -> dict:
    return {name: getattr(operation, name) for name in ("id", "phase", "progress", "outcome")}


def _trial(trial) -> dict:
    names = ("id", "program", "environment", "state", "heard", "denied", "reason", "created_at", "ended_at")
    return {name: getattr(trial, name) for name in names} | {"run": trial.run_id}
