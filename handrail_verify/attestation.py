"""Attestations of decisions: in-toto statements in signed envelopes (DSSE), as other verifiers read them too.

https://github.com/secure-systems-lab/dsse and https://github.com/in-toto/attestation, both of version 1.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from handrail_verify import canonical

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
DECISION = "urn:handrail:decision:v1"  # the predicate: docs/schemas/decision.schema.json
MAX_BYTES = 8_000_000


class BadAttestation(ValueError):
    """An attestation that does not verify; the message says why, on one line."""


def signed(statement: dict, key: Ed25519PrivateKey) -> dict:
    """Return the envelope {payload, payloadType, signatures} of a statement, signed with the key."""
    payload = canonical.dumps(statement)
    signature = b64encode(key.sign(_pae(payload))).decode()
    return {
        "payload": b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"keyid": key_id(key.public_key()), "sig": signature}],
    }


def verify(text: bytes, key: str) -> dict:
    """Return the statement in an envelope that was signed with this public key (base64). Raise BadAttestation."""
    payload, signatures = _parts(text)
    try:
        public = Ed25519PublicKey.from_public_bytes(b64decode(key, validate=True))
    except (NotBase64, ValueError):
        raise BadAttestation("The key is not a public key of Ed25519 in base64.") from None
    if not any(_is_signed(payload, signature, public) for signature in signatures):
        raise BadAttestation("It was changed, or signed with another key: no signature belongs to its payload.")
    try:
        statement = canonical.loads_once(payload)
    except (ValueError, RecursionError):
        statement = None
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT:
        raise BadAttestation("It is signed, but no in-toto statement of version 1.")
    if statement.get("predicateType") != DECISION:
        raise BadAttestation(f"It is signed, but attests something else: {statement.get('predicateType')}.")
    return statement


def key_id(public: Ed25519PublicKey) -> str:
    """Return the name of a public key in envelopes, as securesystemslib makes it: a hint, which proves nothing."""
    value = public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    named = {"keytype": "ed25519", "keyval": {"public": value}, "scheme": "ed25519"}
    return hashlib.sha256(canonical.dumps(named)).hexdigest()


def _parts(text: bytes) -> tuple[bytes, list]:
    """Return (payload, signatures) of an envelope's JSON. Raise BadAttestation."""
    try:
        found = json.loads(text) if len(text) <= MAX_BYTES else None
        payload = b64decode(found["payload"], validate=True)
        kind, signatures = found["payloadType"], found["signatures"]
    except (ValueError, RecursionError, KeyError, TypeError):
        raise BadAttestation("This is not an envelope: a JSON object with payload, payloadType, signatures.") from None
    if kind != PAYLOAD_TYPE or not isinstance(signatures, list):
        raise BadAttestation(f"Its payload is not of type {PAYLOAD_TYPE}.")
    return payload, signatures


def _is_signed(payload: bytes, signature, public: Ed25519PublicKey) -> bool:
    try:
        public.verify(b64decode(signature["sig"], validate=True), _pae(payload))
    except (InvalidSignature, ValueError, KeyError, TypeError):
        return False
    return True


def _pae(payload: bytes) -> bytes:
    """Return the bytes that are signed: type and payload with their lengths."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
