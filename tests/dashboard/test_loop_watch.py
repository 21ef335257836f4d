"""The lateness of an event loop is measured, told to /metrics and Status, and a long step is logged with its stack."""

import asyncio
import hashlib
import logging
import re
import resource
import subprocess
import sys
import threading
import time

import pytest
from django.conf import settings

from dashboard.ops import doctor
from dashboard.workers import loop_watch
from dashboard.workers.loop_watch import LoopWatch
from tests.support import CHECKOUT


@pytest.fixture
def runtime(settings, tmp_path):
    settings.HANDRAIL_RUNTIME = tmp_path
    return tmp_path


def hold_the_loop(watch):
    """Hold the loop until the watch has logged and told, or for much longer than it needs."""
    until, before = time.monotonic() + 30, watch._told_at
    while watch._told_at == before and time.monotonic() < until:
        sum(range(1000))


def run(step, *, late_s=0.2):
    async def work():
        watch = LoopWatch("runner", late_s=late_s)
        watch.start(asyncio.get_running_loop())
        try:
            await asyncio.sleep(0.5)
            step(watch)
            await asyncio.sleep(0.5)
            watch._tell()
            return watch.report(), loop_watch.of_this_host()
        finally:
            watch.stop()

    return asyncio.run(work())


def test_a_step_that_holds_the_loop_is_logged_with_its_stack(runtime, caplog):
    with caplog.at_level(logging.WARNING, logger="handrail.loop"):
        told, _ = run(hold_the_loop)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert "a step holds the event loop of runner for more than 0.2 s" in said
    assert "in hold_the_loop" in said
    assert re.search(r"the event loop of runner was held for \d+\.\d s", said)
    assert told["steps"] >= 1
    assert told["worst_s"] > 0.2


def test_each_of_three_long_steps_without_a_wait_between_them_is_logged_with_its_stack(runtime, caplog):
    async def work():
        watch = LoopWatch("runner", late_s=0.2)
        watch.start(asyncio.get_running_loop())
        try:
            await asyncio.sleep(0.01)
            for _ in range(3):
                hold_the_loop(watch)
                await asyncio.sleep(0)  # more is ready: the selector does not wait
        finally:
            watch.stop()

    with caplog.at_level(logging.WARNING, logger="handrail.loop"):
        asyncio.run(work())
    assert sum("a step holds the event loop" in each.getMessage() for each in caplog.records) == 3


def test_a_loop_that_waits_is_not_taken_for_a_held_one(runtime, caplog):
    with caplog.at_level(logging.WARNING, logger="handrail.loop"):
        told, others = run(lambda watch: None, late_s=30)
    assert (told["steps"], caplog.records) == (0, [])
    assert others["runner"]["steps"] == 0
    assert loop_watch.of_this_host() == {}  # what ended tells nothing any more


def test_a_thread_that_keeps_the_interpreter_lock_makes_the_loop_late(runtime, caplog):
    pattern, text = re.compile(r"(a+)+$"), "a" * 24 + "b"  # seconds of C code that lets no other thread run

    def step(watch):
        threading.Thread(target=pattern.match, args=[text]).start()

    told, _ = run(step)
    assert told["worst_s"] > 0.2


# In a process of its own: of a process with more than 100 threads, as that of the tests may be, not all are printed.
HOLDS_IN_C = """
import asyncio, pathlib, re, sys
from django.conf import settings
settings.configure(HANDRAIL_RUNTIME=pathlib.Path(sys.argv[1]))
from dashboard.workers import loop_watch

loop_watch.HELD_S = 0.3

def hold_in_c():
    re.match(r"(a+)+$", "a" * 25 + "b")

async def work():
    watch = loop_watch.LoopWatch("runner")
    watch.start(asyncio.get_running_loop())
    await asyncio.sleep(0.1)
    hold_in_c()
    await asyncio.sleep(0.1)
    watch.stop()

asyncio.run(work())
"""


def test_what_holds_the_interpreter_lock_too_long_is_printed_with_its_stack(tmp_path):
    argv = [sys.executable, "-c", HOLDS_IN_C, str(tmp_path)]
    printed = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=True).stderr
    assert "most recent call first" in printed
    assert "in hold_in_c" in printed


def test_threads_that_compute_while_the_loop_waits_are_not_taken_for_a_held_loop(runtime, capfd, monkeypatch):
    monkeypatch.setattr(loop_watch, "HELD_S", 1.0)

    def compute():
        until = time.thread_time() + 2
        while time.thread_time() < until:
            hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)  # without the interpreter lock

    async def work():
        watch = LoopWatch("runner")
        watch.start(asyncio.get_running_loop())
        try:
            await asyncio.gather(asyncio.to_thread(compute), asyncio.to_thread(compute))
        finally:
            watch.stop()

    asyncio.run(work())
    assert "most recent call first" not in capfd.readouterr().err


def test_a_loop_without_work_is_not_woken_by_the_watch(runtime):
    async def switches():
        watch = LoopWatch("runner")
        watch.start(asyncio.get_running_loop())
        threads = threading.active_count()
        try:
            began = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
            await asyncio.sleep(3)
            return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - began, threading.active_count() - threads
        finally:
            watch.stop()

    woken, started = asyncio.run(switches())
    assert woken <= 4  # not some each second
    assert started == 0


def test_metrics_and_status_have_the_lateness_of_each_process(runtime, db, team, lena, token_of, api, browser_of):
    folder = runtime / "heartbeat"
    folder.mkdir()
    held = {"at": time.time(), "worst_s": 2.5, "steps": 3}
    loop_watch.file_of("runner").write_text(str(held).replace("'", '"'))
    loop_watch.file_of("web").write_text("{}")  # of another version
    text = api(token_of(lena)).get("/metrics").content.decode()
    labels = f'{{host="{settings.HANDRAIL_HOST_NAME}",process="runner",team="{team.slug}"}}'
    assert f"handrail_loop_lateness_seconds{labels} 2.5" in text
    assert f"handrail_loop_long_steps{labels} 3.0" in text
    assert 'process="web"' not in text
    (found,) = [one for one in doctor.examine(deep=False) if one.part.startswith("event loop")]
    assert (found.ok, found.needed) == (False, False)
    assert "2500 ms" in found.words
    page = browser_of(lena).get("/status/").content.decode()
    assert "event loop of runner" in page
