"""Who may ask a model through the relay, and what of the run's budget a request may use.

The tokens that an answer may have are reserved before the request is sent, and settled by what the provider says it
used, so that requests at the same time can't exceed a budget together. What a request reads is known only afterwards:
a budget can be exceeded by what its last requests read. A team's monthly limits hold in the same way for all of its
runs together.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import F, Sum

from approvals.agent_runs.model_relay.providers import Used
from approvals.models import OPEN_RUNS, Action, AgentRun, ModelCall
from dashboard.database import clock
from dashboard.people.tokens import derived, sha256
from workspaces import operations, secrets
from workspaces.models import Cap, CapMeasure, Prices
from workspaces.provisioning import caps, model_access

BYTES_PER_TOKEN = 4  # of a request, roughly
LEAST_OUTPUT = 1024  # tokens; with less left, the budget is met
CACHED_SHARE = Decimal("0.1")  # of the price of tokens that are read: what a provider takes for those from its cache
MILLION = Decimal(1_000_000)
CENTS = Decimal("0.000001")
# A reservation older than this is ignored: web was killed before it could settle the call.
LONGEST_CALL = timedelta(hours=1)


class NotGiven(Exception):
    """The request is refused with this HTTP status and this message."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Given:
    """What a run may use: its id, the environment's models of one provider, and the key."""

    run_id: object
    models: dict
    key: str  # "" for a trial, whose model is scripted
    is_trial: bool = False


def token_of(run: AgentRun) -> str:
    """Return the run's token for the relay: it can be derived again, and is stored as a digest."""
    return derived(f"agent-run:{run.pk}")


def is_known(token: str) -> bool:
    return AgentRun.objects.filter(token_sha256=sha256(token), state__in=OPEN_RUNS).exists()


def given_to(token: str, provider: str, model: str | None = None) -> Given:
    """Return what the holder of a token may use. Raise NotGiven."""
    rows = AgentRun.objects.select_related("workspace__environment", "trial")
    run = rows.filter(token_sha256=sha256(token), state__in=OPEN_RUNS).first() if token else None
    if run is None:
        raise NotGiven(401, "This is not the token of a run that works now.")
    if operations.is_stopped(run.team_id):
        raise NotGiven(403, "Everything of this team is stopped by a person.")
    if run.turns.filter(end="", asked_to_end_at__isnull=False).exists():
        raise NotGiven(403, "A person has ended this turn. Stop here.")  # a program may go on for a while after SIGTERM
    environment = run.workspace.environment
    access = environment.model_access.get(provider)
    if access is None:
        raise NotGiven(403, f"The environment {environment.name} gives no models of {provider}.")
    if model is not None and not model_access.allows(environment.model_access, provider, model):
        raise NotGiven(403, f"The environment {environment.name} does not give the model {model[:100]}.")
    if run.is_trial:
        return Given(run.pk, access, "", is_trial=True)
    key = secrets.for_models(run.team_id, access["secret"])
    if not key:
        raise NotGiven(403, f"The secret {access['secret']}, given to Handrail for models, is not set.")
    return Given(run.pk, access, key)


def reserve(run_id, provider: str, model: str, *, size: int, output: int) -> tuple[ModelCall, int]:
    """Reserve what a request of `size` bytes with up to `output` tokens may use; return the call and its output limit.

    The limit is lower than `output` if the budget has no more. Raise NotGiven once the budget is met.
    """
    with transaction.atomic():
        run = AgentRun.objects.locked().get(pk=run_id)
        if not run.is_open:
            raise NotGiven(401, "This run has ended.")
        prices, read = _prices_of(run), size // BYTES_PER_TOKEN + 1
        of_team = caps.remaining_for_agents(run.team_id)
        met, cap = run.budget_met or _met(run, prices, read), None
        if not met and (cap := _met_limit(of_team, prices, read)):
            met = limit_in_words(cap)
        limit = 0 if met else min(output, _affordable(run, prices, read), _affordable_for_team(of_team, prices, read))
        if not met:
            call = ModelCall.objects.create(
                run=run,
                provider=provider,
                model=model[:100],
                reserved_tokens=limit,
                reserved_cost=_cost(prices, 0, read, limit),
                at=clock.now(),
            )
            return call, limit
        noted = {"budget_met": met, "met_limit": cap.measure if cap else "", "changed_at": clock.now()}
        AgentRun.objects.filter(pk=run.pk, budget_met="").update(**noted)
    raise NotGiven(403, f"A budget is met ({met}). A person is asked for more. Stop here.")


def _met(run: AgentRun, prices: Prices, read: int) -> str:
    """Return which budget does not allow the request, "" if all do."""
    if minutes_are_over(run):
        return f"{run.budget_minutes:,} minutes"
    tokens, cost = _open_reservations(run)
    if run.budget_tokens is not None and _tokens_left(run, tokens) < LEAST_OUTPUT:
        return f"{run.budget_tokens:,} tokens"
    if run.budget_cost is not None and run.cost + cost + _cost(prices, 0, read, LEAST_OUTPUT) > run.budget_cost:
        return f"{run.budget_cost.normalize():f} {prices.currency}"
    return ""


def _met_limit(of_team: list[tuple[Cap, float]], prices: Prices, read: int) -> Cap | None:
    """Return the team's limit that does not allow the request, None if all do."""
    for cap, remaining in of_team:
        needs = LEAST_OUTPUT if cap.measure == CapMeasure.AGENT_TOKENS else _cost(prices, 0, read, LEAST_OUTPUT) * 100
        if remaining < max(1, needs):
            return cap
    return None


