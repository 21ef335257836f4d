"""Streams encrypted with the key ring: memory images, which hold whatever programs held.

    with open(image, "wb") as out:
        sealing.seal(source, out, about=f"memory {workspace.pk} {generation}")
    with open(image, "rb") as sealed:
        sealing.unseal(sealed, target, about=…)

Files in constant memory, from and to anything with `read` and `write` (a pipe to QEMU, say). A stream has a key of its
own, which the ring's newest encrypts. What was changed, cut short, reordered or meant for another place is Unreadable,
at the piece where that shows: what was given out before must be thrown away. A rotation of the ring leaves the key of
a sealed file in the ring for as long as the file lies in a workspace's folder, or in `memory` below it.
"""

import os
import struct
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from dashboard import keyring
from dashboard.keyring import Unreadable

MAGIC = b"HRSEAL01"
PIECE = 1 << 20
TAG = 16
_WRAPPED = keyring.HEAD + keyring.NONCE_BYTES + 32 + TAG
HEADER = len(MAGIC) + _WRAPPED


def seal(source: BinaryIO, target: BinaryIO, *, about: str) -> int:
    """Encrypt all of `source`; how many bytes it had."""
    key = os.urandom(32)
    with keyring.steady() as ring:
        target.write(MAGIC + ring.encrypt(key, f"sealed {about}"))
    cipher, number, size = AESGCM(key), 0, 0
    piece = _read(source, PIECE)
    while True:
        following = _read(source, PIECE)
        target.write(cipher.encrypt(_nonce(number, last=not following), piece, None))
        size += len(piece)
        if not following:
            return size
        piece, number = following, number + 1


def unseal(source: BinaryIO, target: BinaryIO, *, about: str) -> int:
    """Decrypt all of `source`; how many bytes came out. Raises Unreadable."""
    cipher, number, size = AESGCM(_key_of(_read(source, HEADER), about)), 0, 0
    piece = _read(source, PIECE + TAG)
    while True:
        following = _read(source, PIECE + TAG)
        try:
            data = cipher.decrypt(_nonce(number, last=not following), piece, None)
        except (InvalidTag, ValueError):
            raise Unreadable("A sealed file was changed or cut short.") from None
        target.write(data)
        size += len(data)
        if not following:
            return size
        piece, number = following, number + 1


def keys_in_use() -> set[bytes]:
    """The ring's keys that sealed files of this host need."""
    found = set()
    for pattern in ("workspaces/*/*", "workspaces/*/memory/*"):
        for path in settings.HANDRAIL_HOME.glob(pattern):
            if path.is_file() and not path.is_symlink():
                with open(path, "rb") as file:
                    head = file.read(HEADER)
                if head.startswith(MAGIC) and len(head) == HEADER:
                    found.add(keyring.key_id(head[len(MAGIC) :]))
    return found


def _key_of(head: bytes, about: str) -> bytes:
    if len(head) < HEADER or not head.startswith(MAGIC):
        raise Unreadable("This is no sealed file.")
    return keyring.load().decrypt(head[len(MAGIC) :], f"sealed {about}")


def _nonce(number: int, *, last: bool) -> bytes:
    # The key is of this stream alone, so counting is enough; the last one is marked, so that a cut shows.
    return struct.pack(">B3xQ", last, number)


def _read(source: BinaryIO, size: int) -> bytes:
    """All of it, or what there is before the end: a pipe gives less at a time."""
    parts, left = [], size
    while left and (part := source.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
