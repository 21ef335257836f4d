"""Challenges for passkeys: made for one approval of the bytes that the person saw, short-lived, used once."""

from base64 import urlsafe_b64encode
from datetime import timedelta
from uuid import UUID

from django.db.models import Q

from approvals.actions import rehearsals
from approvals.actions.step_up import requirement
from approvals.actions.transitions import answer_conflict
from approvals.models import Action, PasskeyChallenge, Status
from dashboard.database import clock
from dashboard.people import passkeys
from dashboard.problems import Problem, not_allowed

VALID = timedelta(minutes=2)


def create(
    action: Action,
    *,
    caller,
    digest: str,
    alone: bool = False,
    unheld: bool = False,
    apply: bool = False,
    rehearsal=None,
    rendered: dict | None = None,
) -> dict:
    """Store a challenge for this approval; return its id and what the browser has to ask the passkey for.

    Problem 403 if the person can't use a passkey here, 409 if the action is decided or another version of it was seen.
    """
    if not caller.is_person or caller.token is not None or not caller.can("decide", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin can decide, in a browser.")
    if action.status != Status.PENDING or action.digest != digest:
        raise answer_conflict(action)
    if reason := requirement.why_not(caller):
        raise not_allowed(reason)
    tree = rehearsals.tree_to_apply(action, rehearsal) if apply else ""
    now = clock.now()
    PasskeyChallenge.objects.filter(Q(expires_at__lt=now) | ~Q(used_at=None), user=caller.user).delete()
    made = PasskeyChallenge.objects.create(
        user=caller.user,
        action=action,
        digest=digest,
        verdict=requirement.verdict_of(alone=alone, unheld=unheld, tree=tree, rendered=rendered),
        expires_at=now + VALID,
    )
    return {"id": str(made.pk), "options": _options(made, caller.user)}


def _options(made: PasskeyChallenge, user) -> dict:
    ids = [passkeys.credential_id(passkey) for passkey in passkeys.usable_by(user)]
    return {
        "challenge": urlsafe_b64encode(made.bytes).decode().rstrip("="),
        "rpId": passkeys.relying_party(),
        "allowCredentials": [{"type": "public-key", "id": each} for each in ids],
        "userVerification": "required",
        "timeout": int(VALID.total_seconds() * 1000),
    }


def take(pk, action: Action, *, caller, digest: str, verdict: str) -> PasskeyChallenge:
    """Use up the challenge if it was made for exactly this; it stays used whatever follows. Problem 403."""
    try:
        pk = UUID(str(pk))
    except ValueError:
        pk = None
    now = clock.now()
    same = Q(user=caller.user, action=action, digest=digest, verdict=verdict)
    fresh = Q(used_at=None, expires_at__gt=now)
    if not PasskeyChallenge.objects.filter(same, fresh, pk=pk).update(used_at=now):
        detail = "The passkey was asked for something else, or too long ago. Nothing was approved. Try again."
        raise Problem(403, detail, code="passkey_refused")
    return PasskeyChallenge.objects.get(pk=pk)
