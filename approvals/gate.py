"""The gate: submit, decide, consume, outcome, cancel. Every way in and every way out comes through here.

Nothing is acknowledged before its event is committed; whatever is unclear is not allowed.
"""

from dataclasses import replace
from datetime import timedelta

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, Q

from approvals import grants, policies
from approvals.calls import BROKER, Call, sha256
from approvals.endings import STOPPED, end_if_due, lift_stop, stop_everything, sweep
from approvals.models import Action, Status, Tier
from approvals.moves import add_revision, approve, lost, move, policy_label, tell
from approvals.reading import Reading, Unjudged, judge_again, judge_or_ask, with_all
from approvals.votes import decide, extend
from dashboard import clock
from dashboard.failpoints import failpoint
from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict, invalid, not_allowed, not_found, unavailable
from workspaces import activity, effects, lifecycle
from workspaces.models import Snapshot

__all__ = [
    "cancel",
    "consume",
    "decide",
    "extend",
    "find",
    "heard",
    "is_answered",
    "lift_stop",
    "outcome",
    "settle",
    "stop_everything",
    "submit",
    "sweep",
]

LIVE = Q(status=Status.PENDING) | Q(status=Status.APPROVED, consumed_at=None)
# An answer that came while nobody listened is kept for the next time the same call is made.
UNHEARD = Q(status__in=[Status.DENIED, Status.EXPIRED]) & (Q(agent_seen_at=None) | Q(agent_seen_at__lt=F("ended_at")))
SAVED_FIRST = (Tier.MEDIUM, Tier.HIGH, Tier.CRITICAL)
SNAPSHOT_SECONDS = 60
LONGEST_WAIT = 7 * 24 * 3600
NOTE = 2000


# In ------------------------------------------------------------------------------------------------------------------


def submit(call: Call, *, caller) -> tuple[Action, bool]:
    """What the call comes to: (action, True when it is new).

    The same idempotency key, or the same call of the same session while it waits or its answer was not heard yet, is
    the action that exists. Problem 403, 409 (stopped), 422, 429 (too many wait).
    """
    failpoint("K0")
    if caller.is_person or not caller.can("submit", caller.agent.team_id):
        raise not_allowed("Asking is what agents do; a person needs nobody's leave here.")
    expires_in = settings.HANDRAIL_EXPIRY_SECONDS if call.expires_in_s is None else call.expires_in_s
    if not 1 <= expires_in <= LONGEST_WAIT:
        raise invalid(f"expires_in_s must be from 1 to {LONGEST_WAIT:,}.")
    if call.workspace:
        activity.touch(call.workspace)
    if known := _known(call, caller.agent):
        return known, False
    canonical = call.canonical
    found = judge_or_ask(call.tool, call.arguments, call.cwd, call.workspace, caller.agent.team_id, call.mcp_server)
    grant = grants.find(call, found, caller.agent)
    failpoint("K2")
    with transaction.atomic():
        # The lock makes numbers, the limit, the stop and "the same call" one decision.
        team = Team.objects.select_for_update().get(pk=caller.agent.team_id)
        known = _same_key(call, caller.agent) or _same_call(call, caller.agent)
        if known is None:
            _refuse_when_stopped(team)
            grant = grant if grant and grants.use(grant) else None
            action = _insert(call, canonical, found, caller, team, expires_in, grant)
    if known:
        return end_if_due(known), False
    failpoint("K1")
    failpoint("K3")
    return action, True


def _known(call: Call, agent) -> Action | None:
    known = _same_key(call, agent)
    if known is None:
        _refuse_when_stopped(agent.team)
        known = _same_call(call, agent)
    return known and end_if_due(known)


def _same_key(call: Call, agent) -> Action | None:
    if call.idempotency_key is None:
        return None
    known = Action.objects.filter(agent=agent, idempotency_key=call.idempotency_key).first()
    if known and known.body_hash != call.body_hash:
        raise invalid("This Idempotency-Key was used for another body.", code="idempotency_conflict")
    return known


def _same_call(call: Call, agent) -> Action | None:
    if not call.session:
        return None
    same = Action.objects.filter(agent=agent, session=call.session, call_hash=call.hash_for(agent))
    return same.filter(LIVE).first() or same.filter(UNHEARD).order_by("-created_at").first()


def _refuse_when_stopped(team):
    team.refresh_from_db(fields=["stopped_at"])
    if team.stopped_at:
        raise conflict(STOPPED, code="stopped")


