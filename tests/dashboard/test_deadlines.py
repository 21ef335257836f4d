"""A call that does not end in time ends for its caller, and holds up neither the others nor the end of the process."""

import subprocess
import sys
import threading

from dashboard.workers.deadlines import Late, within
from tests.support import CHECKOUT


def test_each_call_has_its_own_end():
    error, over = ValueError("no"), threading.Event()

    def fail():
        raise error

    first, failed, late = within(0.2, [lambda: 1, fail, over.wait])
    assert (first, failed, type(late)) == (1, error, Late)
    over.set()


def test_what_is_late_keeps_no_process_from_ending():
    code = "import time; from dashboard.workers.deadlines import within; within(0.1, [lambda: time.sleep(300)])"
    assert subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, timeout=60, check=False).returncode == 0
