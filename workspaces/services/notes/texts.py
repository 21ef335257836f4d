"""The text of a note as it is stored: of a limited length, and without the values of secrets."""

import hashlib
from dataclasses import dataclass, field

from dashboard.keys.keyring import Unreadable
from dashboard.keys.secret_forms import encoded_forms
from dashboard.problems import invalid, unavailable
from workspaces import secrets
from workspaces.secrets.masking import GUESSED, without_keys

MAX_BYTES = 32 * 1024  # of a workspace's notes
READ_BYTES = MAX_BYTES + (64 << 10)  # so that a secret's value at the limit is seen whole
MAX_DAYS = 3650


@dataclass(frozen=True)
class NoteText:
    """A text to store. `redacted`: names of the secrets that were taken out; `sha256` is "" if there is no file."""

    text: str = ""
    sha256: str = ""
    redacted: list[str] = field(default_factory=list)
    is_cut: bool = False


def stored(workspace, data: bytes, limit: int = MAX_BYTES) -> NoteText:
    """Return what is stored of a file's bytes: text without secrets, of at most `limit` bytes. Problem 503."""
    text, redacted = without_secrets(workspace, data.decode("utf-8", "replace").replace("\0", "\ufffd"))
    if len(data) > limit:
        text = text.encode()[:limit].decode("utf-8", "ignore")
    return NoteText(text, digest(text), redacted, len(data) > limit)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def checked(text: str, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a text that somebody wrote, with plain line ends. Problem 422 if it is too long."""
    try:
        data = text.replace("\r\n", "\n").encode()
    except UnicodeEncodeError:
        raise invalid("Notes are text.") from None
    if len(data) > limit:
        raise invalid(f"This text has {len(data):,} bytes; {limit:,} is the limit.")
    if b"\0" in data:
        raise invalid("Notes can't contain NUL.")
    return data


def checked_days(days: int | None) -> int | None:
    """Return a number of days, or None for no end. Problem 422 for one out of range."""
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise invalid(f"Give a number of days from 1 to {MAX_DAYS:,}, or none.")
    return days


def without_secrets(workspace, text: str) -> tuple[str, list[str]]:
    """Return (the text without the values of secrets, their names). Problem 503 if a value cannot be searched for.

    Searched for: what programs of the workspace were ever given, and the team's secrets.
    """
    try:
        rows = secrets.handed_rows(workspace)
        values = [(handed.name, value) for handed, value in rows] + secrets.of_team(workspace.team_id)
    except Unreadable as error:
        raise unavailable(f"The text cannot be searched for secrets. {error}") from None
    if lost := sorted({name for name, value in values if value is None}):
        raise unavailable(f"The text cannot be searched for {', '.join(lost[:3])}: this host's keys do not fit.")
    found = set()
    for name, value in values:
        for form in encoded_forms(value.encode()):
            known = form.decode("utf-8", "surrogateescape")
            if known in text:
                text = text.replace(known, f"[secret {name}]")
                found.add(name)
    shown = without_keys(text)
    return shown, sorted(found) + ([GUESSED] if shown != text else [])
