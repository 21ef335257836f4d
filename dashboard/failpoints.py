"""Kill points for the crash tests: K0–K9 on an action's way, and those of a workspace's life by name (`pause.stopped`).

Without HANDRAIL_FAILPOINT each costs one comparison.
"""

import os
import signal

from django.conf import settings


def failpoint(name: str):
    """Die by SIGKILL here when HANDRAIL_FAILPOINT names this point; `name:FILE` dies only while FILE exists.

    `name=stop` stops the process by SIGSTOP instead. Several points are separated by commas.
    """
    if not settings.HANDRAIL_FAILPOINT:
        return
    for point in settings.HANDRAIL_FAILPOINT.split(","):
        armed, _, flag = point.partition(":")
        armed_name, _, how = armed.partition("=")
        if armed_name == name and _is_loaded(flag):
            os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def _is_loaded(flag: str) -> bool:
    """It dies once for each file: the file is the cartridge."""
    if not flag:
        return True
    try:
        os.unlink(flag)
    except FileNotFoundError:
        return False
    return True
