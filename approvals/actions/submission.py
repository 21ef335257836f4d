"""Submit a call: judge it, store it as an action, and apply the verdict of the policy or a grant."""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import product

from django.conf import settings
from django.db import transaction
from django.db.models import Case, CharField, DateTimeField, Exists, F, OuterRef, Q, UUIDField, Value, When

from approvals.actions import (
    asked_again,
    asked_by_run,
    bound_files,
    declared_undo,
    escalation,
    grants,
    interrupts,
    mcp_tools,
    rehearsals,
    secret_reads,
    way_back_search,
)
from approvals.actions.asked_snapshots import asking
from approvals.actions.bound_files import Bound
from approvals.actions.emergency_stop import STOPPED
from approvals.actions.expiry import end_if_due
from approvals.actions.transitions import (
    LIVE,
    actor_without_people,
    add_revision,
    carry_out,
    consume_by,
    needs_snapshot,
    policy_label,
    record_each,
)
from approvals.evaluation import policies, tool_schemas
from approvals.evaluation.calls import GATE, Call, sha256
from approvals.evaluation.judge import PolicyResult, can_be_held, content, judge_or_ask, remember, with_all
from approvals.models import OPEN_RUNS, Action, AgentRun, Interrupt, Status, Tier
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.retries import retried
from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict, invalid, not_allowed
from dashboard.workers.failpoints import failpoint
from workspaces.lifecycle import activity, agents_at_work
from workspaces.secrets.masking import masked

# A call that Handrail carries out in place of its agent, since a person approved what a rehearsal of it left.
APPLIED = Q(status__in=[Status.RUNNING, Status.SUCCEEDED, Status.FAILED], mode=GATE, operation__isnull=False)
# An end that the agent has not heard of: it is returned when the same call is submitted again.
UNHEARD = Q(status__in=[Status.DENIED, Status.EXPIRED]) | APPLIED
UNHEARD &= Q(agent_seen_at=None) | Q(ended_at=None) | Q(agent_seen_at__lt=F("ended_at"))
# How long after the answer another hook of the same event may submit; one that lost its connection retries within 5 s.
SAME_EVENT = timedelta(seconds=8)
MAX_EARLIER = 20  # calls with refusals that are compared with one that asks to run without an envelope
MAX_EXPIRY_SECONDS = 7 * 24 * 3600
STARTED_AGENT_EXPIRY = 24 * 3600
ASKED_OVER_THE_API = "Needs approval: the agent asked Handrail to change this file, which it may not change by itself."


@retried
def submit(call: Call, *, caller, runs: bool = False) -> tuple[Action, bool]:
    """Submit a call; return (action, whether it is new).

    The existing action is returned for the same idempotency key, and for the same call of the same session while it is
    live or the agent has not heard its answer. `runs`: the agent runs the call as soon as it hears that it is allowed,
    so an allowed one that needs no snapshot is used in the same transaction.

    Problem 403, 409 (stopped, interrupted, another agent at work), 422, 429 (too many pending).
    """
    failpoint("K0")
    _check_submitter(caller)
    standing = _standing(call, caller.agent)
    expires_in = _expiry_of(call, standing)
    if call.workspace:
        agents_at_work.enter(call.workspace, caller)
        activity.touch(call.workspace)
    if known := _known(call, caller, standing):
        return known, False
    call.canonical()  # raises Problem 422 before any other work
    own_questions.check_new(call.tool, call.arguments)
    found = _verdict(call, caller.agent)
    bound = bound_files.bind(call.tool, call.arguments, call.cwd, call.workspace, found)
    bound = mcp_tools.bound_with(call, bound)
    grant = grants.find(call, found, caller.agent, bound)
    reading = secret_reads.find(call, found, caller.agent)
    failpoint("K2")
    with transaction.atomic():
        # The turn makes this check for the same call, the stop, the limits and the new number atomic.
        Team.objects.take_turn(caller.agent.team_id)
        standing = _standing(call, caller.agent)
        known = _same_key(call, caller.agent) or (_same_call(call, caller.agent) if standing.has_same else None)
        if known is None:
            _refuse_if_ended_by_a_person(call, caller, standing)
            grant = grant if grant and grants.use(grant) else None
            found = secret_reads.widen(found, reading, call.workspace)
            action = _insert(call, bound, found, caller, standing, expires_in, grant, runs=runs)
    if known:
        return end_if_due(known), False
    failpoint("K1")
    failpoint("K3")
    return action, True


