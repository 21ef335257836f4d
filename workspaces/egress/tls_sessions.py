"""TLS sessions with hosts, kept for a while: the next handshake with the host takes no certificate and no signature.

A session is of the context whose authorities the host's certificate was checked with, and of the host's name and port.
"""

import ssl
import time
from weakref import WeakKeyDictionary

LASTS = 600.0  # seconds from the handshake in which the certificate was checked
MOST = 500  # hosts of one context

_kept: WeakKeyDictionary[ssl.SSLContext, dict[tuple[str, int], tuple[float, ssl.SSLSession]]] = WeakKeyDictionary()


def of(context: ssl.SSLContext, host: str, port: int) -> ssl.SSLSession | None:
    """Return the session with which a handshake with the host may go on; None for a whole one."""
    checked_at, session = _kept.get(context, {}).get((host, port), (0.0, None))
    return session if time.monotonic() - checked_at < LASTS else None


def keep(context: ssl.SSLContext, host: str, port: int, connection: ssl.SSLObject):
    """Keep the session of a connection for the next one. A host gives it after the handshake, with what it sends."""
    kept, session = _kept.setdefault(context, {}), connection.session
    if session is None or not session.has_ticket:
        return
    checked_at = time.monotonic()
    if connection.session_reused:  # this one's own certificate was not shown
        checked_at = kept.get((host, port), (0.0, None))[0]
    kept.pop((host, port), None)
    kept[host, port] = checked_at, session
    if len(kept) > MOST:
        del kept[next(iter(kept))]
