"""The logs of a run (`tests/support/run_log.py`) and its order (`tests/support/order.py`), in a pytest of its own."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from tests.support import CHECKOUT
from tests.support.waiting import until

FIRST = """
import pytest

@pytest.mark.long
def test_long():
    print("ran: first long")

@pytest.mark.parametrize("number", [1, 2])
def test_number(number):
    print("ran: first", number)
    assert number == 1, "it is\\ntwo"
"""
SECOND = """
import pytest

@pytest.fixture
def broken():
    raise OSError("no disk")

def test_with_it(broken):
    pass
"""
ENDLESS = """
import time

def test_false():
    assert False

def test_endless():
    time.sleep(600)
"""
ENDLESS_SEEN = """
import os
import pytest

@pytest.hookimpl(trylast=True)
def pytest_runtest_logstart(nodeid):
    if nodeid.endswith("::test_endless") and "PYTEST_XDIST_WORKER" not in os.environ:
        open("begun", "w").close()
"""


@pytest.fixture
def start(tmp_path):
    """`start(*options, name=text)`: pytest on files of these names, with the logs in `tmp_path`."""
    started = []

    def starts(*options, **files):
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = long\n product\n")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CHECKOUT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "HANDRAIL_TEST_LOGS": str(tmp_path),
        }
        command = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-p", "tests.support.order"]
        command += ["-p", "tests.support.run_log", *options]
        log = (tmp_path / "out").open("w")
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, start_new_session=True))
        log.close()
        return started[-1]

    yield starts
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lines(folder, log: str) -> list[str]:
    """Return a log's lines without their times."""
    return [line.split(" ", 1)[1] for line in (folder / log).read_text().splitlines()]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_each_failure_is_in_the_log_with_its_error(start, tmp_path, workers):
    start("-n", workers, "--dist", "loadfile", first=FIRST, second=SECOND).wait(120)

    printed = (tmp_path / "out").read_text()
    assert sorted(lines(tmp_path, "failed.log")) == [
        "FAILED test_first.py::test_number[2] [call] AssertionError: it is",
        "FAILED test_second.py::test_with_it [setup] OSError: no disk",
    ]
    assert all(line in printed for line in (tmp_path / "failed.log").read_text().splitlines())
    progress = lines(tmp_path, "progress.log")
    assert [line[:25] for line in progress[:4]] == [f"{n} of 4 quarters of 4 tests"[:25] for n in (1, 2, 3, 4)]
    assert "; 1 of 1 long tests ran, in the order of HANDRAIL_TEST_SEED=" in progress[4]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_that_is_terminated_names_what_it_was_in(start, tmp_path, workers):
    (tmp_path / "conftest.py").write_text(ENDLESS_SEEN)
    process = start("-n", workers, "--dist", "loadfile", endless=ENDLESS)
    until((tmp_path / "begun").exists, within=60)
    os.killpg(process.pid, signal.SIGTERM)  # as `timeout` does in .ci/run
    process.wait(60)

    failed, stopped = lines(tmp_path, "failed.log")
    assert failed.startswith("FAILED test_endless.py::test_false [call] assert False")
    assert stopped.startswith("STOPPED test_endless.py::test_endless after ")
    assert "def test_false" in (tmp_path / "out").read_text()  # with its whole error
    assert process.returncode == pytest.ExitCode.INTERRUPTED


@pytest.mark.parametrize("workers", ["0", "1"])
def test_long_tests_come_last(start, tmp_path, workers):
    start("-n", workers, "--dist", "loadfile", "-v", first=FIRST, second=SECOND).wait(120)

    printed = (tmp_path / "out").read_text()
    begun = [printed.index(f"test_first.py::{test}") for test in ("test_number[1]", "test_number[2]", "test_long")]
    assert begun == sorted(begun)


def test_a_long_test_does_not_start_after_its_time(start, tmp_path):
    start("-n", "2", "--dist", "loadfile", "--long-until", "1", "-rP", first=FIRST).wait(120)

    printed = (tmp_path / "out").read_text()
    assert "ran: first 1" in printed
    assert "ran: first long" not in printed
    assert "; 0 of 1 long tests ran" in lines(tmp_path, "progress.log")[-1]


def test_a_test_that_starts_a_product_does_not_start_after_its_time(start, tmp_path):
    heavy = FIRST.replace("pytest.mark.long", "pytest.mark.product")
    start("-n", "2", "--dist", "loadfile", "--heavy-until", "1", "-rP", first=heavy).wait(120)

    printed = (tmp_path / "out").read_text()
    assert "ran: first 1" in printed
    assert "ran: first long" not in printed
    assert lines(tmp_path, "progress.log")[-1].endswith("; 1 other tests were not started, as time was up")


def test_a_long_test_that_failed_last_runs_although_its_time_is_up(start, tmp_path):
    failing = FIRST.replace('print("ran: first long")', "assert False")
    start(first=failing).wait(120)
    (tmp_path / "failed.log").unlink()
    start("--long-until", "1", "--last-failed", first=failing).wait(120)

    assert [line.split(" ")[1] for line in lines(tmp_path, "failed.log")] == [
        "test_first.py::test_number[2]",
        "test_first.py::test_long",
    ]
