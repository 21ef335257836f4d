"""Start a run: what is asked for is checked, its workspace is found or made, and its first turn is added."""

import re
import uuid
from decimal import Decimal

from django.db import IntegrityError, transaction

from approvals.agent_runs import turns
from approvals.agent_runs.model_relay import accounts
from approvals.agents.programs import LAUNCHERS
from approvals.models import OPEN_RUNS, AgentDefinition, AgentRun, TurnKind
from dashboard.database import clock
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Team
from dashboard.people.access import Caller
from dashboard.people.tokens import sha256
from dashboard.problems import conflict, invalid, not_allowed, not_found
from dashboard.web.lookup import Order
from workspaces import lifecycle, operations
from workspaces.models import Prices, Workspace
from workspaces.provisioning import agent_programs, eligibility, model_access
from workspaces.services import run_tokens, schedules

MAX_TASK = 50_000  # characters
MAX_MINUTES = schedules.MAX_MINUTES
MAX_TOKENS = 10**12
MAX_COST = Decimal(1_000_000)
MAX_URL = 500
BY_TIME = Order("at")


def find(caller: Caller, run_id) -> AgentRun:
    """Return a run that the caller may see. Problem 404."""
    rows = AgentRun.objects.visible_to(caller)
    rows = rows.select_related("workspace__environment", "workspace__team", "agent", "session", "before")
    rows = rows.select_related("started_by", "definition")
    found = rows.filter(pk=run_id).first() if run_id else None
    if found is None:
        raise not_found("run")
    return found


def start(workspace: Workspace, wish: dict, *, caller: Caller, scheduled=None) -> AgentRun:
    """Start an agent: {task, program?, model?, ticket_url?, budget_minutes?, budget_tokens?, budget_cost?}.

    Problem 403, 409 while another run works in the workspace or the program is not installed, 422 with its `field`.
    """
    if not caller.is_person or not caller.can("start_agents", workspace.team_id):
        raise not_allowed("Only a lead or admin can start an agent.")
    refuse_when_stopped(workspace.team_id)
    fields = check(workspace.environment, workspace.team, wish)
    launcher, now, key = LAUNCHERS[fields["program"].partition("@")[0]], clock.now(), uuid.uuid4()
    run = AgentRun(
        pk=key,
        team=workspace.team,
        workspace=workspace,
        native_id=launcher.first_session(),
        started_by=caller.user,
        scheduled=scheduled,
        created_at=now,
        changed_at=now,
        **fields,
    )
    run.token_sha256 = sha256(accounts.token_of(run))
    try:
        with Team.objects.turn(workspace.team_id):
            run.agent = run_tokens.agent_of(workspace)
            run.save(force_insert=True)
            turns.add(run, TurnKind.TASK, run.task, by=caller.user)
            turns.record(run, caller.actor, "agent_run.asked", program=run.program, model=run.model)
    except IntegrityError:
        raise conflict(f"An agent works in {workspace.key} already. Wait until it has ended, or stop it.") from None
    transaction.on_commit(operations.wake_runner)
    return run


def is_busy(workspace: Workspace) -> bool:
    return AgentRun.objects.filter(workspace=workspace, state__in=OPEN_RUNS).exists()


def refuse_while_another_works(run: AgentRun):
    """Raise Problem 409 while another run works in its workspace. In the team's turn none is started meanwhile."""
    workspace = run.workspace
    if AgentRun.objects.filter(workspace=workspace, state__in=OPEN_RUNS).exclude(pk=run.pk).exists():
        raise conflict(f"Another agent works in {workspace.key}. Wait until it has ended, or stop it.")


def work_began_at(workspace: Workspace) -> int | None:
    """Return the number of the snapshot from before the run that works here; None if none does or has begun."""
    working = AgentRun.objects.filter(workspace=workspace, state__in=OPEN_RUNS)
    return working.values_list("before__number", flat=True).first()


