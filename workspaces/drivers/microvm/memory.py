"""Memory images: the memory of a paused guest in a file, compressed, encrypted and bound to what it fits.

Format: magic, the length of the head (4 bytes), the head (JSON), then chunks of a 4-byte length and AES-256-GCM over
zstd. The head says what the memory fits. It is associated data of every chunk, together with whether the chunk is the
last; the chunk's number is part of its nonce. A file that was truncated, changed or mixed with another is therefore
refused before the guest runs.
"""

import json
import os
import queue
import secrets
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dashboard.files.atomic_write import flush_folder
from dashboard.keys.key_files import read_or_make

from ..base import DriverError

MAGIC = b"HRMEMORY2\n"
CHUNK = 4 << 20
PIECE = 16 << 20  # maximum of raw memory in one chunk, which bounds reads of highly compressible memory
LEVEL = -3  # level 1 saves a fifth of the disk space, but a pause takes half as long again, and a resume twice as long
AHEAD = 4

WORDS = {  # {field of the head: its name for people}
    "qemu": "QEMU's version",
    "machine": "the machine type",
    "accel": "the kind of acceleration",
    "memory_mib": "the size of the memory",
    "cpus": "the number of CPUs",
    "kernel": "the kernel",
    "root": "the image",
    "layer": "what its setup has installed",
    "initrd": "the agent in the image",
    "clock_mhz": "the speed of this host's processor",
    "disks": "the state of the disk (something has written to it since)",
    "generation": "the workspace's files (another snapshot was restored since)",
}


class Unfit(DriverError):
    """The memory image cannot be used; the message says why."""


@dataclass(frozen=True)
class Kept:
    """The sizes of a memory image: `raw` bytes of guest memory in `bytes` on disk."""

    raw: int
    bytes: int


def _cipher(key: Path) -> AESGCM:
    return AESGCM(sha256(b"memory images:" + read_or_make(key).encode()).digest())


def _nonce(head: dict, number: int) -> bytes:
    return bytes.fromhex(head["salt"]) + struct.pack(">I", number)


def write(key: Path, path: Path, source: int, belongs: dict, *, run: str) -> Kept:
    """Write all of the descriptor `source` to a temporary file beside `path`, durably; `commit` moves it to `path`.

    Two steps, because `source` also ends if the guest dies. `key` is a file, made at first use; `run` is the Run that
    started the guest's programs.
    """
    head = {"belongs": belongs, "run": run, "salt": secrets.token_hex(8)}
    body = json.dumps(head, sort_keys=True).encode()
    cipher, squeeze = _cipher(key), zstandard.ZstdCompressor(level=LEVEL, threads=0).compressobj()
    fresh = _fresh(path)
    fresh.unlink(missing_ok=True)
    raw, number, waiting, since = 0, 0, bytearray(), 0
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:

            def put(data: bytes, last: bool) -> None:
                nonlocal number
                sealed = cipher.encrypt(_nonce(head, number), data, body + (b"last" if last else b"more"))
                file.write(struct.pack(">I", len(sealed)) + sealed)
                number += 1

            file.write(MAGIC + struct.pack(">I", len(body)) + body)
            while data := os.read(source, 1 << 20):
                raw += len(data)
                waiting += squeeze.compress(data)
                if len(waiting) >= CHUNK or raw - since >= PIECE:
                    waiting += squeeze.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                    put(bytes(waiting), last=False)
                    waiting, since = bytearray(), raw
            put(bytes(waiting) + squeeze.flush(), last=True)
            size = file.tell()
            os.fsync(file.fileno())
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise DriverError(f"The memory could not be written: {error.strerror}.") from error
    return Kept(raw, size)


def commit(path: Path) -> None:
    """Move what `write` wrote to `path`, durably."""
    os.replace(_fresh(path), path)
    flush_folder(path.parent)


def _fresh(path: Path) -> Path:
    """Return the path of an uncommitted memory image."""
    return path.with_name(path.name + ".new")


def head_of(path: Path) -> dict:
    """Return the head, {belongs, run, salt}; raise Unfit if there is none to read."""
    with _opened(path) as file:
        return _head(file)[0]


def why_unfit(found: dict, wanted: dict) -> str:
    """Return which fields of `found` differ from `wanted`, as a sentence; "" if the memory fits."""
    names = [words for field, words in WORDS.items() if found.get(field) != wanted.get(field)]
    return f"The memory was saved with different versions: {', '.join(names)}." if names else ""


def read(key: Path, path: Path) -> Iterator[bytes]:
    """Yield the guest's memory piece by piece; raise Unfit, at the latest at the end, if the file is not as written."""
    cipher, expand = _cipher(key), zstandard.ZstdDecompressor().decompressobj()
    with _opened(path) as file:
        head, body = _head(file)
        number, last = 0, False
        while not last:
            length = file.read(4)
            sealed = file.read(struct.unpack(">I", length)[0]) if len(length) == 4 else b""
            if not sealed:
                raise Unfit("The saved memory is incomplete.")
            last = file.tell() == os.fstat(file.fileno()).st_size
            try:
                data = cipher.decrypt(_nonce(head, number), sealed, body + (b"last" if last else b"more"))
            except InvalidTag as error:
                raise Unfit("The saved memory is damaged, or was saved with another key.") from error
            number += 1
            yield expand.decompress(data)


@contextmanager
def read_ahead(key: Path, path: Path) -> Iterator[Iterator[bytes]]:
    """Yield the pieces of `read`, which a thread reads ahead; its exceptions are raised by the iterator."""
    waiting: queue.Queue = queue.Queue(AHEAD)
    left = threading.Event()

    def put(piece) -> bool:
        while not left.is_set():
            with suppress(queue.Full):
                waiting.put(piece, timeout=0.2)
                return True
        return False

    def fill() -> None:
        try:
            if all(put(piece) for piece in read(key, path)):
                put(None)
        except BaseException as error:
            put(error)

    def pieces() -> Iterator[bytes]:
        while (piece := waiting.get()) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    thread = threading.Thread(target=fill, name="memory", daemon=True)
    thread.start()
    try:
        yield pieces()
    finally:
        left.set()
        thread.join()


def discard(path: Path) -> bool:
    """Delete a memory image durably, and an uncommitted one beside it; return False if there was none."""
    _fresh(path).unlink(missing_ok=True)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    flush_folder(path.parent)
    return True


def _opened(path: Path):
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise Unfit("No memory was saved.") from error


def _head(file) -> tuple[dict, bytes]:
    """Read the magic and the head; return the head decoded and as bytes."""
    if file.read(len(MAGIC)) != MAGIC:
        raise Unfit("The saved memory has another version.")
    body = file.read(struct.unpack(">I", file.read(4))[0])
    try:
        return json.loads(body), body
    except ValueError as error:
        raise Unfit("The saved memory is damaged.") from error
