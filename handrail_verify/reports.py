"""Sign a report as a file of any kind, and verify it: its last line holds the signature of all bytes before it."""

import hashlib
import json
import re
from base64 import b64encode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from handrail_verify.signed import ALGORITHM, BadManifest, is_signed

PREFIX = b"handrail oversight report\n"  # so that no signature of something else counts as one of a report
MAX_BYTES = 64_000_000
LAST_LINE = re.compile(rb"(?:<!--|%)handrail-signature (\{[^{}\n]{0,1000}\})(?:-->)?\n?\Z")


def signed_file(content: bytes, key: Ed25519PrivateKey, public_key: str) -> bytes:
    """Return an HTML or PDF file with a last line, a comment in its language, that holds the signature.

    `public_key`: the one that belongs to `key`, in base64.
    """
    content = content.rstrip(b"\n") + b"\n"
    signature = {"algorithm": ALGORITHM, "key": public_key, "sha256": hashlib.sha256(content).hexdigest()}
    signature["value"] = b64encode(key.sign(PREFIX + content)).decode()
    begin, end = (b"%", b"") if content.startswith(b"%PDF-") else (b"<!--", b"-->")
    return content + begin + b"handrail-signature " + json.dumps(signature).encode() + end + b"\n"


def verify(file: bytes, key: str) -> str:
    """Return the SHA-256 (hex) of a report that was signed with this public key (base64). Raise BadManifest."""
    found = LAST_LINE.search(file[-2000:]) if len(file) <= MAX_BYTES else None
    if found is None:
        raise BadManifest("It is not signed: its last line holds no signature.")
    content = file[: len(file) - len(found[0])]
    try:
        signature = json.loads(found[1])
    except ValueError:
        raise BadManifest("It is not signed: its last line holds no signature.") from None
    if signature.get("algorithm") != ALGORITHM:
        raise BadManifest("It is not signed.")
    if signature.get("key") != key:
        raise BadManifest("It was signed with another key.")
    if not is_signed(content, str(signature.get("value")), key, PREFIX):
        raise BadManifest("It was changed: the signature does not belong to its content.")
    return hashlib.sha256(content).hexdigest()
