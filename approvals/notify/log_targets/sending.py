"""Send each target what it has not got: in order, without a gap, again after a failure (dashboard.workers.outbox).

The cursor moves in the database only after a target took the events, so the last ones may be sent twice; a folder drops
what it has already.
"""

import json
import logging
import os
import socket
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import requests
from django.conf import settings
from django.db.models import QuerySet
from django.utils.text import slugify

from approvals.models import LogTarget, TargetKind
from approvals.notify import direct
from approvals.notify.log_targets import alerts, formats, targets
from dashboard.files.locks import take_lock
from dashboard.keys import keyring
from dashboard.keys.key_files import make_private
from dashboard.models import Event, Membership, Role
from dashboard.net import outbound, standard_webhooks
from dashboard.workers.outbox import Message, NotNeeded, NotSent, Sender
from workspaces.services.outbound import only_reachable

logger = logging.getLogger("handrail.log_out")
BATCH = 200  # events of one message
TIMEOUT = 10  # seconds without a byte
TAIL_BYTES = 65_536  # read first of the end of a day's file


class LogEvents(Sender):
    """Sends events to those of the targets `rows` that are due."""

    waits = (5, 10, 30, 120, 600, 3600)

    def __init__(self, rows: QuerySet):
        self.rows = rows

    def due(self, now):
        return self.rows.due(now).order_by("pk")

    def message(self, target: LogTarget, now: datetime) -> Message:
        events = list(Event.objects.filter(team=target.team_id, seq__gt=target.cursor).order_by("seq")[:BATCH])
        if not (events and target.active):
            raise NotNeeded
        wanted = [event for event in events if not target.only_alerts or alerts.is_alert(event)]
        if not wanted or target.kind == TargetKind.ADMINS:  # who are told when the cursor moves
            return Message(lambda: None, (events[-1].seq, wanted))
        return Message(partial(_taken, WAYS[target.kind](target, wanted, now)), (events[-1].seq, wanted))

    def sent(self, target: LogTarget, about: tuple[int, list[Event]], now: datetime) -> int:
        upto, wanted = about
        done = {"cursor": upto} | ({"sent_at": now} if wanted else {})
        if not LogTarget.objects.filter(pk=target.pk, cursor=target.cursor).update(**done):
            return 0
        if target.kind == TargetKind.ADMINS:
            _tell_admins(target, wanted)
        return len(wanted)


def _taken(send: Callable):
    try:
        send()
    except OSError as error:
        raise NotSent(str(error) or type(error).__name__) from None


def _to_webhook(target: LogTarget, events: list[Event], now: datetime) -> Callable:
    try:
        secret = keyring.load().decrypt(target.value, targets.associated_data(target))
    except keyring.Unreadable as error:
        raise NotSent("Its signing key can't be decrypted. Add the target again.") from error
    body, timestamp = formats.webhook_body(target.team, events), str(int(now.timestamp()))
    name = f"{target.pk}-{events[0].seq}-{events[-1].seq}"
    headers = {
        "Content-Type": "application/json",
        "Handrail-Timestamp": timestamp,
        "Handrail-Signature": f"sha256={formats.signature(secret, timestamp, body)}",
    }
    if secret.startswith(standard_webhooks.PREFIX.encode()):  # older secrets are not of this form
        headers |= standard_webhooks.headers(secret.decode(), name, timestamp, body)
    return partial(_post, target.address, body, headers)


def _post(address: str, body: bytes, headers: dict):
    try:
        with only_reachable():
            answer = outbound.post(
                address, data=body, headers=headers, timeout=TIMEOUT, allow_redirects=False, stream=True
            )
            answer.close()
    except requests.RequestException as error:
        raise NotSent(f"It could not be reached ({type(error).__name__}).") from None
    if not 200 <= answer.status_code < 300:
        raise NotSent(f"It answered {answer.status_code}.")


def _to_syslog(target: LogTarget, events: list[Event], now: datetime) -> Callable:
    host = slugify(settings.HANDRAIL_HOST_NAME) or "-"
    body = b"".join(formats.syslog(event, target.team, host) for event in events)
    return partial(_to_socket, target.address, body)


def _to_socket(address: str, body: bytes):
    parts = urlsplit(address)
    with only_reachable(), outbound.connect(parts.hostname, parts.port, TIMEOUT) as plain:
        if parts.scheme == "tls":
            with outbound.wrapped(plain, parts.hostname) as secure:
                secure.sendall(body)
                secure.unwrap()
            return
        plain.sendall(body)
        plain.shutdown(socket.SHUT_WR)
        try:
            plain.recv(1)  # returns when the other side has read to the end and closes; syslog itself confirms nothing
        except TimeoutError:
            logger.info("the log target %s keeps its connection open", address)


def _to_folder(target: LogTarget, events: list[Event], now: datetime) -> Callable:
    lines = [(event.seq, formats.line(event)) for event in events]
    return partial(_append, targets.folder_of(target.team), f"{now:%Y-%m-%d}.jsonl", lines)


def _append(folder: Path, today: str, lines: list[tuple[int, bytes]]):
    """Append to the file of the day; what it has already, after a kill, is not written twice."""
    make_private(folder)
    lock = take_lock(folder / ".lock", wait=TIMEOUT)
    try:
        newest = max((path.name for path in folder.glob("*.jsonl")), default="")
        name = max(newest, today)
        last = _mend_last_line(folder / newest) if newest else 0
        fd = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "ab") as out:
            out.write(b"".join(line for seq, line in lines if seq > last))
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


def _tell_admins(target: LogTarget, events: list[Event]):
    """Notify the admins of the team on their devices and channels."""
    admins = Membership.objects.filter(team=target.team, role=Role.ADMIN, user__is_active=True).select_related("user")
    for membership in admins:
        for event in events:
            direct.queue_message(membership.user, alerts.sentence(event, target.team))


WAYS = {
    TargetKind.WEBHOOK: _to_webhook,
    TargetKind.SYSLOG: _to_syslog,
    TargetKind.FOLDER: _to_folder,
}