def limit_in_words(cap: Cap) -> str:
    return f"the team's monthly limit of {caps.in_words(cap)}"


def _affordable_for_team(of_team: list[tuple[Cap, float]], prices: Prices, read: int) -> int:
    """Return how many tokens the answer may have under the team's limits."""
    most = [1 << 40]
    for cap, remaining in of_team:
        if cap.measure == CapMeasure.AGENT_TOKENS:
            most.append(int(remaining))
        elif prices.output_mtok:
            money = Decimal(remaining) / 100 - _cost(prices, 0, read, 0)
            most.append(int(money * MILLION / prices.output_mtok))
    return max(LEAST_OUTPUT, min(most))


def used_by_agents(team_id, since) -> tuple[int, Decimal]:
    """Return (tokens, cost) that the team's calls have used or reserved since then."""
    calls = ModelCall.objects.filter(run__team=team_id, at__gte=since)
    settled = calls.filter(settled_at__isnull=False)
    found = settled.aggregate(tokens=Sum(F("tokens_in") + F("tokens_out")), cost=Sum("cost"))
    tokens, cost = _reserved(calls)
    return (found["tokens"] or 0) + tokens, (found["cost"] or Decimal(0)) + cost


def met_limit_of(team_id) -> Cap | None:
    """Return the limit that refuses requests of the team's agents now, None if there is none. Needs a transaction."""
    prices = Prices.objects.filter(team=team_id).first() or Prices(team_id=team_id)
    return _met_limit(caps.remaining_for_agents(team_id), prices, 1)


def _tokens_left(run: AgentRun, reserved: int) -> int:
    return run.budget_tokens - run.tokens_in - run.tokens_out - reserved


def minutes_are_over(run: AgentRun) -> bool:
    """Return whether the run has worked for its minutes; time in which its calls waited for people does not count."""
    if run.budget_minutes is None or run.budget_from is None:
        return False
    now, limit = clock.now(), timedelta(minutes=run.budget_minutes)
    return now - run.budget_from >= limit and now - run.budget_from - _waited(run, now) >= limit


def _waited(run: AgentRun, now) -> timedelta:
    """Return for how long some call of the run's session waited since its minutes began."""
    rows = Action.objects.filter(agent=run.agent_id, workspace=run.workspace_id, session=run.native_id)
    spans = rows.filter(created_at__gte=run.budget_from).order_by("created_at")
    waited, reached = timedelta(0), run.budget_from
    for began, decided, ended in spans.values_list("created_at", "decided_at", "ended_at"):
        until = decided or ended or now
        waited += max(timedelta(0), until - max(began, reached))  # calls may have waited at the same time
        reached = max(reached, until)
    return waited


def _affordable(run: AgentRun, prices: Prices, read: int) -> int:
    """Return how many tokens the answer may have. Most of what is read comes from the cache, which costs little."""
    tokens, cost = _open_reservations(run)
    most = [1 << 40]
    if run.budget_tokens is not None:
        most.append(_tokens_left(run, tokens))
    if run.budget_cost is not None and prices.output_mtok:
        left = run.budget_cost - run.cost - cost - _cost(prices, 0, read, 0)
        most.append(int(left * MILLION / prices.output_mtok))
    return max(LEAST_OUTPUT, min(most))


def _open_reservations(run: AgentRun) -> tuple[int, Decimal]:
    return _reserved(run.model_calls)


def _reserved(calls) -> tuple[int, Decimal]:
    rows = calls.filter(settled_at=None, at__gt=clock.now() - LONGEST_CALL)
    found = rows.aggregate(tokens=Sum("reserved_tokens"), cost=Sum("reserved_cost"))
    return found["tokens"] or 0, found["cost"] or Decimal(0)


def _prices_of(run: AgentRun) -> Prices:
    return Prices.objects.filter(team=run.team_id).first() or Prices(team_id=run.team_id)


def _cost(prices: Prices, read: int, cached: int, written: int) -> Decimal:
    reading, writing = Decimal(prices.input_mtok), Decimal(prices.output_mtok)
    cost = (read * reading + cached * reading * CACHED_SHARE + written * writing) / MILLION
    return cost.quantize(CENTS)


def settle(call: ModelCall, status: int | None, used: Used | None):
    """Replace the reservation by what the call used.

    `used` is None if the provider did not say: then a call that was answered counts as it was reserved, and one that
    was refused counts nothing.
    """
    answered = status is None or status < 400
    with transaction.atomic():
        run = AgentRun.objects.locked().get(pk=call.run_id)
        if used is None and answered:
            told = {"tokens_out": call.reserved_tokens, "cost": call.reserved_cost, "is_estimate": True}
        else:
            used = used or Used()
            cost = _cost(_prices_of(run), used.tokens_in, used.tokens_cached, used.tokens_out)
            told = {"tokens_in": used.tokens_in, "tokens_cached": used.tokens_cached, "tokens_out": used.tokens_out}
            told["cost"] = cost
        open_one = ModelCall.objects.filter(pk=call.pk, settled_at=None)
        if not open_one.update(status=status, settled_at=clock.now(), **told):
            return
        names = ("tokens_in", "tokens_out", "tokens_cached", "cost")
        AgentRun.objects.filter(pk=run.pk).update(**{name: F(name) + told[name] for name in names if name in told})


def settle_abandoned(run: AgentRun):
    """Settle the run's open calls: its program has ended, so that no response is read any more."""
    for call in run.model_calls.filter(settled_at=None):
        settle(call, None, None)
