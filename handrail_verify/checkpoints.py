"""Checkpoints of an event log: which event it ended with at a time, signed (Ed25519) or just noted down."""

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from handrail_verify import canonical

PREFIX = b"handrail log checkpoint\n"  # so that no signature of something else counts as one of a checkpoint
NOTE = re.compile(r"(\d{1,18}):([0-9a-f]{64})")  # one that is not signed


class BadEvent(ValueError):
    """An entry of a log, or a checkpoint, that does not verify; the message names it and the error, on one line."""


@dataclass(frozen=True)
class Checkpoint:
    """The log of `team` ended with event `seq`, whose hash (hex) this is. A note names no team: it is ""."""

    seq: int
    hash: str
    team: str = ""
    stamped_at: datetime | None = None  # when the outside witness signed it, if its certificates were given


def read(text: str, key: str = "", authorities: bytes = b"") -> list[Checkpoint]:
    """Return the checkpoints that `--checkpoint` names, by number: SEQ:HASH, or what a file holds.

    A file holds one signed checkpoint as JSON, the answer of GET /api/v1/log/checkpoints, a line of JSON for each as in
    the folder HANDRAIL_CHECKPOINTS, or as its last line SEQ:HASH or an event. With `key`, a public key in base64, each
    must be signed with it; without, a signed one must fit its own signature. With `authorities`, the certificates (PEM)
    of an outside witness, one at least must be time-stamped, and each timestamp must verify. Raise BadEvent.
    """
    note = NOTE.fullmatch(text.strip().lower())
    found = [Checkpoint(int(note[1]), note[2])] if note else None
    if found is None:
        try:
            content = Path(text).read_bytes().decode(errors="replace").strip()
        except (OSError, ValueError):
            raise BadEvent(f"The checkpoint {text[:80]} is neither SEQ:HASH nor a file that can be read.") from None
        signed_ones = list(_signed_in(content))
        if signed_ones:
            found = [_checked(one, key, authorities) for one in signed_ones]
        else:
            found = _noted_in(content)
            if not found:
                raise BadEvent(f"The checkpoint file {text[:80]} holds no checkpoint and no event.")
            note = True
    if key and note:
        raise BadEvent("A key was given, but the checkpoint is not signed.")
    if authorities and not any(one.stamped_at for one in found):
        raise BadEvent("Certificates of a witness were given, but no checkpoint has a timestamp.")
    # Of one that stands twice, the last has the timestamp.
    found.sort(key=lambda one: (one.seq, one.stamped_at is not None))
    for one, other in pairwise(found):
        if one.seq == other.seq and (one.hash, one.team) != (other.hash, other.team):
            raise BadEvent(f"The checkpoints contradict each other: there are two of event {one.seq}.")
    return found


def _signed_in(content: str) -> Iterator[dict]:
    """Yield the signed checkpoints of a file, as they were downloaded."""
    for document in _documents(content):
        listed = document.get("checkpoints") if isinstance(document, dict) else None
        for one in listed if isinstance(listed, list) else [document]:
            if isinstance(one, dict) and "checkpoint" in one:
                yield one


def _documents(content: str) -> list:
    """Return the one JSON document of the file, else that of each line that is one."""
    try:
        return [canonical.loads_once(content.encode())]
    except (ValueError, RecursionError):
        pass
    found = []
    for line in content.splitlines():
        if '"checkpoint"' not in line:  # as the events of an earlier export
            continue
        try:
            found.append(canonical.loads_once(line.encode()))
        except (ValueError, RecursionError):
            continue
    return found


def _checked(found: dict, key: str, authorities: bytes) -> Checkpoint:
    right = isinstance(found.get("seq"), int) and isinstance(found.get("hash"), str)
    if not right or not NOTE.fullmatch(f"{found['seq']}:{found['hash']}"):
        raise BadEvent("A checkpoint in the file has no event's number and hash.")
    _check_signature(found, key)
    stamped_at = _stamped_at(found, authorities) if authorities else None
    return Checkpoint(found["seq"], found["hash"], str(found.get("team", "")), stamped_at)


def _check_signature(found: dict, key: str):
    """Raise BadEvent if the checkpoint is not signed with `key`, or, without one, with the key that it names."""
    signature = found.get("signature")
    if not key and not isinstance(signature, dict):
        return  # says no more than a note
    try:
        from handrail_verify import signed
    except ImportError:
        if key:
            raise
        return  # the log alone needs no cryptography
    try:
        signed.verify(json.dumps(found).encode(), key or str(signature.get("key")), PREFIX)
    except signed.BadManifest as error:
        raise BadEvent(f"The checkpoint of event {found['seq']} does not verify. {error}") from None


def _stamped_at(found: dict, authorities: bytes) -> datetime | None:
    """Return when the outside witness signed a downloaded checkpoint; None if it has no timestamp. Raise BadEvent."""
    from handrail_verify import signed, witness

    token = found["signature"].get("timestamp") if isinstance(found.get("signature"), dict) else None
    if not token:
        return None
    body = {name: value for name, value in found.items() if name not in signed.ADDED}
    try:
        return witness.verify(b64decode(str(token), validate=True), PREFIX + canonical.dumps(body), authorities)
    except (NotBase64, ValueError, RecursionError) as error:
        raise BadEvent(f"The timestamp of the checkpoint of event {found['seq']} does not verify. {error}") from None


def _noted_in(content: str) -> list[Checkpoint]:
    """Return the checkpoint in the last line, which is SEQ:HASH or an event."""
    last = content.splitlines()[-1].strip() if content else ""
    note = NOTE.fullmatch(last.lower()) or _noted_event(last)
    return [Checkpoint(int(note[1]), note[2])] if note else []


def _noted_event(line: str):
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return NOTE.fullmatch(f"{event.get('seq')}:{event.get('hash')}") if isinstance(event, dict) else None
