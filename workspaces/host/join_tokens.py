"""The one-time token with which a new host joins, and the channel that it opens to the desk.

A token names its row, holds a secret, and the desk's public key for this one token. The new host makes a key pair of
its own; what both send is encrypted with what they agree on (X25519, HKDF, AES-GCM). So neither the secret nor the
answer can be read on the way, also over plain HTTP, and only the desk that made the token can answer.
"""

import json
import os
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.utils.crypto import salted_hmac

PREFIX = "hrj_"
CODE_BYTES, SECRET_BYTES, KEY_BYTES, NONCE_BYTES = 8, 24, 32, 12
ASK, ANSWER = b"ask", b"answer"  # what a message is for, so that none can be sent back as the other


class BadToken(ValueError):
    """The text is no token, or a message was not made with it."""


@dataclass(frozen=True)
class JoinSecret:
    """What a token holds: `code` names its row, `desk` is the desk's public key for it."""

    code: str
    secret: bytes
    desk: bytes

    def __str__(self):
        whole = bytes.fromhex(self.code) + self.secret + self.desk
        return PREFIX + urlsafe_b64encode(whole).decode()


def make() -> JoinSecret:
    code = os.urandom(CODE_BYTES).hex()
    return JoinSecret(code, os.urandom(SECRET_BYTES), _raw(_desk_key(code)))


def read(text: str) -> JoinSecret:
    """Return what the token holds. Raise BadToken."""
    try:
        whole = urlsafe_b64decode(text.removeprefix(PREFIX))
    except ValueError:
        whole = b""
    if not text.startswith(PREFIX) or len(whole) != CODE_BYTES + SECRET_BYTES + KEY_BYTES:
        raise BadToken("This is no token of `manage.py host add`: copy the whole line.")
    return JoinSecret(whole[:CODE_BYTES].hex(), whole[CODE_BYTES:-KEY_BYTES], whole[-KEY_BYTES:])


class Channel:
    """One question and its answer, each a JSON object, readable only for the two that agreed on the key."""

    def __init__(self, own: X25519PrivateKey, other: bytes, code: str):
        info = f"handrail join {code}".encode()
        shared = own.exchange(X25519PublicKey.from_public_bytes(other))
        self._cipher = AESGCM(HKDF(hashes.SHA256(), KEY_BYTES, None, info).derive(shared))

    def seal(self, message: dict, kind: bytes) -> str:
        nonce = os.urandom(NONCE_BYTES)
        return b64encode(nonce + self._cipher.encrypt(nonce, json.dumps(message).encode(), kind)).decode()

    def open(self, sealed: str, kind: bytes) -> dict:
        """Return the message. Raise BadToken if it was not sealed for this channel."""
        try:
            raw = b64decode(sealed, validate=True)
            return json.loads(self._cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], kind))
        except (InvalidTag, ValueError):
            raise BadToken("It was not made for this.") from None


def of_new_host(token: JoinSecret) -> tuple[Channel, str]:
    """Return the channel of a new host, and its public key in base64."""
    own = X25519PrivateKey.generate()
    return Channel(own, token.desk, token.code), b64encode(_raw(own)).decode()


def of_desk(code: str, public_key: str) -> Channel:
    """Return the desk's end of the channel. Raise BadToken for what is no public key."""
    try:
        return Channel(_desk_key(code), b64decode(public_key, validate=True), code)
    except ValueError:
        raise BadToken("This is no public key.") from None


def _desk_key(code: str) -> X25519PrivateKey:
    """Return the desk's key for a token: derived from keys/secret_key, so that every web has it and nothing is kept."""
    return X25519PrivateKey.from_private_bytes(salted_hmac("handrail.join", code, algorithm="sha256").digest())


def _raw(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()
