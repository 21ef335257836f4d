"""Wake-ups from other hosts: NOTIFY of PostgreSQL, passed on to this host's waiters as datagrams (wakes.py).

As with those, nothing depends on their delivery: a host that hears none still polls. A host that others do not reach
(no HANDRAIL_RUNNER_ADDRESS, every part) sends none, so that one host alone pays nothing.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError, connection

logger = logging.getLogger("handrail.hosts")
CHANNEL = "handrail"
FEEDS, RUNNERS = "feeds", "runners"
LOOK_S = 30.0  # how long a quiet connection is waited at before it is looked at
AGAIN_S = 10.0  # before another try after an error; a pooler of transactions passes on no notifications at all
ALL_PARTS = 3


def is_one_of_several() -> bool:
    """Return whether other hosts use this database too, as the settings of this one say."""
    several = settings.HANDRAIL_RUNNER_ADDRESS or len(settings.HANDRAIL_PARTS) < ALL_PARTS
    return connection.vendor == "postgresql" and bool(several)


def send(whom: str):
    """Wake FEEDS or RUNNERS of other hosts; called after a commit. Errors are nobody's: who waits polls."""
    if is_one_of_several() and not connection.in_atomic_block:
        with suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, f"{whom} {settings.HANDRAIL_HOST_NAME}"])


def listen_forever(whom: str, heard: Callable[[], object]):
    """Call `heard` in a thread of its own for each wake-up that another host sends to `whom`."""
    own = f"{whom} {settings.HANDRAIL_HOST_NAME}"
    if is_one_of_several():
        threading.Thread(target=_listen, args=(whom, own, heard), name="hints", daemon=True).start()


def _listen(whom: str, own: str, heard):
    while True:
        opened = connection.copy()  # one that nothing else uses
        try:
            opened.ensure_connection()
            opened.connection.execute(f"LISTEN {CHANNEL}")
            while opened.is_usable():
                for note in opened.connection.notifies(timeout=LOOK_S):
                    if note.payload.startswith(f"{whom} ") and note.payload != own:
                        heard()
        except Exception as error:  # the server restarts; nothing may end this thread
            logger.info("no wake-ups of other hosts for %d s: %s", AGAIN_S, error)
        finally:
            with suppress(Exception):
                opened.close()
        time.sleep(AGAIN_S)