@dataclass(frozen=True)
class _Standing:
    """What one query says of a call's team and agent; what may hold of the call itself is looked at further."""

    stopped_at: datetime | None
    last_number: int  # of the team's actions
    is_interrupted: bool  # the agent, or a session of it
    is_asked_to_end: bool  # a turn of the agent, if it was started by Handrail
    is_started: bool  # a run of a started agent is open in the workspace
    has_same: bool  # an earlier action of the same call and session


def _standing(call: Call, agent) -> _Standing:
    found = _QUERIES[call.workspace is not None, bool(call.session)].rows(
        team=agent.team_id,
        agent=agent.pk,
        workspace=call.workspace and call.workspace.pk,
        session=call.session,
        call_hash=call.hash_for(agent) if call.session else "",
        now=clock.now(),
    )
    found = _Standing(*found[0])
    return replace(found, last_number=found.last_number or 0)


def _standing_query(has_workspace: bool, has_session: bool):
    team, agent, workspace = (Slot(name, UUIDField()) for name in ("team", "agent", "workspace"))
    same = {name: Slot(name, CharField()) for name in ("session", "call_hash")}
    runs = AgentRun.objects.filter(workspace=workspace, state__in=OPEN_RUNS)
    found = Team.objects.annotate(
        last_number=Action.objects.filter(team=OuterRef("pk")).order_by("-number").values("number")[:1],
        is_interrupted=Exists(Interrupt.objects.active(Slot("now", DateTimeField())).filter(agent=agent)),
        is_asked_to_end=Exists(asked_by_run.ending(agent)),
        is_started=Exists(runs) if has_workspace else Value(False),
        has_same=Exists(Action.objects.filter(agent=agent, **same)) if has_session else Value(False),
    )
    return found.filter(pk=team).values_list(*(each.name for each in fields(_Standing)))


_QUERIES = {which: Prepared(partial(_standing_query, *which)) for which in product((False, True), repeat=2)}


def _refuse_if_ended_by_a_person(call: Call, caller, standing: _Standing):
    """Raise Problem 409 while all or the session is stopped, or the turn that it is in was asked to end."""
    if standing.stopped_at:
        raise conflict(STOPPED, code="stopped")
    if call.by is not None:
        return  # a person asks, who may take back what an interrupted agent did
    if standing.is_interrupted:
        interrupts.refuse_verb(caller, call.workspace.key if call.workspace else "", call.session)
    if standing.is_asked_to_end:
        asked_by_run.refuse(caller.agent, call.session)


def _check_submitter(caller):
    """Raise Problem 403 unless the caller is an agent that may submit actions."""
    if not caller.is_person and caller.agent.team_id in caller.archived:
        raise not_allowed("This team is archived. Nothing runs in it.")
    if caller.is_person or not caller.can("submit", caller.agent.team_id):
        raise not_allowed("Only agents submit actions.")


def _expiry_of(call: Call, standing: _Standing) -> int:
    """Return the seconds after which the action of this call expires. Problem 422."""
    expires_in = _default_expiry(standing) if call.expires_in_s is None else call.expires_in_s
    if not 1 <= expires_in <= MAX_EXPIRY_SECONDS:
        raise invalid(f"expires_in_s must be from 1 to {MAX_EXPIRY_SECONDS:,}.")
    return min(expires_in, call.hold_s) if call.hold_s else expires_in


def _default_expiry(standing: _Standing) -> int:
    """Return the installation's seconds; a day for what an agent that Handrail started asks, which may be at night."""
    if standing.is_started:
        return max(settings.HANDRAIL_EXPIRY_SECONDS, STARTED_AGENT_EXPIRY)
    return settings.HANDRAIL_EXPIRY_SECONDS