def check(environment, team, wish: dict) -> dict:
    """Return the columns of a run that is wished for. Problem 409, 422."""
    program = agent_programs.require(environment, wish.get("program") or "")
    launcher = LAUNCHERS[program.partition("@")[0]]
    task = (wish.get("task") or "").replace("\r\n", "\n").replace("\0", "␀").strip()
    if not task or len(task) > MAX_TASK:
        raise invalid(f"Give a task of at most {MAX_TASK:,} characters.", field="task")
    ticket = (wish.get("ticket_url") or "").strip()
    if ticket and (len(ticket) > MAX_URL or not ticket.startswith(("https://", "http://")) or not ticket.isprintable()):
        raise invalid("A ticket is an address that begins with https:// or http://.", field="ticket_url")
    definition = _definition(team, wish)
    if definition and not wish.get("model") and definition.content["model"]["provider"] == launcher.provider:
        wish = wish | {"model": definition.content["model"]["name"]}
    found = {"program": program, "task": task, "ticket_url": ticket, "model": _model(environment, launcher, wish)}
    return found | {"definition": definition} | check_budgets(environment, launcher, team, wish)


def _definition(team, wish: dict) -> AgentDefinition | None:
    """Return the newest version of the definition that is wished for. Problem 422."""
    name = (wish.get("definition") or "").strip()
    if not name:
        return None
    found = AgentDefinition.objects.filter(team=team, name=name).order_by("-version").first()
    if found is None:
        raise invalid(f"There is no definition named {name[:80]!r}.", field="definition")
    return found


def _model(environment, launcher, wish: dict) -> str:
    access, provider = environment.model_access, launcher.provider
    if provider not in access and not set(launcher.own_keys) & set(environment.secrets.get("agent", ())):
        raise conflict(
            f"The environment {environment.name} gives {launcher.name} no models: name some of {provider} in it, or "
            f"give its programs the secret {launcher.own_keys[0]}."
        )
    model = (wish.get("model") or "").strip() or model_access.first_model(access, provider)
    if not model or not model_access.MODEL.fullmatch(model) or "*" in model:
        raise invalid("Name the model.", field="model")
    if provider in access and not model_access.allows(access, provider, model):
        raise invalid(f"The environment {environment.name} does not give the model {model}.", field="model")
    return model


def check_budgets(environment, launcher, team, wish: dict) -> dict:
    """Return the budgets of a wish, None for those that it does not name. Problem 422."""
    minutes, tokens, cost = (wish.get(name) or None for name in ("budget_minutes", "budget_tokens", "budget_cost"))
    if minutes and not 1 <= minutes <= MAX_MINUTES:
        raise invalid(f"Give 1 to {MAX_MINUTES:,} minutes, or none.", field="budget_minutes")
    if tokens and not accounts.LEAST_OUTPUT <= tokens <= MAX_TOKENS:
        raise invalid(f"Give at least {accounts.LEAST_OUTPUT:,} tokens, or none.", field="budget_tokens")
    cost = Decimal(str(cost)) if cost else None
    if cost is not None and not 0 < cost <= MAX_COST:
        raise invalid(f"Give an amount up to {MAX_COST:,}, or none.", field="budget_cost")
    if cost is not None and not _has_prices(team):
        raise invalid("The team has no prices for tokens: an admin sets them under Measures.", field="budget_cost")
    if (tokens or cost is not None) and launcher.provider not in environment.model_access:
        raise invalid(
            "Tokens and cost are counted by the model relay, which this agent does not use here.",
            field="budget_tokens" if tokens else "budget_cost",
        )
    return {"budget_minutes": minutes, "budget_tokens": tokens, "budget_cost": cost}


def _has_prices(team) -> bool:
    prices = Prices.objects.filter(team=team).first()
    return prices is not None and bool(prices.input_mtok or prices.output_mtok)


def place_for(team, environment: str, name: str, *, wish: dict, caller: Caller) -> Workspace:
    """Make a workspace of the environment for the run that is wished for, with a key made of `name`.

    Problem as for a run and for a new workspace, before anything is made.
    """
    if not caller.is_person or not caller.can("start_agents", team):
        raise not_allowed("Only a lead or admin can start an agent.")
    check(eligibility.find_environment(team, environment, caller), team, wish)
    wish = {"environment": environment, "fresh": True}
    return lifecycle.create(team, key_for(name, "agent"), caller=caller, wish=wish)[0]


def key_for(name: str, otherwise: str) -> str:
    """Return a key for a new workspace that begins with the words of `name`, or with `otherwise` if it has none."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower())[:30].strip("-")
    return f"{words or otherwise}-{uuid.uuid4().hex[:6]}"
