"""What a passkey signed when it confirmed an approval, and whether that still proves it.

A *record* is one approval as `manage.py verify_passkeys --export` writes it, one on a line:

    {"team", "action", "action_id", "person", "person_id", "at", "verdict", "digest", "call" (base64), "passkey"}

and "rendered", if the page said what it showed of the call (handrail_verify.card).
"""

import hashlib
import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature

from handrail_verify import canonical, card

FIELDS = ("team", "action", "action_id", "person", "person_id", "at", "verdict", "digest", "call", "passkey")
APPROVED = ("action.approved", "action.vote")  # the events that name an assertion
ADDED = "person.passkey_added"
RECORDED_WITHIN = timedelta(minutes=1)  # between the check of an assertion and the decision's row
UNREADABLE = "What was kept can't be read."
MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


class BadRecords(ValueError):
    """A file that is not an export of approvals; the message says why, on one line."""


def challenge_bytes(**bound: str) -> bytes:
    """Return the SHA-256 over the canonical JSON of what a challenge binds."""
    return hashlib.sha256(canonical.dumps(bound)).digest()


def in_event(kept: dict) -> dict:
    """Return what the log says of an assertion: the passkey, and the SHA-256 of all that is kept."""
    about = {"name": kept["name"], "credential": kept["credential"]}
    return about | {"assertion_sha256": hashlib.sha256(canonical.dumps(kept)).hexdigest()}


def key_hash(public_key: bytes) -> str:
    """Return the SHA-256 of a passkey's public key (CBOR), as the log names it."""
    return hashlib.sha256(public_key).hexdigest()


def faults(record: dict, events: Iterable[dict] | None = None) -> list[str]:
    """Return what is wrong with a record, as sentences: [] if it proves the approval.

    `events`: exported events of this action and of this person, to compare with; None: the log is not compared.
    """
    try:
        found = _faults_of_signature(record)
        return found if events is None else found + _faults_in_log(record, events)
    except MALFORMED:
        return [UNREADABLE]


def _faults_of_signature(record: dict) -> list[str]:
    from handrail_verify import cose  # here: who only asks for a challenge needs no public key

    kept = record["passkey"]
    client_data, authenticator_data = _bytes_of(kept["client_data"]), _bytes_of(kept["authenticator_data"])
    client = json.loads(client_data)
    if len(authenticator_data) < 37:
        raise ValueError("too short for a hash, flags and a counter")
    challenge = challenge_bytes(
        action=record["action_id"],
        digest=record["digest"],
        expires_at=kept["expires_at"],
        nonce=kept["nonce"],
        person=record["person_id"],
        verdict=record["verdict"],
    )
    found, call = [], b64decode(record["call"], validate=True)
    if hashlib.sha256(call).hexdigest() != record["digest"]:
        found.append("The call's bytes are not those of its digest.")
    if rendered := record.get("rendered"):
        found += card.faults(rendered, call)
        if not record["verdict"].endswith(f" rendered {card.digest_of(rendered)}"):
            found.append("What the page showed is not what was signed.")
    if client["type"] != "webauthn.get" or _bytes_of(client["challenge"]) != challenge:
        found.append("It was signed for another action, digest, verdict, person or time.")
    if datetime.fromisoformat(record["at"]) > datetime.fromisoformat(kept["expires_at"]) + RECORDED_WITHIN:
        found.append("The decision is later than the challenge allowed.")
    if client["origin"] != kept["origin"]:
        found.append("It was signed on another site.")
    if authenticator_data[:32] != hashlib.sha256(kept["rp_id"].encode()).digest():
        found.append("It was signed for another relying party.")
    if authenticator_data[32] & 0b101 != 0b101:  # the person was present, and verified
        found.append("The passkey did not verify its person.")
    signed = authenticator_data + hashlib.sha256(client_data).digest()
    try:
        cose.verify(_bytes_of(kept["public_key"]), _bytes_of(kept["signature"]), signed)
    except InvalidSignature:
        found.append("The signature is wrong.")
    return found


def _faults_in_log(record: dict, events: Iterable[dict]) -> list[str]:
    kept, approved, added = record["passkey"], False, False
    told, key = in_event(kept), key_hash(_bytes_of(kept["public_key"]))
    for event in events:
        if event["actor"]["id"] != record["person_id"]:
            continue
        data = event["data"]
        if event["verb"] in APPROVED and event["subject"]["id"] == record["action_id"]:
            approved = approved or data.get("passkey") == told
        elif event["verb"] == ADDED and data.get("credential") == kept["credential"]:
            added = added or data["key_sha256"] == key
    found = [] if approved else ["The log has no approval with this assertion."]
    return found if added else [*found, "The log does not say that this person added a passkey with this key."]


def _bytes_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


# A file of records --------------------------------------------------------------------------------------------------


def read(lines: Iterable[bytes]) -> list[dict]:
    """Return the records of an export. Raise BadRecords."""
    found = []
    for number, line in enumerate(lines, 1):
        try:
            record = canonical.loads_once(line)
        except (ValueError, RecursionError):
            raise BadRecords(f"Line {number} is not one JSON object with each key once.") from None
        if not isinstance(record, dict) or set(record) - {"rendered"} != set(FIELDS):
            raise BadRecords(f"Line {number} is not an approval with a passkey.")
        found.append(record)
    return found


def wrong_ones(records: list[dict], events: list[dict] | None) -> Iterator[str]:
    """Yield a sentence for each record that proves nothing, and for each approval of the log that has no record."""
    seen = set()
    for record in records:
        found = faults(record, events)
        if (each := json.dumps(record, sort_keys=True)) in seen:
            found.append("It is in the file twice.")
        seen.add(each)
        if found:
            yield f"{record['team']} {record['action']}, {record['person']} at {record['at']}: {' '.join(found)}"
    there = {(record["action_id"], record["person_id"]) for record in records}
    for event in events or ():
        if event["verb"] not in APPROVED or not event["data"].get("passkey"):
            continue
        if (event["subject"]["id"], event["actor"]["id"]) not in there:
            yield f"Event {event['seq']} of team {event['team']}: this approval is not in the file."
