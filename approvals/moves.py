"""The one way in which an action changes: a conditional update, and its event in the same transaction."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals.calls import BROKER, sha256
from approvals.models import Action, Decision, Revision, Status
from approvals.reading import OWN_VERBS, Reading
from dashboard import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem, conflict
from workspaces import effects, lifecycle

CARRIED_OUT_BY = "approvals.carry.broker"


def move(action: Action, to: str, *, verb: str, by: Actor, when: Q, data=None, **fields) -> bool:
    """Move the action to a status if it still is as `when` says; False when somebody was faster.

    `verb` and `data` become its event; `fields` change with the status. `action` shows the new state afterwards.
    """
    with transaction.atomic():
        if not Action.objects.filter(when, pk=action.pk).update(status=to, **fields):
            return False
        action.refresh_from_db()
        tell(action, verb, by, data)
    return True


def tell(action: Action, verb: str, by: Actor, data=None):
    """Record what happened to an action; never what is in it."""
    about = {
        "number": action.number,
        "title": action.title,
        "tier": action.tier,
        "digest": action.digest,
        "agent": str(action.agent_id),
    }
    Event.objects.record(
        action.team_id, actor=by, verb=verb, subject=action, workspace=action.workspace_id, data=about | (data or {})
    )


def approve(action: Action, *, verb: str, by: Actor, when: Q, data=None, **fields) -> bool:
    """Allow what the current digest names. In broker mode this also asks the runner to carry it out."""
    now = clock.now()
    consume_by = now + timedelta(seconds=settings.HANDRAIL_CONSUME_SECONDS)
    with transaction.atomic():
        if not move(
            action,
            Status.APPROVED,
            verb=verb,
            by=by,
            when=when,
            data=data,
            decided_at=now,
            consume_by=consume_by,
            **fields,
        ):
            return False
        carry_out(action, by)
    return True


def carry_out(action: Action, by: Actor):
    """Ask the runner for an approved action of broker mode. Problem 409 when its workspace cannot be used now."""
    if action.mode != BROKER:
        return
    own_verb = action.tool in OWN_VERBS
    if not own_verb:
        lifecycle.wake(action.workspace, by=by)
    effect = effects.submit(
        "approvals.verbs.carrier" if own_verb else CARRIED_OUT_BY,
        workspace=action.workspace,
        args={"action": str(action.pk), "digest": action.digest},
        by=by,
        dedupe=f"action:{action.pk}",
    )
    Action.objects.filter(pk=action.pk).update(effect=effect)
    action.effect = effect


def add_revision(action: Action, number: int, canonical: bytes, found: Reading, by: Actor) -> Revision:
    return Revision.objects.create(
        action=action,
        number=number,
        canonical=canonical,
        digest=sha256(canonical),
        tier=found.tier,
        undo=found.undo,
        reasons=found.reasons,
        rule=found.rule,
        commands=found.commands,
        by={"type": by.type, "id": by.id, "label": by.label},
        created_at=clock.now(),
    )


def stamp(moment) -> str | None:
    """RFC 3339, UTC."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment else None


def final_decision(action: Action) -> Decision | None:
    return action.decisions.filter(final=True).select_related("user").first()


def winner(action: Action) -> dict | None:
    """Who settled this before: {verdict, by, at}; for a changed digest the last edit; None when nobody did."""
    decision = final_decision(action)
    if decision is None and action.status == Status.PENDING:
        decision = action.decisions.filter(verdict="edit").select_related("user").order_by("-at").first()
    if decision:
        return {"verdict": decision.verdict, "by": decision.user.get_username(), "at": stamp(decision.at)}
    if action.status in (Status.EXPIRED, Status.CANCELLED):
        by = (action.result or {}).get("by")
        return {"verdict": str(action.status), "by": by, "at": stamp(action.ended_at)}
    if action.decided_at:
        verdict = "deny" if action.status == Status.DENIED else "approve"
        return {"verdict": verdict, "by": policy_label(action), "at": stamp(action.decided_at)}
    return None


def policy_label(action: Action) -> str:
    """Who allowed or forbade it where no person looked at it."""
    if action.grant_id:
        return f"a grant of {action.grant.by.get_username()}"
    return f"policy {action.policy.number}" if action.policy_id else "policy"


def lost(action: Action, digest: str | None = None) -> Problem:
    """The 409 for whoever came too late, or looked at other bytes: it names the winner and how things stand."""
    won = winner(action)
    extra = {"winner": won, "action_status": action.status, "digest": action.digest}
    if action.status == Status.EXPIRED and not action.decided_at:
        return conflict("This expired before anyone answered. It did not run.", code="expired", **extra)
    if action.status == Status.CANCELLED:
        return conflict(f"This was withdrawn by {won['by'] or 'its agent'}.", code="cancelled", **extra)
    if action.status == Status.PENDING:
        who = f"{won['by']} changed it" if won else "it changed"
        return conflict(
            f"Your answer was to other bytes: {who} since you looked. It was not used.", code="digest_mismatch", **extra
        )
    said = {"approve": "approved", "deny": "denied", "edit": "edited and approved"}.get(
        won and won["verdict"], "settled"
    )
    return conflict(
        f"{(won or {}).get('by') or 'Somebody'} {said} this. Your answer was not used.", code="already_decided", **extra
    )
