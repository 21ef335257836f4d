"""The gate: its entry points to submit, decide, consume, report and cancel actions.

No change is acknowledged before its event is committed, and no call is allowed while its state is unclear.
"""

from functools import cache

from asgiref.sync import sync_to_async
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, UUIDField
from django.utils.text import Truncator

from approvals.actions import asked_by_run, bound_files, interrupts, questions_to_agents, quorum
from approvals.actions.decisions import decide, extend, may_take_back, take_back, those_to_take_back
from approvals.actions.emergency_stop import lift_stop, stop_everything
from approvals.actions.expiry import end_if_due, mark_uncertain, sweep
from approvals.actions.submission import (
    is_approval_for,
    of_call,
    refuse_when_stopped,
    submit,
    unheard_approval,
)
from approvals.actions.transitions import actor_of, answer_conflict, move, needs_snapshot, withdraw
from approvals.evaluation import policies, policy_files
from approvals.evaluation.calls import GATE, Call
from approvals.evaluation.judge import PolicyUnavailable, judge_again, with_all
from approvals.models import Action, ActionEndCode, ActionMessage, ModelUsage, Status, Tier
from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Actor, Team
from dashboard.people.access import CallerSlots
from dashboard.problems import conflict, invalid, not_allowed, not_found, unavailable
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, operations
from workspaces.lifecycle import activity, agents_at_work
from workspaces.models import Snapshot, Workspace
from workspaces.secrets.masking import masked

__all__ = [
    "abandon",
    "cancel",
    "consume",
    "decide",
    "extend",
    "find",
    "go_on",
    "is_answered",
    "is_approval_for",
    "lift_stop",
    "mark_end_heard",
    "mark_heard",
    "may_take_back",
    "outcome",
    "refuse_when_stopped",
    "report",
    "settle",
    "stop_everything",
    "submit",
    "sweep",
    "take_back",
    "those_to_take_back",
]

SNAPSHOT_TIMEOUT = 60
MAX_NOTE = 2000


# Lookup --------------------------------------------------------------------------------------------------------------


def find(pk, *, caller) -> Action:
    """Return the action as it is now. Problem 404 if the caller may not see it."""
    try:
        found = find_all([pk], caller=caller)
    except ValidationError:
        found = {}
    if not found:
        raise not_found("action")
    return next(iter(found.values()))


@cache
def _with_all(slots: CallerSlots) -> Prepared:
    """Return the query of an action with all that belongs to it, for all callers who differ in values alone."""
    visible = with_all(Action.objects.visible_to(slots.caller()))
    return Prepared(lambda: visible.filter(pk=Slot("pk", UUIDField())), slots.marks)


def find_all(pks, *, caller) -> dict:
    """Return {pk: the action as it is now} of those that the caller may see."""
    if len(pks) == 1:
        found = _with_all(CallerSlots.of(caller)).rows(pk=next(iter(pks)), **CallerSlots.values(caller))
    else:
        found = with_all(Action.objects.visible_to(caller)).filter(pk__in=pks)
    return {action.pk: end_if_due(action) for action in found}


def is_answered(action: Action) -> bool:
    """Return whether there is nothing to wait for: it is decided, or over if Handrail carries it out."""
    waits = (Status.PENDING, Status.APPROVED, Status.RUNNING) if action.is_carried_out else (Status.PENDING,)
    return action.status not in waits


def mark_heard(action: Action):
    """Record that the agent has read the action's status and the question about it that `action` was loaded with.

    A status that has changed since then is not recorded as read.
    """
    failpoint("K9")
    now = clock.now()
    if questions_to_agents.is_unheard(action):
        ActionMessage.objects.filter(pk=action.open_question_id, heard_at=None).update(heard_at=now)
    if Action.objects.filter(pk=action.pk, status=action.status).update(agent_seen_at=now):
        action.agent_seen_at = now