def _insert(call: Call, canonical: bytes, found: Reading, caller, team, expires_in: int, grant) -> Action:
    agent, now = caller.agent, clock.now()
    mine = Action.objects.filter(team=team)
    if grant:
        found = replace(found, reasons=[grants.words(grant), *found.reasons])
    elif found.waits and mine.pending().count() >= settings.HANDRAIL_PENDING_LIMIT:
        raise Problem(429, f"{settings.HANDRAIL_PENDING_LIMIT:,} actions wait for a person already. Ask again later.")
    action = Action(
        team=team,
        number=(mine.aggregate(last=Max("number"))["last"] or 0) + 1,
        agent=agent,
        workspace=call.workspace,
        mode=call.mode,
        tool=call.tool,
        title=found.title,
        session=call.session,
        call_id=call.call_id,
        idempotency_key=call.idempotency_key,
        body_hash=call.body_hash,
        reasoning=call.reasoning,
        tier=found.tier,
        undo=found.undo,
        digest=sha256(canonical),
        policy=found.policy,
        grant=grant,
        quorum=found.quorum,
        created_at=now,
        expires_at=now + timedelta(seconds=expires_in),
    )
    action.call_hash = call.hash_for(agent) if call.session else sha256(str(action.pk).encode())
    action.save(force_insert=True)
    add_revision(action, 1, canonical, found, caller.actor)
    tell(action, "action.submitted", caller.actor, {"mode": action.mode, "tool": action.tool[:80]})
    _first_answer(action, found, now)
    return action


def _first_answer(action: Action, found: Reading, now):
    """What the policy or a grant says by itself: allowed, forbidden, or a person is asked."""
    pending = Q(status=Status.PENDING, digest=action.digest)
    by = Actor.system(policy_label(action))
    if found.is_allowed or action.grant:
        approve(action, verb="action.allowed", by=by, when=pending)
    elif found.tier == Tier.FORBIDDEN:
        move(action, Status.DENIED, verb="action.denied", by=by, when=pending, decided_at=now, ended_at=now)
    else:
        tell(action, "action.waiting", by, {"undo": action.undo, "quorum": action.quorum})


# Found again ---------------------------------------------------------------------------------------------------------


def find(pk, *, caller) -> Action:
    """The action as it is now, if the caller may see it; Problem 404."""
    action = with_all(Action.objects.visible_to(caller)).filter(pk=pk).first()
    if action is None:
        raise not_found("action")
    return end_if_due(action)


def is_answered(action: Action) -> bool:
    """Nothing to wait for: decided, and in broker mode over."""
    waits = (Status.PENDING, Status.APPROVED, Status.RUNNING) if action.mode == BROKER else (Status.PENDING,)
    return action.status not in waits


def heard(action: Action):
    """Note that the agent was told how its action stands; what changed since it was read stays unheard."""
    failpoint("K9")
    now = clock.now()
    if Action.objects.filter(pk=action.pk, status=action.status).update(agent_seen_at=now):
        action.agent_seen_at = now


# Out -----------------------------------------------------------------------------------------------------------------


async def consume(pk, *, digest: str, caller, call_id: str = "") -> Action:
    """Use an approval, once: afterwards the agent runs exactly the current revision's bytes.

    In a workspace of ours a snapshot comes first, and without it nothing is allowed. Problem 409 with code
    already_consumed, not_approved, expired, digest_mismatch, revoked; 503 (snapshot_failed), the approval is kept.
    """
    action, effect = await sync_to_async(_ready)(pk, digest, caller)
    snapshot = await _saved(effect)
    action = await sync_to_async(_take)(action, digest, caller, call_id, snapshot)
    failpoint("K9")
    return action


def _ready(pk, digest: str, caller):
    action = find(pk, caller=caller)
    if caller.is_person:
        raise not_allowed("The agent that asked collects the answer.")
    if action.mode == BROKER:
        raise conflict("The runner carries this action out; there is nothing to collect.", code="brokered")
    check_consumable(action, digest)
    if action.workspace is None or action.tier not in SAVED_FIRST:
        return action, None
    return action, lifecycle.snapshot(action.workspace, by=caller.actor, kind="action", label=before(action))


def before(action: Action) -> str:
    return f"before A-{action.number}"


def check_consumable(action: Action, digest: str):
    """Problem 409 unless this approval may be used now for these bytes, by the policy in force as well."""
    if action.consumed_at:
        raise conflict("This approval was used already.", code="already_consumed", action_status=action.status)
    if action.status == Status.EXPIRED:
        raise conflict("This has expired.", code="expired", action_status=action.status)
    if action.status != Status.APPROVED:
        raise conflict(f"This is {action.status}, not approved.", code="not_approved", action_status=action.status)
    if action.digest != digest:
        raise conflict("The approval is for other bytes.", code="digest_mismatch", digest=action.digest)
    _refuse_when_stopped(action.team)
    _check_policy_again(action)