def _verdict(call: Call, agent):
    """Return the policy's verdict on a call; doubts and earlier refusals can add reasons or make a person decide."""
    held = call.wraps or can_be_held(call.mode, call.tool, call.workspace)
    by = {"held": held, "agent": agent.name}
    found = judge_or_ask(call.tool, call.arguments, call.cwd, call.workspace, agent.team_id, **by)
    if call.asks and found.is_allowed:
        also = found.reasons if found.needs_approval else []
        found = replace(found, tier=Tier.HIGH.value, reasons=[ASKED_OVER_THE_API, *also])
    found = asked_again.with_refused(call, found, agent) if held else found
    found = mcp_tools.with_doubts(call, found, agent.team_id)
    if found.needs_approval and (tried := refused_before(call, agent)):
        found = replace(found, reasons=[*found.reasons, f"It ran held before. Refused: {tried}."])
    return found


def _known(call: Call, caller, standing: _Standing) -> Action | None:
    known = _same_key(call, caller.agent)
    if known is None:
        _refuse_if_ended_by_a_person(call, caller, standing)
        known = _same_call(call, caller.agent) if standing.has_same else None
        known = known or declared_undo.compensation_for(call, caller.agent)
    return known and end_if_due(known)


def _same_key(call: Call, agent) -> Action | None:
    if call.idempotency_key is None:
        return None
    known = Action.objects.filter(agent=agent, idempotency_key=call.idempotency_key).first()
    # A body may name no workspace: two tokens of one agent then each refer to their own.
    if known and (known.body_hash != call.body_hash or known.workspace_id != getattr(call.workspace, "pk", None)):
        raise invalid("This Idempotency-Key was used with a different request body.", code="idempotency_conflict")
    return known


def _same_call(call: Call, agent) -> Action | None:
    mine = _of_event(call)
    first = Case(When(mine, then=1), When(LIVE, then=2), default=3)
    return of_call(call, agent).filter(mine | LIVE | UNHEARD).order_by(first, "-created_at").first()


def of_call(call: Call, agent):
    return Action.objects.filter(agent=agent, session=call.session, call_hash=call.hash_for(agent))


def unheard_approval(call: Call) -> Q:
    """Match approvals that a hook consumed for this call id and whose response never reached the agent."""
    return Q(status=Status.RUNNING, mode=GATE, call_id=call.call_id, agent_seen_at=None) & ~Q(call_id="")


def _of_event(call: Call) -> Q:
    """Match actions that already answer this event: the agent has not heard, or another of its hooks just has."""
    if not call.asked_at or not call.call_id:
        return unheard_approval(call)
    since = call.asked_at - SAME_EVENT
    yes = Q(status=Status.RUNNING, mode=GATE, consumed_at__gte=since)
    no = Q(status__in=[Status.DENIED, Status.EXPIRED], ended_at__gte=since)
    applied = APPLIED & (Q(ended_at=None) | Q(ended_at__gte=since))
    return unheard_approval(call) | (Q(call_id=call.call_id) & (yes | no | applied))


def is_approval_for(action: Action, call: Call) -> bool:
    """Return whether the action's approval was consumed for this same event of the call."""
    same = action.call_id == call.call_id != "" and action.mode == GATE and action.status == Status.RUNNING
    return same and (action.agent_seen_at is None or action.consumed_at >= call.asked_at - SAME_EVENT)


def refuse_when_stopped(team):
    """Raise Problem 409 while the team is stopped."""
    team.refresh_from_db(fields=["stopped_at"])
    if team.stopped_at:
        raise conflict(STOPPED, code="stopped")


def refused_before(call: Call, agent) -> str:
    """Return what was refused to the same command when it last ran held, for a call that asks to run without that."""
    if call.workspace is None or not call.arguments.get("dangerouslyDisableSandbox"):
        return ""
    earlier = Action.objects.filter(agent=agent, workspace=call.workspace, tool=call.tool).exclude(blocked=[])
    for action in with_all(earlier.order_by("-number"))[:MAX_EARLIER]:
        if content(action)["arguments"].get("command") == call.arguments.get("command"):
            return ", ".join(f"{entry['kind']} {entry['what']}" for entry in action.blocked)
    return ""


def _refuse_when_too_many(pending, agent):
    """Raise Problem 429 at the team's or the agent's limit of pending actions.

    The limit for each agent leaves room for the team's other agents.
    """
    if pending.count() >= settings.HANDRAIL_PENDING_LIMIT:
        raise Problem(
            429, f"The limit of {settings.HANDRAIL_PENDING_LIMIT:,} pending actions is reached. Try again later."
        )
    if pending.filter(agent=agent).count() >= settings.HANDRAIL_AGENT_PENDING_LIMIT:
        limit = f"{settings.HANDRAIL_AGENT_PENDING_LIMIT:,}"
        raise Problem(429, f"The limit of {limit} pending actions of {agent.name} is reached. Try again later.")


