"""What a passkey signed: checked when a person approves, kept with the decision, and checked again at any time.

Loaded only where passkeys are used: in web, and by the command that checks again.
"""

import hashlib
import struct
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from fido2 import cbor
from fido2.cose import CoseKey
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    AuthenticatorData,
    CollectedClientData,
    PublicKeyCredentialRpEntity,
    UserVerificationRequirement,
)

from approvals.models import Action, Decision, PasskeyChallenge
from approvals.models.passkeys import challenge_bytes
from approvals.step_up import challenges
from approvals.step_up.requirement import verdict_of
from dashboard.models import Event
from dashboard.people import passkeys
from dashboard.problems import Problem
from dashboard.strict_json import canonical

MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)  # what parsing raises
BROKEN = (*MALFORMED, Problem)  # what reading a kept assertion raises that somebody changed

RECORDED_WITHIN = timedelta(minutes=1)  # between the check of an assertion and the decision's row


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


def in_event(kept: dict) -> dict:
    """Return what the log says of an assertion: the passkey, and the SHA-256 of all that is kept."""
    about = {"name": kept["name"], "credential": kept["credential"]}
    return about | {"assertion_sha256": hashlib.sha256(canonical(kept)).hexdigest()}


# Later ---------------------------------------------------------------------------------------------------------------


def kept_ones():
    """Return the queryset of the decisions that a passkey confirmed, oldest first."""
    found = Decision.objects.filter(assertion__passkey__isnull=False)
    return found.select_related("action__team", "revision", "user").order_by("at")


def faults(decision: Decision) -> list[str]:
    """Check a kept assertion again; return what is wrong with it, as sentences: [] if it still proves the decision."""
    kept = decision.assertion["passkey"]
    try:
        found = _faults_of_signature(decision, kept)
        told = in_event(kept)
        key_hash = passkeys.key_hash(websafe_decode(kept["public_key"]))
    except BROKEN:
        return ["What was kept can't be read."]
    events = Event.objects.filter(team=decision.action.team_id, subject_id=str(decision.action_id))
    events = events.filter(verb__in=("action.approved", "action.vote"), actor_id=str(decision.user_id))
    if not any(event.data.get("passkey") == told for event in events):
        found.append("The log has no approval with this assertion.")
    added = Event.objects.filter(verb="person.passkey_added", actor_id=str(decision.user_id))
    keys = {event.data["key_sha256"] for event in added if event.data.get("credential") == kept["credential"]}
    if key_hash not in keys:
        found.append("The log does not say that this person added a passkey with this key.")
    return found


def _faults_of_signature(decision: Decision, kept: dict) -> list[str]:
    """Compare what was signed with the decision's own rows, and check the signature."""
    client_data = CollectedClientData(websafe_decode(kept["client_data"]))
    authenticator_data = AuthenticatorData(websafe_decode(kept["authenticator_data"]))
    verdict = verdict_of(alone=bool(decision.assertion.get("solo")), unheld=decision.unheld, tree=decision.applied_tree)
    challenge = challenge_bytes(
        action=str(decision.action_id),
        digest=decision.revision.digest,
        expires_at=kept["expires_at"],
        nonce=kept["nonce"],
        person=str(decision.user_id),
        verdict=verdict if decision.verdict == "approve" else decision.verdict,
    )
    found = []
    if hashlib.sha256(bytes(decision.revision.canonical)).hexdigest() != decision.revision.digest:
        found.append("The call's bytes are not those of its digest.")
    if client_data.type != CollectedClientData.TYPE.GET or client_data.challenge != challenge:
        found.append("It was signed for another action, digest, verdict, person or time.")
    if decision.at > datetime.fromisoformat(kept["expires_at"]) + RECORDED_WITHIN:
        found.append("The decision is later than the challenge allowed.")
    if client_data.origin != kept["origin"]:
        found.append("It was signed on another site.")
    if authenticator_data.rp_id_hash != hashlib.sha256(kept["rp_id"].encode()).digest():
        found.append("It was signed for another relying party.")
    if not (authenticator_data.is_user_present() and authenticator_data.is_user_verified()):
        found.append("The passkey did not verify its person.")
    if not _is_signed(kept, authenticator_data, client_data):
        found.append("The signature is wrong.")
    return found


def _is_signed(kept: dict, authenticator_data: AuthenticatorData, client_data: CollectedClientData) -> bool:
    public_key = CoseKey.parse(cbor.decode(websafe_decode(kept["public_key"])))
    try:
        public_key.verify(bytes(authenticator_data) + client_data.hash, websafe_decode(kept["signature"]))
    except InvalidSignature:
        return False
    return True
