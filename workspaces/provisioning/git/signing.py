"""SSH signatures of commits and tags, as `ssh-keygen -Y sign -n git` makes them (PROTOCOL.sshsig of OpenSSH)."""

import base64
import hashlib
import struct
import textwrap
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

NAMESPACE = b"git"
MAGIC = b"SSHSIG"
HASH = b"sha512"
MOST_BYTES = 1 << 20  # of an object
SUBJECT = 200


class NotToSign(Exception):
    """Raised for what is nothing to sign; the message is a sentence."""


@dataclass(frozen=True)
class Unsigned:
    """What git asks to sign: a commit or a tag, as it is without its signature."""

    kind: str
    by: tuple[str, str]  # name and address of its committer or tagger
    subject: str
    content: bytes
    is_sha256: bool


def key_of(text: str) -> Ed25519PrivateKey:
    """Return the key in OpenSSH's format. ValueError, with a sentence, for anything but ed25519 without passphrase."""
    try:
        key = load_ssh_private_key(text.strip().encode() + b"\n", None)
    except TypeError:
        raise ValueError("The key has a passphrase, which nobody could type. Make one without: -N ''.") from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("Give an OpenSSH private key of the kind ed25519, as `ssh-keygen -t ed25519 -N ''` makes it.")
    return key


def public_of(key: Ed25519PrivateKey) -> str:
    """Return the public key as one line."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def read(content: bytes) -> Unsigned:
    """Return the commit or tag that these bytes are. Raise NotToSign."""
    if len(content) > MOST_BYTES:
        raise NotToSign(f"An object to sign has at most {MOST_BYTES:,} bytes.")
    head, _, message = content.partition(b"\n\n")
    lines = head.split(b"\n")
    words = [line.partition(b" ")[0] for line in lines]
    if words[0] == b"tree" and words.count(b"committer") == 1:
        kind, by = "commit", lines[words.index(b"committer")]
    elif words[:4] == [b"object", b"type", b"tag", b"tagger"] and len(lines) == 4:
        kind, by = "tag", lines[3]
    else:
        raise NotToSign("Only a commit or a tag of git is signed.")
    if b"\0" in content or any(word.startswith(b"gpgsig") for word in words):
        raise NotToSign("It has a NUL or a signature already.")
    name, _, rest = by.partition(b" ")[2].partition(b" <")
    subject = message.lstrip(b"\n").partition(b"\n")[0].decode("utf-8", "replace")
    names = name.decode("utf-8", "replace"), rest.partition(b">")[0].decode("utf-8", "replace")
    return Unsigned(kind, names, subject[:SUBJECT], content, len(lines[0].partition(b" ")[2]) == 64)


def sign(key: Ed25519PrivateKey, content: bytes) -> str:
    """Return the signature for the namespace `git`, as text."""
    public = _text(b"ssh-ed25519") + _text(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
    about = _text(NAMESPACE) + _text(b"") + _text(HASH)
    signed = key.sign(MAGIC + about + _text(hashlib.sha512(content).digest()))
    blob = MAGIC + struct.pack(">I", 1) + _text(public) + about + _text(_text(b"ssh-ed25519") + _text(signed))
    lines = "\n".join(textwrap.wrap(base64.b64encode(blob).decode(), 70))
    return f"-----BEGIN SSH SIGNATURE-----\n{lines}\n-----END SSH SIGNATURE-----\n"


def sha_of(unsigned: Unsigned, signature: str) -> str:
    """Return the hash of the object that git makes of it with this signature."""
    if unsigned.kind == "tag":
        content = unsigned.content + signature.encode()
    else:
        head, _, message = unsigned.content.partition(b"\n\n")
        name = b"gpgsig-sha256" if unsigned.is_sha256 else b"gpgsig"
        lines = signature.strip().encode().replace(b"\n", b"\n ")
        content = head + b"\n" + name + b" " + lines + b"\n\n" + message
    digest = hashlib.sha256() if unsigned.is_sha256 else hashlib.sha1(usedforsecurity=False)
    digest.update(f"{unsigned.kind} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def _text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value
