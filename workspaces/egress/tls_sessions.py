"""TLS sessions with hosts, kept for a while: the next handshake with the host takes no certificate and no signature.

A session is of the context whose authorities the host's certificate was checked with, and of the host's name and port.
"""

import ssl
import time
from weakref import WeakKeyDictionary

LASTS = 600.0  # seconds from the handshake in which the certificate was checked
MOST = 500  # hosts of one context

# The time of the check, and the session; None for a host that refused one then.
_Kept = dict[tuple[str, int], tuple[float, ssl.SSLSession | None]]
_kept: WeakKeyDictionary[ssl.SSLContext, _Kept] = WeakKeyDictionary()


def of(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSession | None:
    """Return the session with which a handshake with the host may go on; None for a whole one."""
    checked_at, session = _kept.get(context, {}).get((host, port), (0.0, None))
    return session if time.monotonic() - checked_at < LASTS else None


def keep(context: ssl.SSLContext, host: str, port: int, connection: ssl.SSLObject):
    """Keep the session of a connection for the next one. A host gives it after the handshake, with what it sends."""
    session = connection.session
    if session is None or not session.has_ticket:
        return
    now = time.monotonic()
    known_at, known = _kept.get(context, {}).get((host, port), (0.0, session))
    if known is None and now - known_at < LASTS:
        return  # the host refused one
    # The certificate of a connection that went on with a session was not shown.
    _put(context, host, port, known_at if connection.session_reused else now, session)


def refuse(context: ssl.SSLContext, host: str, port: int):
    """Keep no session for a while, as the host ended a handshake that went on with one."""
    _put(context, host, port, time.monotonic(), None)


def _put(context: ssl.SSLContext, host: str, port: int, at: float, session: ssl.SSLSession | None):
    kept = _kept.setdefault(context, {})
    kept.pop((host, port), None)
    kept[host, port] = at, session
    if len(kept) > MOST:
        del kept[next(iter(kept))]
