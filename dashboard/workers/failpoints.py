"""Kill points for the crash tests: K0 to K9 in the life of an action, and named ones for workspaces (`pause.stopped`).

Without HANDRAIL_FAILPOINT each costs one comparison.
"""

import os
import signal

from django.conf import settings


def failpoint(name: str):
    """Send this process SIGKILL if HANDRAIL_FAILPOINT names this point; `name:FILE` only while FILE exists.

    `name=stop` sends SIGSTOP instead. Several points are separated by commas.
    """
    if not settings.HANDRAIL_FAILPOINT:
        return
    for point in settings.HANDRAIL_FAILPOINT.split(","):
        armed, _, flag = point.partition(":")
        armed_name, _, how = armed.partition("=")
        if armed_name == name and _is_loaded(flag):
            os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def _is_loaded(flag: str) -> bool:
    """Remove the point's file; True if it was there. Each file thus triggers the point once."""
    if not flag:
        return True
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return False
    return True
