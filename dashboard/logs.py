"""Log lines carry the request, the action and the effect that they belong to; bodies never get into a log."""

import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from dashboard import redaction

_context: ContextVar[MappingProxyType] = ContextVar("handrail_log_context", default=MappingProxyType({}))
logger = logging.getLogger("handrail.events")
# A one-time link's secret is in its address, and Django logs the addresses of refused requests.
_SECRET = re.compile(r"(/sign-in/)[^/\s'\"]+")


class Context(logging.Filter):
    """Adds ` request=… action=… effect=…` to each record, and takes sign-in secrets out of it."""

    def filter(self, record):
        said = record.getMessage()
        if "/sign-in/" in said:
            record.msg, record.args = _SECRET.sub(r"\1…", said), ()
        record.context = "".join(f" {name}={value}" for name, value in _context.get().items())
        return True


class Line(logging.Formatter):
    """Without the values of secrets, in tracebacks as well."""

    def format(self, record):
        return redaction.clean(super().format(record))


@contextmanager
def about(**ids):
    """Name what the log lines inside are about: `with about(effect=effect.pk): …`."""
    token = _context.set(MappingProxyType(_context.get() | {name: str(value) for name, value in ids.items()}))
    try:
        yield
    finally:
        _context.reset(token)


def log_event(event):
    logger.info("event %s/%s %s %s:%s", event.team_id, event.seq, event.verb, event.subject_type, event.subject_id)