def _check_policy_again(action: Action):
    """A policy that changed after the answer: what it forbids, or wants more people for than have said yes, is revoked.

    What a person approved otherwise stays approved, also where the new policy would have asked.
    """
    environment = action.workspace.environment if action.workspace else None
    if policies.active(action.team_id, environment).pk == action.policy_id:
        return
    try:
        found = judge_again(action)
    except Unjudged as error:
        raise unavailable(
            f"The policy cannot be asked ({error}), so nothing is allowed. The approval is kept."
        ) from None
    if found.is_allowed:
        return
    yes = Q(verdict="approve", revision__number=action.revision) | Q(final=True)
    given = action.decisions.filter(yes).values("user").distinct().count()
    if found.tier != Tier.FORBIDDEN and given >= found.quorum:
        return
    note = f"Policy {found.policy.number} came after the answer and does not allow this any more."
    by = Actor.system(f"policy {found.policy.number}")
    if withdraw(action, by, note, why="revoked"):
        raise conflict(f"{note} Ask again.", code="revoked", action_status=action.status)
    raise lost(action)


async def _saved(effect) -> Snapshot | None:
    if effect is None:
        return None
    effect = await effects.settled(effect, SNAPSHOT_SECONDS)
    outcome = effect.outcome or {"reason": "the runner did not answer in time"}
    if not outcome.get("ok"):
        raise unavailable(
            f"The files could not be saved first ({outcome.get('reason')}), so nothing is allowed. "
            "The approval is kept.",
            code="snapshot_failed",
        )
    return await Snapshot.objects.aget(workspace=effect.workspace_id, number=outcome["snapshot"])


def _take(action: Action, digest: str, caller, call_id: str, snapshot) -> Action:
    if not take(action, digest, by=caller.actor, snapshot=snapshot, call_id=call_id or action.call_id):
        action.refresh_from_db()
        check_consumable(end_if_due(action), digest)
        raise lost(action)
    return action


def take(action: Action, digest: str, *, by: Actor, snapshot=None, **fields) -> bool:
    """Approved becomes running, once, for these bytes; False for whoever comes second or late."""
    now = clock.now()
    going = Team.objects.filter(stopped_at=None)
    when = Q(status=Status.APPROVED, digest=digest, consumed_at=None, consume_by__gt=now, team__in=going)
    fields |= {"consumed_at": now, "agent_seen_at": now, "snapshot_before": snapshot}
    data = {"snapshot": snapshot.number} if snapshot else {}
    return move(action, Status.RUNNING, verb="action.consumed", by=by, when=when, data=data, **fields)


def outcome(action: Action, status: str, *, caller, note: str = "") -> Action:
    """How it ended, as the agent that ran it says. The same answer twice is one answer."""
    if caller.is_person:
        return settle(action, status, caller=caller, note=note)
    if action.workspace:
        activity.touch(action.workspace)
    if action.mode == BROKER:
        raise conflict("The runner carries this action out and says how it ended.", code="brokered")
    return _end(action, status, note, caller, when=Q(status=Status.RUNNING))


def settle(action: Action, status: str, *, caller, note: str = "") -> Action:
    """A person says how an unclear action ended."""
    if not caller.can("settle_unclear", action.team_id):
        raise not_allowed("A reviewer settles what is unclear.")
    return _end(action, status, note, caller, when=Q(status=Status.UNCERTAIN))


def _end(action: Action, status: str, note: str, caller, *, when: Q) -> Action:
    if status not in (Status.SUCCEEDED, Status.FAILED):
        raise invalid("An outcome is succeeded or failed.")
    if len(note) > NOTE:
        raise invalid(f"A note has at most {NOTE:,} characters.")
    result = (action.result or {}) | {"note": note, "by": caller.actor.label}
    verb = f"action.{status}"
    if move(action, status, verb=verb, by=caller.actor, when=when, ended_at=clock.now(), result=result):
        return action
    action.refresh_from_db()
    if action.status == status:
        return action
    raise conflict(
        f"This is {action.status}; that outcome does not fit.", code="outcome_conflict", action_status=action.status
    )


def cancel(action: Action, *, caller) -> Action:
    """Withdraw what waits, or an approval that was not used: the agent its own, a reviewer any."""
    if caller.is_person and not caller.can("decide", action.team_id):
        raise not_allowed("A reviewer may take an action back.")
    if action.status == Status.CANCELLED:
        return action
    note = "Taken back by a person." if caller.is_person else "The agent took this back."
    if withdraw(action, caller.actor, note, why="withdrawn"):
        return action
    action.refresh_from_db()
    raise lost(action)


def withdraw(action: Action, by: Actor, note: str, *, why: str) -> bool:
    result = {"by": by.label, "note": note}
    data = {"why": why}
    return move(
        action,
        Status.CANCELLED,
        verb="action.cancelled",
        by=by,
        when=LIVE,
        data=data,
        ended_at=clock.now(),
        result=result,
    )
