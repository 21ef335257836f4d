"""Signatures of Standard Webhooks 1.0, which its libraries verify."""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

PREFIX = "whsec_"  # begins a secret, which is base64 after it


def make_secret() -> str:
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def headers(secret: str, name: str, timestamp: str, body: bytes) -> dict[str, str]:
    """Return the headers of a signed message. `name`: its id, the same each time it is sent again."""
    digest = hmac.digest(b64decode(secret.removeprefix(PREFIX)), f"{name}.{timestamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": name,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
