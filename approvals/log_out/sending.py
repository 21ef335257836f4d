"""Send each target what it has not got: in order, without a gap, again after a failure.

The cursor moves in the database only after a target took the events. A process that is killed in between sends the last
ones again (at least once; a folder drops what it has already).
"""

import json
import logging
import os
import socket
import ssl
import time
from datetime import timedelta
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db.models import QuerySet
from django.utils.text import slugify

from approvals.log_out import alerts, formats, targets
from approvals.models import LogTarget, TargetKind
from approvals.notify import direct
from approvals.notify.reach import only_reachable
from dashboard import clock
from dashboard.files.locks import take_lock
from dashboard.keys import keyring
from dashboard.keys.key_files import make_private
from dashboard.models import Event, Membership, Role
from dashboard.workers.deadlines import Late, within

logger = logging.getLogger("handrail.log_out")
BATCH = 200  # events of one message
TIMEOUT = 10  # seconds without a byte
DEADLINE = 2 * TIMEOUT  # seconds for a whole answer
TAIL_BYTES = 65_536  # read first of the end of a day's file
LEASE = timedelta(seconds=90)  # within which another host does not send to the same target
RETRIES = [timedelta(seconds=seconds) for seconds in (5, 10, 30, 120, 600, 3600)]  # the last one for ever


class NotTaken(Exception):
    """The target did not take the events; the text can be shown."""


def send_due(rows: QuerySet, seconds: float = 60) -> int:
    """Send to those of the targets `rows` that are due, for a while; return how many events were taken."""
    taken, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        found = list(rows.due(clock.now()).select_related("team").order_by("pk"))
        if not found:
            break
        taken += sum(_send_to(target) for target in found)
    return taken


def _send_to(target: LogTarget) -> int:
    """Send one batch to one target; return how many events it took."""
    now = clock.now()
    # Of several hosts one claims it; a process that is killed leaves it due again after the lease.
    mine = LogTarget.objects.filter(pk=target.pk, cursor=target.cursor, next_try_at=target.next_try_at)
    if not mine.update(next_try_at=now + LEASE):
        return 0
    events = list(Event.objects.filter(team=target.team, seq__gt=target.cursor).order_by("seq")[:BATCH])
    wanted = [event for event in events if not target.only_alerts or alerts.is_alert(event)]
    try:
        if wanted:
            SENDERS[target.kind](target, wanted)
    except (NotTaken, OSError) as error:
        _note_failure(target, str(error) or type(error).__name__)
        return 0
    done = {"cursor": events[-1].seq, "next_try_at": None, "failures": 0, "problem": ""}
    done |= {"sent_at": clock.now()} if wanted else {}
    LogTarget.objects.filter(pk=target.pk, cursor=target.cursor).update(**done)
    return len(wanted)


def _note_failure(target: LogTarget, problem: str):
    failures = target.failures + 1
    following = clock.now() + RETRIES[min(failures, len(RETRIES)) - 1]
    rows = LogTarget.objects.filter(pk=target.pk)
    rows.update(failures=failures, problem=problem[:200], next_try_at=following)
    logger.warning("log target %s took nothing (%s in a row): %s", target, failures, problem)


def _to_webhook(target: LogTarget, events: list[Event]):
    try:
        secret = keyring.load().decrypt(target.value, targets.associated_data(target))
    except keyring.Unreadable:
        raise NotTaken("Its signing key can't be decrypted. Add the target again.") from None
    body, timestamp = formats.webhook_body(target.team, events), str(int(clock.now().timestamp()))
    headers = {
        "Content-Type": "application/json",
        "Handrail-Timestamp": timestamp,
        "Handrail-Signature": f"sha256={formats.signature(secret, timestamp, body)}",
    }
    [answered] = within(DEADLINE, [lambda: _post(target.address, body, headers)])
    if isinstance(answered, Late):
        raise NotTaken(f"It did not answer within {DEADLINE} s.")
    if isinstance(answered, Exception):
        raise answered
    if not 200 <= answered < 300:
        raise NotTaken(f"It answered {answered}.")


def _post(address: str, body: bytes, headers: dict) -> int:
    """Return the status. Raise NotTaken, OSError."""
    try:
        with only_reachable():
            answer = requests.post(
                address, data=body, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True
            )
            answer.close()
    except requests.RequestException as error:
        raise NotTaken(f"It could not be reached ({type(error).__name__}).") from None
    return answer.status_code


def _to_syslog(target: LogTarget, events: list[Event]):
    parts = urlsplit(target.address)
    host = slugify(settings.HANDRAIL_HOST_NAME) or "-"
    with only_reachable(), socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT) as plain:
        if parts.scheme == "tls":
            with ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname) as secure:
                secure.sendall(b"".join(formats.syslog(event, target.team, host) for event in events))
                secure.unwrap()
            return
        plain.sendall(b"".join(formats.syslog(event, target.team, host) for event in events))
        plain.shutdown(socket.SHUT_WR)
        try:
            plain.recv(1)  # returns when the other side has read to the end and closes; syslog itself confirms nothing
        except TimeoutError:
            logger.info("log target %s keeps its connection open", target)


def _to_folder(target: LogTarget, events: list[Event]):
    """Append to the file of the day; what it has already, after a kill, is not written twice."""
    folder = make_private(targets.folder_of(target.team))
    lock = take_lock(folder / ".lock", wait=TIMEOUT)
    try:
        newest = max((path.name for path in folder.glob("*.jsonl")), default="")
        name = max(newest, f"{clock.now():%Y-%m-%d}.jsonl")
        last = _mend_last_line(folder / newest) if newest else 0
        fresh = b"".join(formats.line(event) for event in events if event.seq > last)
        fd = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "ab") as out:
            out.write(fresh)
            out.flush()
            os.fsync(out.fileno())
    finally:
        os.close(lock)


def _mend_last_line(path) -> int:
    """Cut off a line that a killed process left unfinished; return the number of the last whole event.

    Reads only the end of the file, which is as long as the day.
    """
    with open(path, "r+b") as file:
        size, length = file.seek(0, os.SEEK_END), TAIL_BYTES
        while True:
            start = max(0, size - length)
            file.seek(start)
            lines = file.read(size - start).split(b"\n")
            if start == 0 or len(lines) > 2:  # of the first line read only the end may be here
                break
            length *= 4
        file.truncate(size - len(lines[-1]))
    return json.loads(lines[-2])["seq"] if len(lines) > 1 else 0


def _to_admins(target: LogTarget, events: list[Event]):
    """Notify the admins of the team on their devices and channels."""
    admins = Membership.objects.filter(team=target.team, role=Role.ADMIN, user__is_active=True).select_related("user")
    for membership in admins:
        for event in events:
            direct.tell(membership.user, alerts.words(event, target.team))


SENDERS = {
    TargetKind.WEBHOOK: _to_webhook,
    TargetKind.SYSLOG: _to_syslog,
    TargetKind.FOLDER: _to_folder,
    TargetKind.ADMINS: _to_admins,
}
