"""Agents that Handrail starts: runs, their turns, and what people answer to them."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

from ninja import Query, Router, Schema, Status
from pydantic import Field

from approvals import agent_runs
from approvals.agent_runs import requests
from approvals.models import AgentRun, AgentRunState, AgentTurn, TurnEnd
from approvals.sessions import messages
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import page_of
from dashboard.web.pages import as_uuid
from workspaces.api.lookup import find as find_workspace
from workspaces.api.lookup import team_of
from workspaces.api.schemas import SHA, Strict

router = Router(tags=["agent runs"])


class Budgets(Strict):
    budget_minutes: int | None = Field(None, ge=1, le=requests.MAX_MINUTES, description="of work; waiting is not")
    budget_tokens: int | None = Field(None, ge=1, le=requests.MAX_TOKENS, description="read and written in all")
    budget_cost: Decimal | None = Field(None, gt=0, le=requests.MAX_COST, description="in all, at the team's prices")


class NewAgentRun(Budgets):
    program: str = Field("", max_length=60, description="empty: the first that the environment names")
    task: str = Field(max_length=requests.MAX_TASK)
    workspace: str = Field("", max_length=64, description="its key, or else `environment`")
    environment: str = Field("", max_length=80, description="a new workspace of it is made")
    model: str = Field("", max_length=100, description="empty: the first one that the environment names")
    ticket_url: str = Field("", max_length=requests.MAX_URL)
    definition: str = Field("", max_length=80, description="the name of a definition: its prompt and memory go first")


class Acceptance(Strict):
    """What becomes of accepted work; nothing by default."""

    branch: str = Field("", max_length=200, description="to which HEAD is pushed")
    pull_request: bool = Field(False, description="also open one; without a branch it is handrail/KEY")
    sha: str = Field("", pattern=SHA, description="the commit to push; empty: HEAD, whatever it is by then")


class Discarding(Strict):
    """What else is discarded."""

    later: bool = Field(False, description="what later runs in the workspace have done is taken away too")


class MoreBudget(Budgets):
    until: datetime | None = Field(None, description="in place of `budget_minutes`: until when it may work")


class TextOfPerson(Strict):
    text: str = Field(min_length=1, max_length=messages.MAX_TEXT)


class AgentTurnOut(Schema):
    number: int
    kind: str
    prompt: str
    by: str | None
    command: UUID | None
    end: Literal["", *TurnEnd.values]
    reason: str
    created_at: datetime
    ended_at: datetime | None


class AgentRunOut(Schema):
    id: UUID
    workspace: str = Field(description="its key")
    agent: str = Field(description="whom its calls are of")
    program: str
    model: str
    task: str
    ticket_url: str
    definition: str | None = Field(description="its name and version")
    state: Literal[*AgentRunState.values]
    reason: str
    session: UUID | None = Field(description="its conversation, once the agent has said something")
    native_id: str
    snapshot_before: int | None
    started_by: str | None
    budget_minutes: int | None
    budget_tokens: int | None
    budget_cost: Decimal | None
    budget_met: str
    met_limit: str = Field(description="agent_tokens or agent_cost, if a limit of the team is met; else empty")
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: Decimal
    summary: str
    created_at: datetime
    changed_at: datetime


class AgentRunWithTurns(AgentRunOut):
    turns: list[AgentTurnOut]


class AgentRunPage(Schema):
    runs: list[AgentRunOut]
    cursor: str | None


class ModelCallOut(Schema):
    id: UUID
    provider: str
    model: str
    status: int | None = Field(description="of the provider's response")
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    cost: Decimal
    is_estimate: bool
    at: datetime
    settled_at: datetime | None


class ModelCallPage(Schema):
    calls: list[ModelCallOut]
    cursor: str | None


@router.get("/agent-runs", response={200: AgentRunPage} | PROBLEMS)
def list_agent_runs(
    request,
    workspace: Annotated[str | None, Query(max_length=64, description="its key")] = None,
    state: Annotated[Literal[*AgentRunState.values] | None, Query()] = None,
    cursor: str | None = None,
):
    """List runs, the newest first."""
    rows = AgentRun.objects.visible_to(request.auth).work()
    rows = rows.filter(workspace__key=workspace) if workspace else rows
    rows = rows.filter(state=state) if state else rows
    page = page_of(rows.select_related("workspace", "agent", "before", "started_by", "definition"), cursor)
    return Status(200, {"runs": [_out(run) for run in page.rows], "cursor": page.cursor})


@router.post("/agent-runs", response={201: AgentRunWithTurns} | PROBLEMS)
def start_agent_run(request, wish: NewAgentRun):
    """Start an agent in a workspace, or in a new one of an environment. 422 names the field that is wrong."""
    caller = request.auth
    if not any(caller.is_person and caller.can("start_agents", team_id) for team_id in caller.team_ids):
        raise not_allowed("Only a lead or admin can start an agent.")
    if bool(wish.workspace) == bool(wish.environment):
        raise invalid("Name a workspace, or an environment for a new one.", field="workspace")
    if wish.workspace:
        place = find_workspace(request, wish.workspace, "use_workspace")
    else:
        given = wish.model_dump()
        place = agent_runs.place_for(team_of(request), wish.environment, wish.task, wish=given, caller=caller)
    run = agent_runs.start(place, wish.model_dump(), caller=caller)
    return Status(201, _with_turns(run))


@router.get("/agent-runs/{agent_run_id}", response={200: AgentRunWithTurns} | PROBLEMS)
def get_agent_run(request, agent_run_id: str):
    """Return a run with its turns."""
    return Status(200, _with_turns(_find(request, agent_run_id)))


@router.get("/agent-runs/{agent_run_id}/model-calls", response={200: ModelCallPage} | PROBLEMS)
def list_model_calls(request, agent_run_id: str, cursor: str | None = None):
    """List what the run asked models for through the relay, the newest first."""
    page = page_of(_find(request, agent_run_id).model_calls.all(), cursor, order=requests.BY_TIME)
    names = list(ModelCallOut.model_fields)
    return Status(
        200, {"calls": [{name: getattr(row, name) for name in names} for row in page.rows], "cursor": page.cursor}
    )


@router.post("/agent-runs/{agent_run_id}/messages", response={200: AgentRunWithTurns} | PROBLEMS)
def say_to_agent_run(request, agent_run_id: str, body: TextOfPerson):
    """Tell the agent something: with its next call while it works, else as its next turn."""
    return _answered(request, agent_run_id, agent_runs.send_text, body.text)


@router.post("/agent-runs/{agent_run_id}/interrupt", response={200: AgentRunWithTurns} | PROBLEMS)
def interrupt_agent_run(request, agent_run_id: str, body: TextOfPerson):
    """End the turn that runs, and go on in the same session with this message."""
    return _answered(request, agent_run_id, agent_runs.interrupt, body.text)


@router.post("/agent-runs/{agent_run_id}/stop", response={202: AgentRunWithTurns} | PROBLEMS)
def stop_agent_run(request, agent_run_id: str):
    """End the turn that runs. The session and the files stay."""
    return Status(202, _answered(request, agent_run_id, agent_runs.stop).value)


@router.post("/agent-runs/{agent_run_id}/go-on", response={200: AgentRunWithTurns} | PROBLEMS)
def go_on_with_agent_run(request, agent_run_id: str):
    """Go on in the same session after a stop, a failure or the end of the workspace."""
    return _answered(request, agent_run_id, agent_runs.go_on)


@router.post("/agent-runs/{agent_run_id}/budget", response={200: AgentRunWithTurns} | PROBLEMS)
def extend_budget_of_agent_run(request, agent_run_id: str, wish: MoreBudget):
    """Give it more: tokens and cost are totals, minutes count from now on. A run that asked goes on."""
    return _answered(request, agent_run_id, agent_runs.extend_budget, wish.model_dump(exclude_none=True))


@router.post("/agent-runs/{agent_run_id}/accept", response={200: AgentRunWithTurns} | PROBLEMS)
def accept_agent_run(request, agent_run_id: str, wish: Acceptance | None = None):
    """Accept its work, and push its commits to a branch or open a pull request with them."""
    return _answered(request, agent_run_id, agent_runs.accept, wish.model_dump() if wish else {})


@router.post("/agent-runs/{agent_run_id}/discard", response={202: AgentRunWithTurns} | PROBLEMS)
def discard_agent_run(request, agent_run_id: str, wish: Discarding | None = None):
    """Restore the files from before the run, after a snapshot of how they are now.

    409 while another run works in the workspace, and with code `later_runs` if later runs have worked there.
    """
    return Status(202, _answered(request, agent_run_id, agent_runs.discard, wish.model_dump() if wish else {}).value)


def _answered(request, agent_run_id: str, do, *given) -> Status:
    run = _find(request, agent_run_id)
    do(run, *given, caller=request.auth)
    return Status(200, _with_turns(agent_runs.find(request.auth, run.pk)))


def _find(request, agent_run_id: str) -> AgentRun:
    return agent_runs.find(request.auth, as_uuid(agent_run_id))


def _with_turns(run: AgentRun) -> dict:
    return _out(run) | {"turns": [_turn(turn) for turn in run.turns.select_related("by")]}


def _turn(turn: AgentTurn) -> dict:
    names = ("number", "kind", "prompt", "end", "reason", "created_at", "ended_at")
    by = turn.by.get_username() if turn.by else None
    return {name: getattr(turn, name) for name in names} | {"by": by, "command": turn.command_id}


def _out(run: AgentRun) -> dict:
    names = ("id", "program", "model", "task", "ticket_url", "state", "reason", "native_id", "budget_minutes")
    names += (
        "budget_tokens",
        "budget_cost",
        "budget_met",
        "met_limit",
        "tokens_in",
        "tokens_out",
        "tokens_cached",
        "cost",
    )
    return {name: getattr(run, name) for name in (*names, "summary", "created_at", "changed_at")} | {
        "workspace": run.workspace.key,
        "agent": run.agent.name,
        "session": run.session_id,
        "definition": str(run.definition) if run.definition else None,
        "snapshot_before": run.before.number if run.before else None,
        "started_by": run.started_by.get_username() if run.started_by else None,
    }