def _insert(
    call: Call, bound: Bound, found: PolicyResult, caller, standing: _Standing, expires_in: int, grant, *, runs: bool
) -> Action:
    agent, now, canonical = caller.agent, clock.now(), call.canonical(bound.canonical)
    if grant:
        found = replace(found, reasons=grants.reasons(grant, found))
    elif found.needs_approval:
        _refuse_when_too_many(Action.objects.filter(team=agent.team_id).pending(), agent)
    answer, told = _first_answer(call, found, grant, now, runs=runs)
    about = {"grant": grant, "number": standing.last_number + 1, "digest": sha256(canonical)}
    action = _made(call, found, agent, now, expires_at=now + timedelta(seconds=expires_in), **about, **answer)
    action.save(force_insert=True)
    revision = add_revision(action, 1, canonical, found, caller.actor, files=bound.files)
    told = [(verb, by(action), data) for verb, by, data in told]
    record_each(
        action, [("action.submitted", call.by or caller.actor, {"mode": action.mode, "tool": action.tool[:80]}), *told]
    )
    _begin(action, revision, found)
    declared_undo.note_with(action, call)
    return action


def _made(call: Call, found: PolicyResult, agent, now, **fields) -> Action:
    """Return the action of a call with these fields besides, not saved."""
    action = Action(
        team_id=agent.team_id,
        agent=agent,
        workspace=call.workspace,
        mode=call.mode,
        tool=call.tool,
        title=found.title,
        session=call.session,
        call_id=call.call_id,
        idempotency_key=call.idempotency_key,
        body_hash=call.body_hash,
        reasoning=masked(call.reasoning, call.workspace),
        tier=found.tier,
        undo=found.undo,
        rule=found.rule,
        policy=found.policy,
        policy_file=found.policy_file,
        **found.quorum_fields,
        envelope=found.envelope if found.is_allowed else None,
        tool_schema=tool_schemas.save(agent.team_id, call.schema) if call.schema else None,
        created_at=now,
        hold_until=now + timedelta(seconds=call.hold_s) if call.hold_s else None,
        **fields,
    )
    action.call_hash = call.hash_for(agent) if call.session else sha256(str(action.pk).encode())
    return action


def _begin(action: Action, revision, found: PolicyResult):
    """Start what the first answer asks for: run it, or have the workspace snapshotted and the call rehearsed."""
    if action.status == Status.RUNNING:
        remember(action, revision)
    elif action.status == Status.APPROVED:
        carry_out(action)
    elif action.status == Status.PENDING:
        asking.request_snapshot(action)
        way_back_search.request(action, revision)
        if policies.rehearses(found.policy, action.tier):
            rehearsals.start_by_rule(action, by=_policy(action))


def _policy(action: Action) -> Actor:
    return Actor.system(policy_label(action))


def _first_answer(call: Call, found: PolicyResult, grant, now, *, runs: bool) -> tuple[dict, list]:
    """Return what the verdict of the policy or a grant makes of a new action: (fields, [(verb, whose, data)]).

    `runs`: an allowed call is used at once, if it needs no snapshot. Nobody has read of that yet.
    """
    if found.is_allowed or grant:
        answer = {"status": Status.APPROVED, "decided_at": now, "consume_by": consume_by(now)}
        told = [("action.allowed", _policy, None)]
        if runs and call.mode == GATE and not needs_snapshot(found.tier, call.tool, call.workspace):
            answer |= {"status": Status.RUNNING, "consumed_at": now}
            told.append(("action.consumed", actor_without_people, None))
        return answer, told
    if found.tier == Tier.FORBIDDEN:
        return {"status": Status.DENIED, "decided_at": now, "ended_at": now}, [("action.denied", _policy, None)]
    fields = escalation.fields_of(found.escalations.get(found.tier), now)
    return fields, [("action.waiting", _policy, {"undo": found.undo, "quorum": found.takes.people})]
