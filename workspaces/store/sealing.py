"""Encryption with AES-256-GCM, as an option: of a store's blocks and index segments, and of files beside a store.

A key is 32 random bytes, named by its id, which is a hash of it. What is encrypted names the key, so that older keys
still read what they wrote once there is a newer one. Ids of objects are hashes of what they are without encryption: the
store keeps equal contents once, as ever.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from blake3 import blake3

from .errors import Damaged, NoKey, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

KEY_BYTES, ID_BYTES, NONCE_BYTES, TAG_BYTES = 32, 8, 12, 16
HEAD_BYTES = ID_BYTES + NONCE_BYTES
SEGMENT = b"HS\x01\x00"  # how an encrypted index segment begins
FILE = b"HSF\x01"  # how an encrypted file begins
FILE_HEAD_BYTES = len(FILE) + ID_BYTES
PIECE_BYTES = 1 << 20  # of a file, encrypted at once
_START_BYTES = 7  # of a nonce, the same for all pieces of a file
_CONTEXT = "handrail store 2026-11-30 id of a key"


class Key(NamedTuple):
    """A key and its id."""

    id: bytes
    bytes: bytes

    @classmethod
    def of(cls, data: bytes) -> Key:
        return cls(blake3(data, derive_key_context=_CONTEXT).digest(ID_BYTES), data)

    @classmethod
    def fresh(cls) -> Key:
        return cls.of(os.urandom(KEY_BYTES))


class Keys:
    """The keys of a store, newest first: the newest encrypts, all of them decrypt. Without any nothing is encrypted."""

    def __init__(self, keys: Iterable[Key] = ()):
        self._keys = tuple(keys)

    def newest(self) -> Key | None:
        """Return the key to write with."""
        return self._keys[0] if self._keys else None

    def find(self, key_id: bytes) -> Key | None:
        return next((key for key in self._keys if key.id == key_id), None)

    def key(self, key_id: bytes, where: str) -> Key:
        """Return the key with this id. Raise NoKey."""
        if (found := self.find(key_id)) is None:
            raise NoKey(f"{where} is encrypted with the key {key_id.hex()}, which is not among the given ones")
        return found


def seal(key: Key, nonce: bytes, data: bytes, about: bytes) -> bytes:
    """Encrypt; the result is TAG_BYTES longer. A nonce may be used once with a key."""
    return _cipher(key).encrypt(nonce, data, about)


def unseal(key: Key, nonce: bytes, data: bytes, about: bytes, where: str) -> bytes:
    """Decrypt the result of `seal`. Raise Damaged if it was changed."""
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(nonce, data, about)
    except InvalidTag:
        raise Damaged(f"{where} was changed after it was encrypted") from None


def _cipher(key: Key):
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # a store without keys does not load it

    return AESGCM(key.bytes)


def sealed_segment(key: Key | None, data: bytes) -> bytes:
    """Return an index segment as a bucket keeps it."""
    if key is None:
        return data
    head = SEGMENT + key.id
    nonce = os.urandom(NONCE_BYTES)
    return head + nonce + seal(key, nonce, data, head)


def plain_segment(keys: Keys, data: bytes, where: str) -> bytes:
    """Return the result of `sealed_segment` as it was. Raise NoKey or Damaged."""
    if not data.startswith(SEGMENT):
        return data
    head, nonce = data[: len(SEGMENT) + ID_BYTES], data[len(SEGMENT) + ID_BYTES :][:NONCE_BYTES]
    key = keys.key(head[len(SEGMENT) :], where)
    return unseal(key, nonce, data[len(SEGMENT) + HEAD_BYTES :], head, where)


def seal_file(key: Key, source: BinaryIO, target: BinaryIO, about: bytes) -> None:
    """Encrypt a file of any length, bound to `about`, such as its name."""
    head, start = FILE + key.id, os.urandom(_START_BYTES)
    target.write(head + start)
    piece, number = source.read(PIECE_BYTES), 0
    while True:
        following = source.read(PIECE_BYTES)
        target.write(seal(key, _nonce_of(start, number, is_last=not following), piece, head + about))
        if not following:
            return
        piece, number = following, number + 1


def sealed_with(head: bytes) -> bytes | None:
    """Return the id of the key of a file that begins so; None if it is not encrypted."""
    return head[len(FILE) : FILE_HEAD_BYTES] if head.startswith(FILE) and len(head) >= FILE_HEAD_BYTES else None


def unseal_file(key: Key, source: BinaryIO, target: BinaryIO, about: bytes, where: str) -> None:
    """Decrypt the result of `seal_file`. Raise Damaged if it was changed, cut short or moved."""
    head, start = source.read(FILE_HEAD_BYTES), source.read(_START_BYTES)
    piece, number = source.read(PIECE_BYTES + TAG_BYTES), 0
    while True:
        following = source.read(PIECE_BYTES + TAG_BYTES)
        nonce = _nonce_of(start, number, is_last=not following)
        target.write(unseal(key, nonce, piece, head + about, where))
        if not following:
            return
        piece, number = following, number + 1


def _nonce_of(start: bytes, number: int, *, is_last: bool) -> bytes:
    # The last piece is marked, so that a file that was cut short is noticed.
    return start + number.to_bytes(4, "big") + bytes([is_last])


def written(keys: Iterable[Key]) -> str:
    """Return the text of a file with keys, newest first."""
    return "".join(f"{b64encode(key.bytes).decode()}\n" for key in keys)


def read(path: Path) -> Keys:
    """Read a file with keys: one a line, in base64, newest first. Raise StoreError."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
        keys = [b64decode(line, validate=True) for line in lines]
    except OSError as error:
        raise StoreError(f"the keys in {path} cannot be read: {error.strerror}") from error
    except ValueError:
        keys = []
    if not keys or any(len(key) != KEY_BYTES for key in keys):
        raise StoreError(f"{path} has no keys: write one a line, {KEY_BYTES} bytes in base64, newest first")
    return Keys(map(Key.of, keys))
