"""The hash chain of a team's events: how an event is hashed, and how an export is verified on its own."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from handrail_verify import canonical
from handrail_verify.checkpoints import BadEvent, Checkpoint
from handrail_verify.decisions import Decisions

GENESIS = "0" * 64
KEYS = {"team", "seq", "at", "actor", "verb", "subject", "workspace", "data", "prev", "hash"}
MAX_LINE = 16_000_000  # bytes of one exported event


@dataclass
class Checked:
    """The result of `verify`: events `first` to `last` of `team`, ending in `head` (hex).

    `filters`: those of a filtered export, which holds only `count` of the events. Each of them fits its own hash;
    nothing is known about the events in between. `noted`: the event of the newest checkpoint, up to which all is
    proven; 0 without one.
    """

    team: str
    first: int
    last: int
    head: str
    filters: dict | None = None
    count: int = 0
    noted: int = 0


def chain_hash(event):
    """Return the SHA-256 (hex) of an event's canonical JSON without its own hash; ValueError if it has none."""
    body = {key: value for key, value in event.items() if key != "hash"}
    return hashlib.sha256(canonical.dumps(body)).hexdigest()


def verify(lines, checkpoints: list[Checkpoint] | None = None):
    """Verify exported events (an iterable of JSON lines, bytes) and return Checked; BadEvent names the first bad one.

    `checkpoints`: kept elsewhere earlier, by number, to detect a log whose tail was cut or rewritten.
    """
    lines = iter(lines)
    kept = {one.seq: one for one in checkpoints or ()}
    before, first, noted, filters, count = None, None, 0, None, 0
    decisions = None  # of a log from its first event on: what a part of one lacks may have approved what it has
    for number, line in enumerate(lines, 1):
        if number == 1 and (filters := filters_of(line)) is not None:
            continue
        event = read_event(line, number)
        _check_own(event, number)
        count += 1
        if before is None:
            first = event
            _check_first(event)
            noted = _check_before_first(kept, event)
            decisions = Decisions() if filters is None and event["seq"] == 1 else None
        elif filters is None or event["seq"] <= before["seq"] + 1 or event["team"] != before["team"]:
            _check_link(before, event, number, lines)
        if event["seq"] in kept:
            _check_checkpoint(kept[event["seq"]], event["team"], event["hash"])
            noted = event["seq"]
        if decisions:
            decisions.follow(event)
        before = event
    if before is None:
        raise BadEvent("The file is empty: there is no event in it.")
    if kept:
        _check_end(max(kept), noted, first, before, filters)
    return Checked(before["team"], first["seq"], before["seq"], before["hash"], filters, count, noted)


def filter_note(filters: dict) -> str:
    """Return the first line of a filtered export, which names its filters."""
    return json.dumps({"filtered": filters}, ensure_ascii=False)


def filters_of(line) -> dict | None:
    """Return the filters named in the first line of an export; None if the line is an event."""
    try:
        note = json.loads(line) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
    is_note = isinstance(note, dict) and set(note) == {"filtered"} and isinstance(note["filtered"], dict)
    return note["filtered"] if is_note else None


def read_event(line, number):
    """Return the event on one line of an export; raise BadEvent for anything else."""
    if len(line) > MAX_LINE:
        raise BadEvent(f"Line {number} is longer than {MAX_LINE:,} bytes.")
    try:
        event = canonical.loads_once(line)
    except (ValueError, RecursionError):
        raise BadEvent(f"Line {number} is not one JSON object with each key once.") from None
    if not isinstance(event, dict):
        raise BadEvent(f"Line {number} is not an event.")
    if set(event) != KEYS:
        odd = sorted(KEYS - set(event)) or sorted(set(event) - KEYS)
        raise BadEvent(f"Line {number} is not an exported event: {odd[0][:60]!r} is missing or foreign.")
    whole = isinstance(event["seq"], int) and not isinstance(event["seq"], bool) and event["seq"] >= 1
    if not whole or not all(isinstance(event[key], str) for key in ("team", "prev", "hash", "verb", "at")):
        raise BadEvent(f"Line {number} is not an exported event: a field has the wrong type.")
    return event


def _check_own(event, number):
    try:
        right = chain_hash(event) == event["hash"]
    except (ValueError, RecursionError):
        raise BadEvent(f"Event {event['seq']} (line {number}) has no canonical form.") from None
    if not right:
        raise BadEvent(f"Event {event['seq']} (line {number}) was edited: its hash does not fit its content.")


def _check_first(event):
    if event["seq"] == 1 and event["prev"] != GENESIS:
        raise BadEvent("Event 1 (line 1) is not the beginning of a log: it follows another event.")
    if event["seq"] > 1 and event["prev"] == GENESIS:
        raise BadEvent(f"Event {event['seq']} (line 1) says that nothing came before it.")


def _check_link(before, event, number, rest):
    seq, due = event["seq"], before["seq"] + 1
    if event["team"] != before["team"]:
        raise BadEvent(f"Event {seq} (line {number}) belongs to team {event['team']}, not to {before['team']}.")
    if seq == before["seq"]:
        what = "appears twice" if event["hash"] == before["hash"] else "is there in two versions: the log was forked"
        raise BadEvent(f"Event {seq} (line {number}) {what}.")
    if seq < due:
        raise BadEvent(f"Event {seq} (line {number}) comes after event {before['seq']}: repeated or out of order.")
    if seq > due:
        if _comes_later(due, number, rest):
            raise BadEvent(f"Event {due} is out of order: event {seq} (line {number}) comes before it.")
        gap = f"Event {due} is" if seq == due + 1 else f"Events {due} to {seq - 1} are"
        raise BadEvent(f"{gap} missing before event {seq} (line {number}).")
    if event["prev"] != before["hash"]:
        raise BadEvent(f"Event {seq} (line {number}) does not follow event {before['seq']}: the log was forked there.")


def _comes_later(seq, number, rest):
    for later, line in enumerate(rest, number + 1):
        try:
            if read_event(line, later)["seq"] == seq:
                return True
        except BadEvent:
            continue
    return False


def _check_checkpoint(kept: Checkpoint, team: str, digest: str):
    if kept.team and kept.team != team:
        raise BadEvent(f"The checkpoint is of the log of team {kept.team[:60]}, and this is the log of team {team}.")
    if kept.hash != digest:
        raise BadEvent(f"Event {kept.seq} is not the one of the checkpoint: the log was rewritten up to there.")


def _check_before_first(kept: dict[int, Checkpoint], first: dict) -> int:
    """Return the number of the checkpoint just before a file that begins later, whose hash the first event names."""
    seq = first["seq"] - 1
    if seq not in kept:
        return 0
    _check_checkpoint(kept[seq], first["team"], first["prev"])
    return seq


def _check_end(newest: int, noted: int, first: dict, last: dict, filters: dict | None):
    if filters is not None and not noted:
        raise BadEvent(f"The checkpoint is event {newest}, which this filtered export does not hold.")
    if newest > last["seq"] and filters is None:
        raise BadEvent(f"The end is cut: the log stops at event {last['seq']}, the checkpoint is event {newest}.")
    if not noted:
        raise BadEvent(f"The checkpoint is event {newest}, but the file starts at event {first['seq']}.")


def events_of(lines) -> Iterator[dict]:
    """Yield the events of an export that was verified."""
    for number, line in enumerate(lines, 1):
        if number > 1 or filters_of(line) is None:
            yield read_event(line, number)
