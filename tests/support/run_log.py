"""Logs of a run of tests, written as it goes, so that one that is killed has still said what it knew.

HANDRAIL_TEST_LOGS names their folder: `failed.log` has each failure, `slow.log` each test that took long,
`progress.log` when each quarter was reached and how many of the long tests ran. Failures and progress are printed too.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.order import OUT_OF_TIME, SEED

FOLDER = "HANDRAIL_TEST_LOGS"
SLOW = 5  # seconds
LONGEST_LINE = 300  # characters of an error


def pytest_configure(config):
    in_a_test = "PYTEST_CURRENT_TEST" in os.environ  # started by a test, whose own run writes the logs
    if os.environ.get(FOLDER) and not hasattr(config, "workerinput") and not in_a_test:
        config.pluginmanager.register(RunLog(config, Path(os.environ[FOLDER])))


def last_error_line(report) -> str:
    """Return the line that says what failed: the exception with its message, or what was printed last."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message.strip() if crash else str(report.longrepr).rstrip().rpartition("\n")[2]
    return text.partition("\n")[0][:LONGEST_LINE]


class RunLog:
    def __init__(self, config, folder: Path):
        self.config, self.folder = config, folder
        self.began, self.ended, self.quarter = time.monotonic(), 0, 0
        self.running: dict[str, float] = {}  # since when each test runs
        self.long, self.unstarted, self.heavy_unstarted = 0, 0, 0
        self.before = signal.signal(signal.SIGTERM, self.terminated)

    def write(self, log: str, line: str):
        line = f"{time.strftime('%H:%M:%S')} {line}"
        with (self.folder / log).open("a") as file:
            file.write(f"{line}\n")
        if log != "slow.log" and (terminal := self.config.pluginmanager.get_plugin("terminalreporter")):
            terminal.write_line(line)

    def terminated(self, *_):
        """Name the tests that still run, and end as after Ctrl-C, with the errors of those that have failed."""
        for test, since in self.running.items():
            self.write(
                "failed.log", f"STOPPED {test} after {time.monotonic() - since:.0f} s, as the run was terminated"
            )
        pytest.exit("terminated")

    def pytest_runtest_logstart(self, nodeid):
        self.running[nodeid] = time.monotonic()

    def pytest_runtest_logreport(self, report):
        if report.duration > SLOW:
            self.write("slow.log", f"{report.duration:6.1f} s {report.nodeid} [{report.when}]")
        if report.failed:
            self.write("failed.log", f"FAILED {report.nodeid} [{report.when}] {last_error_line(report)}")
        if report.when == "setup":
            is_long, unstarted = "long" in report.keywords, report.skipped and OUT_OF_TIME in str(report.longrepr)
            self.long += is_long
            self.unstarted += is_long and unstarted
            self.heavy_unstarted += unstarted and not is_long

    def pytest_collectreport(self, report):
        if report.failed:
            self.write("failed.log", f"FAILED {report.nodeid} [collect] {last_error_line(report)}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid):
        self.running.pop(nodeid, None)
        self.ended += 1
        total = self.config.pluginmanager.get_plugin("session").testscollected
        if self.ended * 4 >= (self.quarter + 1) * total:
            self.quarter = self.ended * 4 // total
            self.write("progress.log", f"{self.quarter} of 4 quarters of {total} tests after {self.seconds} s")

    @property
    def seconds(self) -> int:
        return round(time.monotonic() - self.began)

    def pytest_sessionfinish(self):
        signal.signal(signal.SIGTERM, self.before)

    def pytest_terminal_summary(self):
        ran = self.long - self.unstarted
        long = f"{ran} of {self.long} long tests ran, in the order of {SEED}={os.environ[SEED]}"
        if self.heavy_unstarted:
            long += f"; {self.heavy_unstarted} other tests were not started, as time was up"
        self.write("progress.log", f"ended after {self.seconds} s; {long}")
