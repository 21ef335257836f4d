"""The key ring for secrets and memory images: HANDRAIL_HOME/keys/ring, one key a line, newest first.

The newest key encrypts, all of them decrypt. Keys are random, never in the database, and part of a backup. A ciphertext
is bound to its place (`about`, such as a row's identity): moved to another place it cannot be decrypted.
"""

import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import take_lock
from dashboard.keys.key_files import make_private

FORMAT = b"\x01"
ID_BYTES, NONCE_BYTES = 8, 12
HEAD = len(FORMAT) + ID_BYTES


class Unreadable(Exception):
    """A ciphertext cannot be decrypted: its key is not in the ring, or it was changed or moved."""


@dataclass(frozen=True)
class Key:
    """An AES-256 key and the id that names it in a ciphertext."""

    id: bytes
    bytes: bytes


@dataclass(frozen=True)
class Ring:
    """The keys as loaded from the file, newest first."""

    keys: tuple[Key, ...]

    @property
    def newest(self) -> Key:
        return self.keys[0]

    def key(self, key_id: bytes) -> Key:
        """Return the key with this id. Raise Unreadable if it is not in the ring."""
        found = next((key for key in self.keys if key.id == key_id), None)
        if found is None:
            raise Unreadable("The key that it was encrypted with is not in the key ring (keys/ring in HANDRAIL_HOME).")
        return found

    def encrypt(self, data: bytes, about: str) -> bytes:
        """Encrypt with the newest key, bound to `about`; return format, key id, nonce and AES-GCM ciphertext."""
        nonce = os.urandom(NONCE_BYTES)
        head = FORMAT + self.newest.id
        return head + nonce + AESGCM(self.newest.bytes).encrypt(nonce, data, head + about.encode())

    def decrypt(self, data: bytes, about: str) -> bytes:
        """Decrypt the result of `encrypt` with the same `about`. Raise Unreadable."""
        data = bytes(data)
        key = self.key(key_id(data))
        nonce, encrypted = data[HEAD : HEAD + NONCE_BYTES], data[HEAD + NONCE_BYTES :]
        try:
            return AESGCM(key.bytes).decrypt(nonce, encrypted, data[:HEAD] + about.encode())
        except InvalidTag:
            raise Unreadable("It was changed, or moved from where it was written.") from None


def key_id(data: bytes) -> bytes:
    """Return the id of the key that encrypted this. Raise Unreadable for an unknown format."""
    data = bytes(data[: HEAD + NONCE_BYTES])
    if len(data) < HEAD + NONCE_BYTES or data[: len(FORMAT)] != FORMAT:
        raise Unreadable("It is not what this version encrypts.")
    return data[len(FORMAT) : HEAD]


def path() -> Path:
    return settings.KEYS_DIR / "ring"


def load() -> Ring:
    """Return the current ring, created on first use. Raise Unreadable if it is damaged or others may read the file."""
    try:
        found = os.stat(path())
    except FileNotFoundError:
        with changing():
            if not path().exists():
                _write((fresh(),))
        found = os.stat(path())
    if found.st_mode & 0o077:
        raise Unreadable(f"Others can read {path()}; take that away (chmod 600) and try again.")
    return _read(str(path()), found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(name: str, _inode: int, _mtime_ns: int) -> Ring:
    try:
        return Ring(parsed(Path(name).read_text()))
    except ValueError:
        raise Unreadable(f"{name} is damaged: restore it from a backup.") from None


def parsed(text: str) -> tuple[Key, ...]:
    """Return the keys of a text as `written` makes it, newest first. Raise ValueError."""
    keys = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            identity, _, key = line.partition(" ")
            keys.append(Key(bytes.fromhex(identity), b64decode(key, validate=True)))
    if not keys or any((len(key.id), len(key.bytes)) != (ID_BYTES, 32) for key in keys):
        raise ValueError("no keys of a ring")
    return tuple(keys)


def written(keys: Sequence[Key]) -> str:
    """Return the text of a ring file with these keys."""
    text = "# Keys of secrets and memory images, newest first. Without them these cannot be read.\n"
    return text + "".join(f"{key.id.hex()} {b64encode(key.bytes).decode()}\n" for key in keys)


def _write(keys) -> None:
    """Replace the file as a whole, so that a crash leaves the old ring or the new one. Call only within `changing`."""
    make_private(path().parent)
    for left in path().parent.glob(".ring.*.new"):  # left by a killed writer: may hold keys that were removed
        left.unlink()
    replace_file(path(), written(keys).encode())


@contextmanager
def _locked(*, shared):
    make_private(path().parent)
    fd = take_lock(path().with_name("ring.lock"), shared=shared)
    try:
        yield
    finally:
        os.close(fd)


def changing():
    """Lock the ring exclusively: no other process reads it with `steady` or changes it inside."""
    return _locked(shared=False)


@contextmanager
def steady():
    """Yield the ring; none of its keys is removed inside. Store what you encrypt with it before leaving."""
    load()  # creates the ring if missing, which the shared lock does not allow
    with _locked(shared=True):
        yield load()


def fresh() -> Key:
    """Return a new key, which is in no ring yet."""
    return Key(secrets.token_bytes(ID_BYTES), secrets.token_bytes(32))


def add(keys: Sequence[Key], *, first: bool) -> Ring:
    """Add keys that are not in the ring yet. With `first` they are the newest ones, in their order. Return the ring."""
    load()
    with changing():
        ring = load().keys
        _write((*keys, *_without(ring, keys)) if first else (*ring, *_without(keys, ring)))
        return load()


def _without(keys: Sequence[Key], others: Sequence[Key]) -> list[Key]:
    return [key for key in keys if key not in others]


def keep_only(needed) -> Ring:
    """Remove the keys whose ids are not in the set `needed()`; the newest always stays. Return the new ring."""
    with changing():
        ring, wanted = load(), needed()
        _write([key for key in ring.keys if key == ring.newest or key.id in wanted])
        return load()
