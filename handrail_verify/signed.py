"""Sign manifests and receipts, and verify a downloaded one with the public key alone."""

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from handrail_verify import canonical

ALGORITHM = "Ed25519"
PREFIX = b"handrail manifest\n"  # so that no signature of something else counts as one of a manifest
RECEIPT_PREFIX = b"handrail purge receipt\n"
ADDED = ("sha256", "signature")  # what a download has besides the signed body
MAX_BYTES = 8_000_000  # of a downloaded manifest


class BadManifest(ValueError):
    """A manifest that does not verify; the message says why, on one line."""


def sign(text: bytes, key: Ed25519PrivateKey, prefix: bytes = PREFIX) -> str:
    """Return the signature of the canonical JSON (RFC 8785) of a body, in base64."""
    return b64encode(key.sign(prefix + text)).decode()


def as_download(body: dict, sha256: str, signature: str, key: str) -> dict:
    """Return the body as it is downloaded: with its digest, its signature and the public key that belongs to it."""
    signed = {"algorithm": ALGORITHM, "key": key, "value": signature} if signature else None
    return body | {"sha256": sha256, "signature": signed}


def verify(text: bytes, key: str, prefix: bytes = PREFIX) -> dict:
    """Return the body of a download that was signed with this public key (base64), by default a manifest.

    Raise BadManifest.
    """
    try:
        found = canonical.loads_once(text) if len(text) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not set(ADDED) <= set(found):
        raise BadManifest("This is not a downloaded manifest: a JSON object with sha256 and signature.")
    signed, body = found["signature"], {name: value for name, value in found.items() if name not in ADDED}
    try:
        signed_text = canonical.dumps(body)
    except (ValueError, RecursionError):
        raise BadManifest("It has no canonical form.") from None
    if hashlib.sha256(signed_text).hexdigest() != found["sha256"]:
        raise BadManifest("It was changed: its SHA-256 is not that of its content.")
    if not isinstance(signed, dict) or signed.get("algorithm") != ALGORITHM:
        raise BadManifest("It is not signed.")
    if signed.get("key") != key:
        raise BadManifest("It was signed with another key.")
    if not is_signed(signed_text, str(signed.get("value")), key, prefix):
        raise BadManifest("It was changed: the signature does not belong to its content.")
    return body


def is_signed(text: bytes, signature: str, key: str, prefix: bytes = PREFIX) -> bool:
    """Return whether the signature (base64) was made over these bytes with this public key (base64)."""
    try:
        public = Ed25519PublicKey.from_public_bytes(b64decode(key, validate=True))
        public.verify(b64decode(signature, validate=True), prefix + text)
    except (InvalidSignature, NotBase64, ValueError):
        return False
    return True
