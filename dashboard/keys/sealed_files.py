"""Encrypt streams with the key ring: memory images, which contain whatever programs had in memory.

    with open(image, "wb") as out:
        sealed_files.seal(source, out, about=f"memory {workspace.pk} {generation}")
    with open(image, "rb") as sealed:
        sealed_files.unseal(sealed, target, about=…)

Works in constant memory, on anything with `read` and `write` (a pipe to QEMU, say). Each stream has its own key, which
the ring's newest key encrypts. A stream that was changed, cut short, reordered or sealed for another place raises
Unreadable at the first piece that shows it; discard the output written before. Rotating the ring keeps the keys of
sealed files that lie in a workspace's folder, or in `memory` below it.
"""

import os
import struct
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from dashboard.keys import keyring
from dashboard.keys.keyring import Unreadable

MAGIC = b"HRSEAL01"
PIECE = 1 << 20
TAG = 16
_WRAPPED = keyring.HEAD + keyring.NONCE_BYTES + 32 + TAG
HEADER = len(MAGIC) + _WRAPPED


def seal(source: BinaryIO, target: BinaryIO, *, about: str) -> int:
    """Encrypt all of `source`; return its size in bytes."""
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
    """Decrypt all of `source`; return the size of the plaintext in bytes. Raise Unreadable."""
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
    """Return the ids of the ring's keys that sealed files of this host need."""
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
    # The key is used for this stream only, so a counter suffices; the last piece is marked to detect truncation.
    return struct.pack(">B3xQ", last, number)


def _read(source: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, or less at the end; a single read from a pipe may return less."""
    parts, left = [], size
    while left and (part := source.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
