"""The requests that a store makes of an S3 bucket, with errors in words.

Requests that may be repeated are repeated for some time while the bucket does not answer. Those with a precondition are
repeated by obstore alone, a few times, and of one that is refused then the object says whose it is.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ..errors import StoreError
from . import SCHEME, Changed

try:
    import obstore
    from obstore import exceptions
    from obstore.store import S3Store
except ImportError as error:
    raise StoreError("a bucket needs the package obstore: pip install 'handrail[s3]'") from error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_PIECE_BYTES = 8 << 20
_DELETED_AT_ONCE = 500  # keys in one request; S3 takes 1,000
_used_in: dict[str, int] = {}  # the process that made the first request
_ANSWER = "Server returned non-2xx status code: "


class Unreachable(StoreError):
    """The bucket does not answer, or fails."""


class Found(NamedTuple):
    """One object of a listing: its name, length in bytes, and time of writing (seconds since 1970, the bucket's)."""

    name: str
    size: int
    at: float


class Client:
    """One prefix of a bucket. Thread-safe. `store` is an obstore store; `address` is for messages."""

    def __init__(self, store, address: str, patience: float | None = None):
        self._store, self.address = store, address
        self.patience = PATIENCE_SECONDS if patience is None else patience

    @classmethod
    def at(cls, address: str, environ: Mapping[str, str] = os.environ, patience: float | None = None) -> Client:
        """Return a client for `s3://BUCKET/PREFIX` with the standard AWS_* variables. Raise StoreError.

        `patience`: for how many seconds a request is repeated while the bucket does not answer; 0: one short try.
        """
        bucket, _, prefix = address.removeprefix(SCHEME).partition("/")
        if not bucket:
            raise StoreError(f"{address} does not name a bucket: write s3://BUCKET/PREFIX")
        endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or None
        options = {
            "endpoint": endpoint,
            "region": environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            "access_key_id": environ.get("AWS_ACCESS_KEY_ID"),
            "secret_access_key": environ.get("AWS_SECRET_ACCESS_KEY"),
            "session_token": environ.get("AWS_SESSION_TOKEN"),
        }
        try:
            store = S3Store(
                bucket,
                prefix=prefix.strip("/") or None,
                client_options={
                    "allow_http": bool(endpoint and endpoint.startswith("http://")),
                    "timeout": "5s" if patience == 0 else "120s",
                },
                retry_config={"max_retries": 0 if patience == 0 else 3, "retry_timeout": timedelta(seconds=20)},
                **{name: value for name, value in options.items() if value},
            )
        except exceptions.BaseError as error:
            raise StoreError(f"{address} cannot be used: {_first_line(error)}") from error
        return cls(store, address, patience)

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, name: str, unless: str = "") -> tuple[bytes, str] | None:
        """Return an object's bytes and tag, None if the tag is still `unless`. Raise FileNotFoundError."""

        def get():
            try:
                found = obstore.get(self._store, name, options={"if_none_match": unless} if unless else None)
                return bytes(found.bytes()), found.meta["e_tag"]
            except exceptions.NotModifiedError:
                return None

        return self._repeated(name, get)

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self._repeated(name, lambda: bytes(obstore.get_range(self._store, name, start=start, length=length)))

    def size(self, name: str) -> int:
        return self._repeated(name, lambda: obstore.head(self._store, name)["size"])

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except FileNotFoundError:
            return False
        return True

    def ls(self, folder: str) -> list[Found]:
        """Return all objects below a folder, by their names there."""

        def ls():
            return [
                Found(each["path"].removeprefix(f"{folder}/"), each["size"], each["last_modified"].timestamp())
                for batch in obstore.list(self._store, folder)
                for each in batch
            ]

        return self._repeated(folder, ls)

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(self, name: str, data: bytes) -> None:
        """Write an object whose name no other writer uses."""
        self._repeated(name, lambda: obstore.put(self._store, name, data, use_multipart=False))

    def put_file(self, name: str, path: Path) -> None:
        """Write an object from a file of any length, in parts."""
        self._repeated(name, lambda: obstore.put(self._store, name, path))

    def get_file(self, name: str, out: BinaryIO) -> None:
        """Write an object's bytes to an open file. Raise FileNotFoundError."""

        def get():
            out.seek(0)
            for piece in obstore.get(self._store, name).stream(min_chunk_size=_PIECE_BYTES):
                out.write(piece)
            out.truncate()

        self._repeated(name, get)

    def create(self, name: str, data: bytes) -> str:
        """Write an object that must not be there yet; return its tag. Raise Changed."""
        return self._put_if(name, data, "create")

    def replace(self, name: str, data: bytes, tag: str) -> str:
        """Replace an object that must still have this tag; return the new one. Raise Changed."""
        return self._put_if(name, data, {"e_tag": tag})

    def _put_if(self, name: str, data: bytes, mode) -> str:
        """Write an object under a precondition; return its tag. Raise Changed.

        obstore repeats a put whose answer got lost, and its own first try can make the precondition untrue.
        """
        try:
            with self._in_words(name):
                return obstore.put(self._store, name, data, mode=mode, use_multipart=False)["e_tag"]
        except Changed:
            with suppress(FileNotFoundError):
                there, tag = self.get(name)
                if there == data:
                    return tag
            raise

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        for start in range(0, len(names), _DELETED_AT_ONCE):
            batch = names[start : start + _DELETED_AT_ONCE]
            self._repeated(batch[0], lambda batch=batch: obstore.delete(self._store, batch))

    # -- errors ----------------------------------------------------------------------------------------------------

    def _repeated(self, name: str, request: Callable):
        """Make a request, again while the bucket does not answer."""
        deadline = time.monotonic() + self.patience
        while True:
            try:
                with self._in_words(name):
                    return request()
            except Unreachable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    @contextmanager
    def _in_words(self, name: str) -> Iterator[None]:
        if (
            _used_in.setdefault("pid", os.getpid()) != os.getpid()
        ):  # it would wait for threads that a fork does not copy
            raise AssertionError("this process was forked from one that had used a bucket")
        try:
            yield
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise Changed(name) from error
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StoreError(f"{self.address}: there is no such bucket") from error
            raise FileNotFoundError(errno.ENOENT, "it is not in the bucket", f"{self.address}/{name}") from error
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise StoreError(f"{self.address} refused the key: {_first_line(error)}") from error
        except exceptions.BaseError as error:
            if "NoSuchBucket" in str(error):
                raise StoreError(f"{self.address}: there is no such bucket") from error
            if "409 Conflict" in str(error):  # S3 says so if another conditional write is going on
                raise Changed(name) from error
            raise Unreachable(f"{self.address} does not answer: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return line[line.find(_ANSWER) + len(_ANSWER) :][:200] if _ANSWER in line else line[:200]
