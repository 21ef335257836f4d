"""ssh keys as text: the public part of a private key, the keys that a host may show, and fingerprints."""

import base64
import hashlib
from contextlib import suppress

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

BEGINS = "-----BEGIN OPENSSH PRIVATE KEY-----"
MOST_HOST_KEYS = 10
KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")


class BadKey(Exception):
    """A text is not the key that is needed; the message is for a person."""


def looks_private(text: str) -> bool:
    return text.lstrip().startswith("-----BEGIN") and "PRIVATE KEY-----" in text


def public_part(private: str) -> str:
    """Return the public key of a private one, such as "ssh-ed25519 AAAA…". Raise BadKey."""
    text = private.strip()
    if not text.startswith(BEGINS):
        if looks_private(text):
            raise BadKey("Give the private key in OpenSSH's format: `ssh-keygen -p -f KEYFILE` rewrites the file so.")
        raise BadKey("Give an ssh private key in OpenSSH's format, such as `ssh-keygen -t ed25519` writes.")
    try:
        key = load_ssh_private_key(f"{text}\n".encode(), password=None)
        found = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    except TypeError:
        raise BadKey("The key has a passphrase, which nobody could enter. Give one without.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey("This private key is damaged, or of a kind that is not supported.") from None
    if found.partition(" ")[0] not in KINDS:
        raise BadKey(f"Keys of the kind {found.partition(' ')[0]} are not supported; use ed25519.")
    return found


def host_keys(text: str) -> str:
    """Return the keys in lines of known_hosts, or alone, as "KIND BASE64" lines. Raise BadKey."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise BadKey("Give the host's key, a line that `ssh-keyscan HOST` prints. Compare it with what the host says.")
    if len(lines) > MOST_HOST_KEYS:
        raise BadKey(f"Give at most {MOST_HOST_KEYS} host keys.")
    return "\n".join(dict.fromkeys(_host_key(words) for words in lines))


def _host_key(words: list[str]) -> str:
    """Return "KIND BASE64" of one line, whose first word may be the host's name. Raise BadKey."""
    at = next((at for at, word in enumerate(words[:2]) if word in KINDS), None)
    if at is not None and len(words) > at + 1:
        found = f"{words[at]} {words[at + 1]}"
        with suppress(ValueError, UnsupportedAlgorithm):
            load_ssh_public_key(found.encode())
            return found
    raise BadKey(f"Not a host key: {' '.join(words)[:60]!r}. One is `ssh-ed25519 AAAA…`, or a line of known_hosts.")


def fingerprint(public: str) -> str:
    """Return the fingerprint of a "KIND BASE64" line as ssh shows it."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
