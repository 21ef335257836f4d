"""Log lines carry the ids of the request, action and operation they belong to; bodies are never logged."""

import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from dashboard import redaction

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