def mark_end_heard(action: Action, caller):
    """Record that an agent has heard how its action ended, and of the interrupt that ended it; nothing for a person."""
    if caller.is_person or action.ended_at is None:
        return
    if action.agent_seen_at is None or action.agent_seen_at < action.ended_at:
        mark_heard(action)
        if action.end_code == ActionEndCode.INTERRUPTED:
            interrupts.mark_heard(action.agent, action.session, by=caller.actor)


# Consume, report, cancel ---------------------------------------------------------------------------------------------


async def consume(pk, *, digest: str, caller, **noted) -> Action:
    """Consume an approval, once; the agent may then run exactly the current revision's bytes.

    In a workspace a snapshot is taken first, unless the tier is low, and then the bound files are read again. `noted`
    are further fields to store. Problem 409 with code already_consumed, not_approved, expired, digest_mismatch,
    revoked, changed, not_bound or agent_at_work; 503 (snapshot_failed, unchecked) keeps the approval.
    """
    action, operation = await sync_to_async(_ready)(pk, digest, caller)
    snapshot = await _snapshot_taken(operation)
    await sync_to_async(bound_files.verify)(action)
    action = await sync_to_async(_mark_running)(action, digest, caller, snapshot, noted)
    failpoint("K9")
    return action


def _ready(pk, digest: str, caller):
    action = find(pk, caller=caller)
    if caller.is_person:
        raise not_allowed("Only the agent that submitted this action can use its approval.")
    if action.is_carried_out:
        raise conflict("The runner carries out this action; its approval can't be consumed.", code="brokered")
    check_consumable(action, digest)
    interrupts.refuse_verb(caller, action.workspace.key if action.workspace else "", action.session)
    asked_by_run.refuse(action.agent, action.session)
    if action.workspace:
        _refuse_if_unbound(action.workspace, caller)
        agents_at_work.enter(action.workspace, caller)
    if not needs_snapshot(action.tier, action.tool, action.workspace):
        return action, None
    label = snapshot_label(action)
    return action, lifecycle.snapshot(action.workspace, by=actor_of(action), kind="action", label=label)


def go_on(pk, *, caller) -> Action:
    """Return a running action whose call may be taken up again, such as with its user's answer to the tool.

    Problem 409 with code stopped, interrupted, not_bound, brokered or not_running.
    """
    action = find(pk, caller=caller)
    if caller.is_person:
        raise not_allowed("Only the agent that submitted this action can go on with its call.")
    refuse_when_stopped(action.team)
    interrupts.refuse_verb(caller, action.workspace.key if action.workspace else "", action.session)
    asked_by_run.refuse(action.agent, action.session)
    if action.workspace:
        _refuse_if_unbound(action.workspace, caller)
    if action.is_carried_out:
        raise conflict("The runner carries out this action; no call of its agent goes on with it.", code="brokered")
    if action.status != Status.RUNNING:
        said = f"The approval of A-{action.number} was used already ({action.status}). It is not used twice."
        raise conflict(said, code="not_running", action_status=action.status)
    return action


def _refuse_if_unbound(workspace, caller):
    """Raise Problem 409 if the agent may not work in the workspace any more: it was unbound after it had asked."""
    if not Workspace.objects.visible_to(caller).filter(pk=workspace.pk).exists():
        raise conflict(f"{caller.agent.name} may no longer work in {workspace.key}.", code="not_bound")


def snapshot_label(action: Action) -> str:
    """Return the label of the snapshot that is taken before the action."""
    return Truncator(f"before A-{action.number} ({action.title}").chars(119) + ")"


def check_consumable(action: Action, digest: str):
    """Raise Problem 409 unless the approval may be used now for these bytes, also under the active policy."""
    if action.consumed_at:
        raise conflict("This approval was already used.", code="already_consumed", action_status=action.status)
    if action.status == Status.EXPIRED:
        raise conflict("This action has expired.", code="expired", action_status=action.status)
    if action.status != Status.APPROVED:
        raise conflict(
            f"This action is {action.status}, not approved.", code="not_approved", action_status=action.status
        )
    if action.digest != digest:
        raise conflict(
            "The approval is for a different version of this call.", code="digest_mismatch", digest=action.digest
        )
    refuse_when_stopped(action.team)
    _check_policy_again(action)


