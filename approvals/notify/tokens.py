"""Answers from a notification: a token for one verdict on one digest, used once, in one session of its person."""

import secrets

from approvals.actions import expiry, gate, own_agents
from approvals.actions.answer import Answer
from approvals.actions.transitions import record
from approvals.models import Action, Delivery, PushToken, Tier
from approvals.notify.hashes import sha256
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.people.access import Caller
from dashboard.problems import conflict, not_allowed, not_found

# Approve is offered on a notification, where nothing but its title is seen, only for what can be undone.
UNDONE = "yes"


def may_offer_approve(action: Action, user) -> bool:
    if own_agents.needs_another(action, user.pk):
        return False
    is_call = action.tool not in own_questions.TOOLS
    return is_call and action.undo == UNDONE and action.takes_one and action.tier != Tier.CRITICAL


def make(delivery: Delivery, action: Action, session_key: str) -> dict[str, str]:
    """Return {verdict: token} for a delivery that is sent now; tokens of an earlier try no longer work."""
    delivery.tokens.all().delete()
    made = {}
    for verdict in ("deny", "approve") if may_offer_approve(action, delivery.user) else ("deny",):
        made[verdict] = secrets.token_urlsafe(32)
        PushToken.objects.create(
            delivery=delivery,
            verdict=verdict,
            sha256=sha256(made[verdict]),
            session_key=session_key,
            expires_at=action.expires_at,
        )
    return made


def use(secret: str, *, caller: Caller, session_key: str | None) -> Action:
    """Decide as the token says; return the action. Problem 403, 404, 409: it is not used, or used up without effect.

    The digest is the one that the notification showed: an action that was edited since is refused by the gate.
    """
    token = PushToken.objects.select_related("delivery__notice").filter(sha256=sha256(secret)).first()
    if token is None or token.delivery.notice is None:
        raise not_found("answer")
    user = caller.user
    if user is None or user.pk != token.delivery.user_id or session_key != token.session_key:
        raise not_allowed("Open the card and sign in: this notification belongs to another session.")
    now = clock.now()
    if token.expires_at <= now or not PushToken.objects.filter(pk=token.pk, used_at=None).update(used_at=now):
        raise conflict("This notification was used already, or is out of date. Open the card.", code="token_used")
    action = Action.objects.visible_to(caller).filter(pk=token.delivery.notice.action_id).first()
    if action is None:
        raise not_found("action")
    expiry.end_if_due(action)
    if token.verdict == "approve" and not may_offer_approve(action, user):
        raise not_allowed("This can't be undone, so open the card to approve it.")
    action = gate.decide(action, Answer(token.verdict, token.delivery.digest), caller=caller)
    data = {"verdict": token.verdict, "via": token.delivery.via}
    record(action, "action.answered_on_device", caller.actor, data)
    return action
