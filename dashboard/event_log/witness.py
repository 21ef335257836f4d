"""An outside witness of checkpoints, where HANDRAIL_WITNESS_URL names one: a time-stamping authority (RFC 3161).

It gets the hash of the newest checkpoint of each log and signs it together with the time, so that not even somebody
who has the database and the installation's key can sign a checkpoint of yesterday. Nothing waits for it.
"""

import logging
from base64 import b64encode
from datetime import datetime, timedelta
from http.client import HTTPException
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from dashboard.event_log import checkpoints
from dashboard.models import LogCheckpoint, Team
from dashboard.net import outbound
from handrail_verify import witness

logger = logging.getLogger("handrail.witness")
SECONDS = 10.0  # for one answer
HEADERS = {"Content-Type": "application/timestamp-query", "Accept": "application/timestamp-reply"}


class Unavailable(Exception):
    """A witness that gave no timestamp that verifies; the message says why."""


def stamp_all():
    """Have the newest checkpoint of each log time-stamped that is due. A witness that is down is asked again later."""
    if not settings.HANDRAIL_WITNESS_URL:
        return
    for team in Team.objects.order_by("pk"):
        checkpoint = due(team, clock.now())
        if checkpoint is None:
            continue
        try:
            stamp(checkpoint)
        except Unavailable as error:
            logger.error("no checkpoint is time-stamped: %s", error)
            return  # it would answer the same for the other teams
        checkpoints.copy_again(checkpoint)


def due(team: Team, now: datetime) -> LogCheckpoint | None:
    """Return the newest checkpoint of a log, if the last one that was time-stamped is old enough."""
    newest = checkpoints.newest(team)
    if newest is None or newest.timestamp:
        return None
    last = team.log_checkpoints.exclude(timestamp="").order_by("-seq").first()
    interval = timedelta(minutes=settings.HANDRAIL_WITNESS_MINUTES)
    return newest if last is None or last.at <= now - interval else None


def stamp(checkpoint: LogCheckpoint) -> datetime:
    """Keep the witness's timestamp with a checkpoint; return its time. Raise Unavailable."""
    message = checkpoints.signed_bytes(checkpoint)
    asked = witness.request(message)
    answer = _post(settings.HANDRAIL_WITNESS_URL, asked.as_bytes())
    authorities = Path(settings.HANDRAIL_WITNESS_CA).read_bytes()
    try:
        at = witness.verify(answer, message, authorities, asked.nonce)
    except witness.BadTimestamp as error:
        raise Unavailable(str(error)) from None
    checkpoint.timestamp = b64encode(answer).decode()
    checkpoint.save(update_fields=["timestamp"])
    return at


def _post(address: str, body: bytes) -> bytes:
    try:
        with outbound.post(address, data=body, headers=HEADERS, timeout=SECONDS, stream=True) as answer:
            if answer.status_code != 200:
                raise Unavailable(f"{address} answered {answer.status_code}")
            token = b""
            for piece in answer.iter_content(8192):
                token += piece
                if len(token) > witness.MAX_TOKEN:
                    raise Unavailable(f"{address} answered more than a timestamp has")
            return token
    except (OSError, HTTPException) as error:  # those of requests are OSErrors
        raise Unavailable(f"{address} gave no answer ({error})") from None


def late_since(now: datetime) -> datetime | None:
    """Return since when a checkpoint waits for the witness, if that is longer than two intervals; else None."""
    if not settings.HANDRAIL_WITNESS_URL:
        return None
    interval = timedelta(minutes=settings.HANDRAIL_WITNESS_MINUTES)
    waiting = [_waiting_since(team) for team in Team.objects.all()]
    oldest = min((at for at in waiting if at), default=None)
    return oldest if oldest and oldest < now - 2 * interval else None


def _waiting_since(team: Team) -> datetime | None:
    """Return the time of the first checkpoint after the last that was time-stamped; None if there is none."""
    last = team.log_checkpoints.exclude(timestamp="").order_by("-seq").first()
    since = team.log_checkpoints.filter(seq__gt=last.seq if last else 0).order_by("seq").first()
    return since.at if since else None
