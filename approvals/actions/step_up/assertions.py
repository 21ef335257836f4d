"""What a passkey signed: checked when a person approves, kept with the decision, and checked again at any time.

Loaded only where passkeys are used: in web, and by the command that checks again.
"""

import struct
from base64 import b64encode

from django.db.models import Q
from fido2 import cbor
from fido2.server import Fido2Server
from fido2.utils import websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    UserVerificationRequirement,
)

from approvals.actions.step_up import challenges
from approvals.actions.step_up.requirement import verdict_of
from approvals.models import Action, Decision, PasskeyChallenge
from dashboard.models import Event
from dashboard.people import passkeys
from dashboard.problems import Problem
from handrail_verify import passkeys as verified

MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)  # what parsing raises


def credential_of(passkey) -> AttestedCredentialData:
    """Return a passkey's id and public key, from what was stored when it was added."""
    return passkey.wrap().authenticator_data.credential_data


def confirm(action: Action, *, caller, digest: str, verdict: str, answer: dict) -> dict:
    """Check a passkey's answer {challenge: its id, credential} for this approval; return what to keep.

    The challenge is used up first, so that an answer that is wrong, or right, is never looked at twice. Problem 403.
    """
    if caller.token is not None:
        raise Problem(403, "A token can't bring a passkey. Open the card in a browser.", code="passkey_refused")
    given = answer.get("credential")
    made = challenges.take(answer.get("challenge"), action, caller=caller, digest=digest, verdict=verdict)
    known = {credential_of(passkey).credential_id: passkey for passkey in passkeys.usable_by(caller.user)}
    try:
        used = _server().authenticate_complete(
            {"challenge": websafe_encode(made.bytes), "user_verification": UserVerificationRequirement.REQUIRED},
            [credential_of(passkey) for passkey in known.values()],
            given,
        )
        response = AuthenticationResponse.from_dict(given).response
    except MALFORMED:
        detail = "The passkey's answer was not accepted. Nothing was approved. Try again."
        raise Problem(403, detail, code="passkey_refused") from None
    passkey = known[used.credential_id]
    passkey.record_usage()
    return _kept(made, passkey, used, response)


def _server() -> Fido2Server:
    party = PublicKeyCredentialRpEntity(id=passkeys.relying_party(), name="Handrail")
    ours = passkeys.origin()
    return Fido2Server(party, verify_origin=lambda origin: origin == ours)


def _kept(made: PasskeyChallenge, passkey, used: AttestedCredentialData, response) -> dict:
    """Return all that it takes to check the signature again, also after the passkey was removed."""
    return {
        "name": passkey.data["name"],
        "credential": websafe_encode(used.credential_id),
        "public_key": websafe_encode(cbor.encode(dict(used.public_key))),
        "rp_id": passkeys.relying_party(),
        "origin": passkeys.origin(),
        "nonce": made.nonce,
        "expires_at": made.expires_at.isoformat(),
        "authenticator_data": websafe_encode(bytes(response.authenticator_data)),
        "client_data": websafe_encode(bytes(response.client_data)),
        "signature": websafe_encode(response.signature),
    }


# Later ---------------------------------------------------------------------------------------------------------------


def kept_ones():
    """Return the queryset of the decisions that a passkey confirmed, oldest first."""
    found = Decision.objects.filter(assertion__passkey__isnull=False)
    return found.select_related("action__team", "revision", "user").order_by("at")


def record_of(decision: Decision) -> dict:
    """Return all that it takes to check the decision's assertion, as it is exported for `python -m handrail_verify`."""
    kept, tree = decision.assertion, decision.applied_tree
    rendered = kept.get("rendered")
    verdict = verdict_of(alone=bool(kept.get("solo")), unheld=decision.unheld, tree=tree, rendered=rendered)
    return {
        "team": decision.action.team.slug,
        "action": str(decision.action),
        "action_id": str(decision.action_id),
        "person": str(decision.user),
        "person_id": str(decision.user_id),
        "at": decision.at.isoformat(),
        "verdict": verdict if decision.verdict == "approve" else decision.verdict,
        "digest": decision.revision.digest,
        "call": b64encode(decision.revision.canonical).decode(),
        "passkey": kept["passkey"],
    } | ({"rendered": rendered} if rendered else {})


def faults(decision: Decision) -> list[str]:
    """Check a kept assertion again; return what is wrong with it, as sentences: [] if it still proves the decision."""
    about = Q(team=decision.action.team_id, subject_id=str(decision.action_id), verb__in=verified.APPROVED)
    events = Event.objects.filter(about | Q(verb=verified.ADDED), actor_id=str(decision.user_id))
    return verified.faults(record_of(decision), [event.as_export() for event in events])