def _check_policy_again(action: Action):
    """Revoke the approval if the policy forbids the call now, or takes more approvals than it has.

    It may have changed since, or its hours have. What a person approved otherwise stays approved, also if the new
    policy would have asked. Problem 409 `revoked`; 503 if the policy cannot be evaluated.
    """
    environment = action.workspace.environment if action.workspace else None
    policy = policies.active(action.team_id, environment)
    floor, file = policies.floor(policy), policy_files.of(action.workspace)
    is_same = policy.pk == action.policy_id and (floor is None or floor.created_at <= action.created_at)
    is_same_file = policy_files.same_as_judged(action, file)
    if is_same and is_same_file and not policies.depends_on_time(policy, floor, policy_files.judged_by(file)):
        return
    try:
        found = judge_again(action)
    except PolicyUnavailable as error:
        raise unavailable(
            f"The policy could not be evaluated ({error}), so nothing runs. The approval stays valid."
        ) from None
    if found.is_allowed:
        return
    yes = Q(verdict="approve", revision__number=action.revision) | Q(final=True)
    given = action.decisions.filter(yes).values_list("user", flat=True)
    is_met = quorum.is_met(action.team_id, given, found.takes)
    if found.tier != Tier.FORBIDDEN and is_met:
        return
    note = found.reasons[0] if found.takes_person or not is_same_file else _not_allowed_by(found.policy, is_same)
    by = Actor.system(f"policy {found.policy.number}")
    if withdraw(action, by, note, code=ActionEndCode.REVOKED):
        raise conflict(f"{note} Ask again.", code="revoked", action_status=action.status)
    raise answer_conflict(action)


def _not_allowed_by(policy, is_same: bool) -> str:
    since = "does not allow this at this hour" if is_same else "was saved after the approval and does not allow this"
    return f"Policy version {policy.number} {since}."


async def _snapshot_taken(operation) -> Snapshot | None:
    if operation is None:
        return None
    operation = await operations.wait_async(operation, SNAPSHOT_TIMEOUT)
    outcome = operation.outcome or {"reason": "the runner did not answer in time"}
    if not outcome.get("ok"):
        raise unavailable(
            f"The snapshot before this action failed ({outcome.get('reason')}), so nothing runs. "
            "The approval stays valid.",
            code="snapshot_failed",
        )
    return await Snapshot.objects.aget(workspace=operation.workspace_id, number=outcome["snapshot"])


def _mark_running(action: Action, digest: str, caller, snapshot, noted: dict) -> Action:
    if not mark_running(action, digest, by=actor_of(action), snapshot=snapshot, **noted):
        action.refresh_from_db()
        check_consumable(end_if_due(action), digest)
        raise answer_conflict(action)
    return action


def mark_running(action: Action, digest: str, *, by: Actor, snapshot=None, **fields) -> bool:
    """Move the action from approved to running, once, for these bytes; False if it is consumed, expired or stopped."""
    now = clock.now()
    going = Team.objects.filter(stopped_at=None)
    when = Q(status=Status.APPROVED, digest=digest, consumed_at=None, consume_by__gt=now, team__in=going)
    fields = {"consumed_at": now, "agent_seen_at": now, "snapshot_before": snapshot} | fields
    data = {"snapshot": snapshot.number} if snapshot else {}
    return move(action, Status.RUNNING, verb="action.consumed", by=by, when=when, data=data, **fields)


def outcome(action: Action, status: str, *, caller, note: str = "", usage: dict | None = None) -> Action:
    """Record the outcome that the agent, or a person for an uncertain action, reports. Idempotent. Problem 409, 422.

    `usage`: {model, input_tokens, output_tokens}, which agents alone report.
    """
    if caller.is_person:
        return settle(action, status, caller=caller, note=note)
    if action.workspace:
        activity.touch(action.workspace)
    if action.is_carried_out:
        raise conflict("The runner carries out this action and reports its outcome.", code="brokered")
    return _end(action, status, note, caller, when=Q(status=Status.RUNNING), usage=usage)


