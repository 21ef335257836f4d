"""The keys that secrets and memory images are encrypted with: HANDRAIL_HOME/keys/ring, a key a line, newest first.

The newest encrypts, all of them decrypt. They are random, never in the database, and travel with a backup. What is
encrypted is bound to a place (`about`, such as a row's identity): moved to another place it does not decrypt.
"""

import fcntl
import os
import secrets
from base64 import b64decode, b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings

from dashboard.keys import make_private

FORMAT = b"\x01"
ID_BYTES, NONCE_BYTES = 8, 12
HEAD = len(FORMAT) + ID_BYTES


class Unreadable(Exception):
    """What was encrypted cannot be read: no key of the ring fits, or it is not where it was written."""


@dataclass(frozen=True)
class Key:
    id: bytes
    bytes: bytes


@dataclass(frozen=True)
class Ring:
    """The keys as they were in the file, newest first."""

    keys: tuple[Key, ...]

    @property
    def newest(self) -> Key:
        return self.keys[0]

    def key(self, key_id: bytes) -> Key:
        found = next((key for key in self.keys if key.id == key_id), None)
        if found is None:
            raise Unreadable("The key that it was encrypted with is not in the key ring (keys/ring in HANDRAIL_HOME).")
        return found

    def encrypt(self, data: bytes, about: str) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        head = FORMAT + self.newest.id
        return head + nonce + AESGCM(self.newest.bytes).encrypt(nonce, data, head + about.encode())

    def decrypt(self, data: bytes, about: str) -> bytes:
        data = bytes(data)
        key = self.key(key_id(data))
        nonce, encrypted = data[HEAD : HEAD + NONCE_BYTES], data[HEAD + NONCE_BYTES :]
        try:
            return AESGCM(key.bytes).decrypt(nonce, encrypted, data[:HEAD] + about.encode())
        except InvalidTag:
            raise Unreadable("It was changed, or moved from where it was written.") from None


def key_id(data: bytes) -> bytes:
    """Which key encrypted this."""
    data = bytes(data[: HEAD + NONCE_BYTES])
    if len(data) < HEAD + NONCE_BYTES or data[: len(FORMAT)] != FORMAT:
        raise Unreadable("It is not what this version encrypts.")
    return data[len(FORMAT) : HEAD]


def path() -> Path:
    return settings.KEYS_DIR / "ring"


def load() -> Ring:
    """The ring as it is now; made at first use. Unreadable for a file that is damaged or that others may read."""
    try:
        found = os.stat(path())
    except FileNotFoundError:
        with changing():
            if not path().exists():
                _write((_fresh(),))
        found = os.stat(path())
    if found.st_mode & 0o077:
        raise Unreadable(f"Others can read {path()}; take that away (chmod 600) and try again.")
    return _read(str(path()), found.st_ino, found.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(name: str, _inode: int, _mtime_ns: int) -> Ring:
    keys = []
    for line in Path(name).read_text().splitlines():
        if line and not line.startswith("#"):
            try:
                identity, _, key = line.partition(" ")
                keys.append(Key(bytes.fromhex(identity), b64decode(key, validate=True)))
            except ValueError:
                raise Unreadable(f"{name} is damaged: bring it back from a backup.") from None
    if not keys or any((len(key.id), len(key.bytes)) != (ID_BYTES, 32) for key in keys):
        raise Unreadable(f"{name} is damaged: bring it back from a backup.")
    return Ring(tuple(keys))


def _fresh() -> Key:
    return Key(secrets.token_bytes(ID_BYTES), secrets.token_bytes(32))


def _write(keys) -> None:
    """All at once, so that whoever is killed here leaves the old ring or the new one. Only while `changing`."""
    make_private(path().parent)
    fresh = path().with_name(".ring.new")
    fresh.unlink(missing_ok=True)
    text = "# Keys of secrets and memory images, newest first. Without them these cannot be read.\n"
    text += "".join(f"{key.id.hex()} {b64encode(key.bytes).decode()}\n" for key in keys)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path())
    folder = os.open(path().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextmanager
def _locked(how):
    make_private(path().parent)
    fd = os.open(path().with_name("ring.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


def changing():
    """Nobody else reads or changes the ring inside."""
    return _locked(fcntl.LOCK_EX)


@contextmanager
def steady():
    """The ring, of which no key goes inside: what was encrypted with it is written down before the end."""
    load()  # made outside the lock, which is not one for changes
    with _locked(fcntl.LOCK_SH):
        yield load()


def add_key() -> Ring:
    """A new newest key; the others stay."""
    load()
    with changing():
        ring = load()
        _write((_fresh(), *ring.keys))
        return load()


def keep_only(needed) -> Ring:
    """Remove the keys that `needed()`, a set of key ids, does not name; the newest stays in any case."""
    with changing():
        ring, wanted = load(), needed()
        _write([key for key in ring.keys if key == ring.newest or key.id in wanted])
        return load()
