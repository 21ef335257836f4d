"""From whom the approval of a critical action takes a passkey: people who have one; in some teams, everybody."""

from django.conf import settings

from approvals.models import Action, Tier
from dashboard.people import passkeys
from dashboard.problems import Problem
from handrail_verify.card import digest_of

REQUIRED = "passkey_required"  # the code of the Problem that says so


def is_required(action: Action, caller) -> bool:
    """Return whether this person's approval of the action, as it is now, takes a passkey."""
    if action.tier != Tier.CRITICAL:
        return False
    return action.team.requires_passkey or passkeys.of(caller.user).exists()


def refuse_without(action: Action, caller, confirmed: dict | None):
    """Raise Problem 403 with the code passkey_required if the approval takes a passkey and `confirmed` is None."""
    if confirmed is None and is_required(action, caller):
        raise Problem(403, _what_it_takes(caller), code=REQUIRED)


def _what_it_takes(caller) -> str:
    if caller.token is not None:
        return "Approving this takes your passkey, so no token can do it. Open the card in a browser."
    reason = why_not(caller)
    what_to_do = (
        f"{reason} Add one under Me, in Signing in." if reason else "Approve it on its card, with JavaScript on."
    )
    return f"Approving this takes a passkey. {what_to_do}"


def why_not(caller) -> str:
    """Return why the person can't use a passkey at this address, as sentences; "" if one can be used."""
    if reason := passkeys.why_not_at(settings.HANDRAIL_DESK_URL):
        return f"Passkeys don't work at this address. {reason}"
    if passkeys.usable_by(caller.user):
        return ""
    names = sorted({passkey.data.get("rp_id") or "another address" for passkey in passkeys.of(caller.user)})
    if names:
        return f"Yours were made for {', '.join(names)}, not for this address."
    return "You have none yet."


def verdict_of(*, alone: bool, unheld: bool, tree: str, rendered: dict | None) -> str:
    """Name the approval that a challenge is for: also whether it is by one person, without an envelope, of a try.

    `rendered`: what the page showed (handrail_verify.card), whose digest is part of the name.
    """
    words = ["approve", *(["alone"] if alone else []), *(["unheld"] if unheld else [])]
    words += [f"tree {tree}"] if tree else []
    return " ".join([*words, *([f"rendered {digest_of(rendered)}"] if rendered else [])])