def report(action: Action, status: str, *, caller, details: dict, blocked=(), note: str = "") -> Action:
    """Record how a hook's call ended; `details` are {exit_status, output_bytes, tail}, `blocked` what its box refused.

    The report may arrive after the turn ended, when the action is already uncertain. A report of an unclear end leaves
    it uncertain.
    """
    if action.workspace:
        activity.touch(action.workspace)
    details = _masked(action, details)
    if status == Status.UNCERTAIN:
        running, note = Q(status=Status.RUNNING, mode=GATE), masked(note, action.workspace)
        mark_uncertain(action, note, by=caller.actor, when=running, details=details, blocked=blocked)
        return action
    open_ones = Q(status__in=(Status.RUNNING, Status.UNCERTAIN), mode=GATE)
    return _end(action, status, note, caller, when=open_ones, details=details, blocked=blocked)


def _masked(action: Action, details: dict | None) -> dict | None:
    """Return an agent's report of an end with its texts masked."""
    return details and {
        name: masked(value, action.workspace) if isinstance(value, str) else value for name, value in details.items()
    }


def settle(action: Action, status: str, *, caller, note: str = "") -> Action:
    """Record how an uncertain action ended, as a person reports it. Problem 403, 409, 422."""
    if not caller.can("settle_unclear", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can settle an unknown outcome.")
    return _end(action, status, note, caller, when=Q(status=Status.UNCERTAIN))


def _end(action: Action, status: str, note: str, caller, *, when: Q, details=None, blocked=(), usage=None) -> Action:
    if status not in (Status.SUCCEEDED, Status.FAILED):
        raise invalid("An outcome must be succeeded or failed.")
    if len(note) > MAX_NOTE:
        raise invalid(f"A note can have at most {MAX_NOTE:,} characters.")
    note = masked(note, action.workspace)
    result = (action.result or {}) | (details or {}) | {"note": note, "by": caller.actor.label}
    verb = f"action.{status}"
    fields = {"ended_at": clock.now(), "result": result} | ({"blocked": list(blocked)} if blocked else {})
    with transaction.atomic():
        told = {"usage": usage} if usage else {}
        if move(action, status, verb=verb, by=caller.actor, when=when, data=told, **fields):
            if usage:
                ModelUsage.objects.create(action=action, at=action.ended_at, **usage)
            return action
    action.refresh_from_db()
    if action.status == status:
        return action
    raise conflict(
        f"This action is {action.status}, so this outcome can't be recorded.",
        code="outcome_conflict",
        action_status=action.status,
    )


def cancel(action: Action, *, caller) -> Action:
    """Cancel a pending action or an unused approval: an agent its own, a reviewer any. Problem 403, 409."""
    if caller.is_person and not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can cancel an action.")
    if action.status == Status.CANCELLED:
        return action
    note = f"{caller.actor.label} cancelled this."
    if withdraw(action, caller.actor, note, code=ActionEndCode.WITHDRAWN):
        return action
    action.refresh_from_db()
    raise answer_conflict(action)


def abandon(call: Call, *, caller, since=None) -> int:
    """Cancel the call's actions after the agent stopped waiting; return how many. None of them ran.

    An action that was approved meanwhile stays approved: the agent may make the call again. So does one that was asked
    for again after `since`: the agent waits at another web now.
    """
    gone = Q(status=Status.PENDING) | unheard_approval(call)
    if since is not None:
        gone &= Q(asked_again_at=None) | Q(asked_again_at__lte=since)
    note = "The agent stopped waiting."
    found = list(of_call(call, caller.agent).filter(gone))
    return sum(withdraw(action, caller.actor, note, code=ActionEndCode.ABANDONED, when=gone) for action in found)
