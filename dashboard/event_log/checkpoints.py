"""Signed checkpoints of each team's log: made every minute in which it grew, and kept in a second place.

Whoever can write to the database can rewrite a log with all its hashes, and nothing in it shows that. A checkpoint in a
second place does, with the public key alone (`python -m handrail_verify log --checkpoint FILE --key KEY`).
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max, OuterRef, QuerySet, Value
from django.db.models.functions import Coalesce

from dashboard.database import clock
from dashboard.database.batches import in_batches
from dashboard.files.locks import take_lock
from dashboard.keys import log_key
from dashboard.keys.key_files import make_private
from dashboard.models import Event, LogCheckpoint, Team
from handrail_verify import canonical, signed
from handrail_verify.checkpoints import PREFIX
from handrail_verify.log import GENESIS, chain_hash

logger = logging.getLogger("handrail.checkpoints")
MAX_EVENTS = 20_000  # verified for one checkpoint; of a log that grew by more, the next one takes the rest
EACH_FOR = timedelta(days=7)  # after which one of each day is kept in the database; the second place keeps all
LOCK_WAIT = 10.0  # seconds


class Broken(Exception):
    """A log that does not continue what the last checkpoint signed; the message says where."""


def grown() -> QuerySet:
    """Return the teams whose log has events after its last checkpoint."""
    own = LogCheckpoint.objects.filter(team=OuterRef("pk")).order_by().values("team")
    return Team.objects.filter(event_seq__gt=Coalesce(own.annotate(newest=Max("seq")).values("newest"), Value(0)))


def sign_all():
    """Sign the end of each log that grew, and bring the second place up to date. A broken log is not signed."""
    now = clock.now()
    for team in grown():
        try:
            sign(team, now)
        except Broken as error:
            logger.error("the log of team %s is not signed: %s", team.slug, error)
        copy_to_second_place(team)
        _thin_out(team, now)


def sign(team: Team, now: datetime) -> LogCheckpoint | None:
    """Verify what the log got since the last checkpoint and sign its end. None if another process did. Raise Broken."""
    last = newest(team)
    seq, head = (last.seq, last.hash) if last else (0, GENESIS)
    if last and not Event.objects.filter(team=team, seq=last.seq, hash=last.hash).exists():
        raise Broken(f"event {last.seq} is no longer the one that was signed")
    upto = min(Team.objects.values_list("event_seq", flat=True).get(pk=team.pk), seq + MAX_EVENTS)
    for event in in_batches(Event.objects.filter(team=team, seq__gt=seq, seq__lte=upto).order_by("seq")):
        if event.seq != seq + 1 or event.prev != head or chain_hash(event.as_export()) != event.hash:
            raise Broken(f"event {seq + 1} is missing or was changed")
        seq, head = event.seq, event.hash
    if seq != upto:
        raise Broken(f"event {seq + 1} is missing")
    made = LogCheckpoint(team=team, seq=seq, hash=head, at=now, key=log_key.public_key())
    made.signature = signed.sign(canonical.dumps(body(made)), log_key.private_key(), PREFIX)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError:
        return None
    return made


def newest(team: Team) -> LogCheckpoint | None:
    return team.log_checkpoints.order_by("-seq").first()


def body(checkpoint: LogCheckpoint) -> dict:
    """Return what is signed: {checkpoint: version, team: id, seq, hash, at}."""
    return {
        "checkpoint": 1,
        "team": str(checkpoint.team_id),
        "seq": checkpoint.seq,
        "hash": checkpoint.hash,
        "at": checkpoint.at.isoformat(timespec="milliseconds"),
    }


def signed_bytes(checkpoint: LogCheckpoint) -> bytes:
    """Return the bytes of which the signature is made, and the timestamp of an outside witness."""
    return PREFIX + canonical.dumps(body(checkpoint))


def as_download(checkpoint: LogCheckpoint) -> dict:
    """Return the checkpoint as it is kept elsewhere: what is signed, its sha256 and signature, and its timestamp."""
    found = body(checkpoint)
    sha256 = hashlib.sha256(canonical.dumps(found)).hexdigest()
    made = signed.as_download(found, sha256, checkpoint.signature, checkpoint.key)
    if checkpoint.timestamp:
        made["signature"]["timestamp"] = checkpoint.timestamp
    return made


# The second place ----------------------------------------------------------------------------------------------------


def place_of(team: Team) -> Path:
    """Return the file with all checkpoints of the team's log, a line for each."""
    return Path(settings.HANDRAIL_CHECKPOINTS) / f"{team.pk}.jsonl"


def is_apart() -> bool:
    """Return whether an operator chose a second place; else it is a folder of HANDRAIL_HOME."""
    return not Path(settings.HANDRAIL_CHECKPOINTS).is_relative_to(settings.HANDRAIL_HOME)


def copy_to_second_place(team: Team) -> int:
    """Append what the second place lacks, also after it was away; return how many. A failure is logged."""
    return _copy(team, lambda: team.log_checkpoints.filter(seq__gt=last_copied(team)).order_by("seq"))


def copy_again(checkpoint: LogCheckpoint) -> int:
    """Append a checkpoint that has got a timestamp to the second place, after what that lacks; return how many."""
    copy_to_second_place(checkpoint.team)
    return _copy(checkpoint.team, lambda: [checkpoint])


def _copy(team: Team, lacking: Callable[[], Iterable[LogCheckpoint]]) -> int:
    path = place_of(team)
    try:
        make_private(path.parent)
        lock = take_lock(path.with_suffix(".lock"), wait=LOCK_WAIT)
        try:
            return _append(path, lacking())
        finally:
            os.close(lock)
    except OSError as error:
        logger.error("checkpoints of the log of team %s are not in their second place: %s", team.slug, error)
        return 0


def _append(path: Path, checkpoints: Iterable[LogCheckpoint]) -> int:
    lines = [json.dumps(as_download(one), ensure_ascii=False).encode() + b"\n" for one in checkpoints]
    if not lines:
        return 0
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        if end and (file.seek(end - 1), file.read(1))[1] != b"\n":  # a line that a killed process left unfinished
            lines.insert(0, b"\n")
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())
    return len(lines)


def last_copied(team: Team) -> int:
    """Return the number of the last event in the second place; 0 if there is none. Raise OSError."""
    try:
        lines = place_of(team).read_bytes().splitlines()
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        try:
            return int(json.loads(line)["seq"])
        except (ValueError, KeyError, TypeError):  # unfinished
            continue
    return 0


def _thin_out(team: Team, now: datetime):
    """Delete from the database all but the last checkpoint of each day that is older than EACH_FOR, and timestamps."""
    old = team.log_checkpoints.filter(at__lt=now - EACH_FOR, timestamp="")
    last_of_days = old.order_by().values(day=F("at__date")).annotate(last=Max("seq")).values_list("last", flat=True)
    old.exclude(seq__in=list(last_of_days)).delete()
