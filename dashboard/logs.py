"""Log lines carry the ids of the request, action and operation they belong to; bodies are never logged."""

import logging
import re
import time
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from dashboard.keys import redaction

_context: ContextVar[MappingProxyType] = ContextVar("handrail_log_context", default=MappingProxyType({}))
logger = logging.getLogger("handrail.events")
# A one-time link has its secret in the path, and Django logs the paths of refused requests.
_SECRET = re.compile(r"(/sign-in/)[^/\s'\"]+")


class Context(logging.Filter):
    """Adds ` request=… action=… operation=…` to each record, and removes sign-in secrets from it."""

    def filter(self, record):
        said = record.getMessage()
        if "/sign-in/" in said:
            record.msg, record.args = _SECRET.sub(r"\1…", said), ()
        record.context = "".join(f" {name}={value}" for name, value in _context.get().items())
        return True


class Outage(logging.Filter):
    """Lets one line in EVERY seconds pass of all that each process logs because the database is away."""

    EVERY = 10

    def __init__(self):
        super().__init__()
        self._next, self._kept_back = 0.0, 0

    def filter(self, record):
        said = [*record.args] if isinstance(record.args, tuple) else []
        error = next((each for each in [(record.exc_info or [None] * 3)[1], *said] if _is_away(each)), None)
        if error is None:
            return True
        if time.monotonic() < self._next:
            self._kept_back += 1
            return False
        more = f" ({self._kept_back:,} lines about it left out)" if self._kept_back else ""
        record.msg, record.args = f"the database does not answer: {' '.join(str(error).split())}{more}", ()
        record.levelno, record.levelname, record.exc_info, record.exc_text = logging.ERROR, "ERROR", None, None
        self._next, self._kept_back = time.monotonic() + self.EVERY, 0
        return True


def _is_away(error) -> bool:
    if not isinstance(error, BaseException):
        return False
    from dashboard.database.errors import is_away  # here: Django's database needs the settings, which need this module

    return is_away(error)


class Line(logging.Formatter):
    """Removes the values of secrets, from tracebacks as well."""

    def format(self, record):
        return redaction.clean(super().format(record))


@contextmanager
def about(**ids):
    """Add ids to the log lines written in this context: `with about(operation=operation.pk): …`."""
    token = _context.set(MappingProxyType(_context.get() | {name: str(value) for name, value in ids.items()}))
    try:
        yield
    finally:
        _context.reset(token)


def log_event(event):
    """Log an event's ids and verb, without its data."""
    logger.info("event %s/%s %s %s:%s", event.team_id, event.seq, event.verb, event.subject_type, event.subject_id)
