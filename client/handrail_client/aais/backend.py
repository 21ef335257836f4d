"""The state of an AAIS authority as a document at the desk."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from aais.backends import CorruptState, LockTimeout, RecoveryRequired, StoreError

from handrail_client import json_text
from handrail_client.desk import Handrail
from handrail_client.documents import Changed, Document
from handrail_client.errors import HandrailError

logger = logging.getLogger("handrail_client")
LEASE = 30  # seconds for which a lock that nobody renews is respected
LOCK_TIMEOUT = 45  # seconds; more than LEASE, so that the lock of a process that died is got
PAUSE = 0.05  # seconds between tries of the lock
KEPT = 5  # damaged states

_threads: dict[tuple, threading.Lock] = {}  # one lock for each document of a desk in this process
_guard = threading.Lock()
_held = threading.local()  # the documents that the thread has locked


class HandrailBackend:
    """An authority's state as a document at the desk, and a second one as its lock.

    A write replaces exactly the version that its transaction has read: a transaction that lost its lock after LEASE
    seconds saves nothing. StoreError if the desk can't be reached.
    """

    def __init__(self, desk: Handrail, name: str, *, lock_timeout: float = LOCK_TIMEOUT):
        self.description = f"{desk.connection.url} document {name}"
        self.lock_timeout = lock_timeout
        self._documents, self._name, self._lock_name = desk.documents, name, f"{name}.lock"
        self._key = (desk.connection.url, desk.connection.token, name)

    @contextmanager
    def transaction(self) -> Iterator["Transaction"]:
        held = _held.__dict__.setdefault("keys", set())
        if self._key in held:
            raise StoreError(f"{self.description} is in a transaction of this thread already.")
        end = time.monotonic() + self.lock_timeout
        with _guard:
            lock = _threads.setdefault(self._key, threading.Lock())
        if not lock.acquire(timeout=self.lock_timeout):
            raise LockTimeout(f"Another thread held {self.description} for {self.lock_timeout:g} seconds.")
        held.add(self._key)
        try:
            mine = self._acquire(end)
            try:
                opened = Transaction(self.description, self._read())
                yield opened
                if opened.is_changed:
                    self._write(opened)
            finally:
                self._release(mine)
        finally:
            held.discard(self._key)
            lock.release()

    def version(self):
        with _store_errors(self.description):
            return self._documents.versions().get(self._name)

    def invalidate(self):
        """Nothing is cached."""

    def exists(self) -> bool:
        return Transaction(self.description, self._read()).stored is not None

    def recovery_status(self) -> RecoveryRequired | None:
        return Transaction(self.description, self._read()).recovery_marker()

    def _read(self) -> Document | None:
        with _store_errors(self.description):
            return self._documents.get(self._name)

    def _write(self, opened: "Transaction"):
        with _store_errors(self.description):
            try:
                self._documents.put(self._name, opened.body, seen=opened.version)
            except Changed:
                raise StoreError(f"{self.description} was changed by another process; nothing was saved.") from None

    def _acquire(self, end: float) -> str:
        """Lock, and return the version of the lock that is ours."""
        seen, since = None, time.monotonic()
        while True:
            with _store_errors(self.description):
                lock = self._documents.get(self._lock_name)
                version = lock.version if lock else ""
                if version != seen:
                    seen, since = version, time.monotonic()
                is_free = lock is None or not lock.body.get("holder") or time.monotonic() - since > LEASE
                with suppress(Changed):
                    if is_free:
                        return self._documents.put(self._lock_name, {"holder": uuid.uuid4().hex}, seen=version)
            if time.monotonic() > end:
                raise LockTimeout(f"Another process held {self.description} for {self.lock_timeout:g} seconds.")
            time.sleep(PAUSE)

    def _release(self, mine: str):
        try:
            self._documents.put(self._lock_name, {"holder": ""}, seen=mine)
        except (Changed, HandrailError) as error:  # the next one waits for LEASE seconds
            logger.warning("The lock of %s was not released: %s", self.description, error)


class Transaction:
    """The state as it was read, and as it is to be saved: {state (JSON text or null), recovery, damaged}."""

    def __init__(self, description: str, document: Document | None):
        self.description, self.version = description, document.version if document else ""
        self.body = {"state": None, "recovery": None, "damaged": []} | (document.body if document else {})
        self.is_changed = False

    @property
    def stored(self) -> str | None:
        return self.body["state"]

    def recovery_marker(self) -> RecoveryRequired | None:
        told = self.body["recovery"]
        return RecoveryRequired(self.description, **told) if told else None

    def load(self):
        if self.stored is None:
            return None
        try:
            return json_text.loads(self.stored)
        except ValueError:
            raise CorruptState("The stored state is no JSON.", self.stored.encode()) from None

    def save(self, state: dict):
        self._change(state=json_text.dumps(state))

    def quarantine(self, *, reason: str, detected_at: datetime, sequence_hint: int) -> RecoveryRequired:
        damaged = [*self.body["damaged"], self.stored][-KEPT:]
        told = {"reason": reason, "quarantined_to": "damaged, in the same document"}
        told |= {"detected_at": detected_at.astimezone(UTC).isoformat(), "sequence_hint": sequence_hint}
        self._change(state=None, recovery=told, damaged=damaged)
        return RecoveryRequired(self.description, **told)

    def clear_recovery(self):
        self._change(recovery=None)

    def _change(self, **parts):
        self.body |= parts
        self.is_changed = True


@contextmanager
def _store_errors(description: str):
    try:
        yield
    except HandrailError as error:
        raise StoreError(f"{description}: {error}") from error
