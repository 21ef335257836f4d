"""The forms in which events leave: JSON lines, syslog (RFC 5424), and a webhook's signed body."""

import hashlib
import hmac
import json

from dashboard.event_log import checkpoints
from dashboard.models import Event, Team

AUDIT, NOTICE = 13, 5  # facility "log audit", severity "notice"
PRIORITY = AUDIT * 8 + NOTICE


def line(event: Event) -> bytes:
    """Return the event as it is exported (`handrail_verify log` reads it), as one line."""
    return json.dumps(event.as_export(), ensure_ascii=False).encode() + b"\n"


def webhook_body(team: Team, events: list[Event]) -> bytes:
    """Return {team, upto, events, checkpoint}: the newest signed checkpoint of the log, or null before the first."""
    signed = checkpoints.newest(team)
    found = {"team": team.slug, "upto": events[-1].seq, "events": [event.as_export() for event in events]}
    found["checkpoint"] = checkpoints.as_download(signed) if signed else None
    return json.dumps(found, ensure_ascii=False).encode()


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return HMAC-SHA256 over `timestamp.body`, as hex. A receiver compares it, and refuses an old timestamp."""
    return hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def syslog(event: Event, team: Team, host: str) -> bytes:
    """Return one RFC 5424 message with its length before it (RFC 6587), as TCP and TLS want it."""
    at = event.at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    name = event.verb[:32]
    said = f"<{PRIORITY}>1 {at} {host[:255] or '-'} handrail {event.seq} {name} - ".encode()
    message = said + b"\xef\xbb\xbf" + line(event).rstrip(b"\n")  # a byte order mark says that the text is UTF-8
    return str(len(message)).encode() + b" " + message
