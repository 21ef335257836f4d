"""One thread waits for all children that outlive their callers."""

import subprocess
import threading

from tests.support.waiting import until
from workspaces.drivers.reaping import Reaper


def test_all_children_are_waited_for_by_one_thread():
    reaper, before = Reaper(), threading.active_count()
    children = [subprocess.Popen(["sh", "-c", f"read line; exit {code}"], stdin=subprocess.PIPE) for code in range(12)]
    for child in children:
        reaper.add(child)
    assert threading.active_count() == before + 1
    for child in reversed(children):
        child.stdin.close()
    until(lambda: None not in [child.returncode for child in children])
    assert [child.returncode for child in children] == list(range(12))


def test_a_child_that_has_ended_already_is_waited_for_at_once():
    reaper, child = Reaper(), subprocess.Popen(["true"])
    until(lambda: child.poll() is not None)
    reaper.add(child)
    assert child.returncode == 0
