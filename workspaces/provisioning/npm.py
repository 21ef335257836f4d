"""Bring a package from npm into a folder: by the ordinary client, which checks what it brings. No script of it runs."""

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dashboard.net import outbound
from dashboard.problems import unavailable
from workspaces.store import Cancelled

SECONDS = 1800  # for one package with what it needs
MAX_WRITTEN = 4 << 30  # bytes that npm may write meanwhile, its cache included
MAX_FILE = 2 << 30  # bytes of one file
LOOK_SECONDS = 0.5
OURS = "HANDRAIL_"  # variables that npm is not given


def bring(
    package: str,
    folder: Path,
    *,
    tell: Callable[[str], None] = lambda line: None,
    cancel: threading.Event | None = None,
    report: Callable[[int], None] = lambda written: None,
):
    """Bring `package` (NAME@VERSION) into the folder. Problem 503 with what npm says; Cancelled.

    `tell` as of `watched`; `report` is called with the bytes that npm has written so far.
    """
    if shutil.which("npm") is None:
        raise unavailable("npm is not on this PATH. It brings the program; nothing else needs Node.")
    line = ["npm", "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
    line.append("--fetch-retry-maxtimeout=10000")  # ms; npm's own is a minute, for each try
    process = subprocess.Popen(
        [*line, package],
        env={name: value for name, value in os.environ.items() if not name.startswith(OURS)} | outbound.variables(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # one process group, to end npm together with what it starts
    )
    tell(f"+{process.pid}")
    try:
        with suppress(ProcessLookupError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
        printed = _hear_out(process, package, cancel, report)
    finally:
        tell(f"-{process.pid}")
    if process.returncode:
        raise unavailable(_why(package, printed.decode("utf-8", "replace")))


def _hear_out(process: subprocess.Popen, package: str, cancel, report) -> bytes:
    """Return what npm printed on stderr once it has ended; on any exception kill its process group."""
    deadline = time.monotonic() + SECONDS
    try:
        while True:
            try:
                return process.communicate(timeout=LOOK_SECONDS)[1]
            except subprocess.TimeoutExpired:
                written = _written(process.pid)
                report(written)
            if cancel is not None and cancel.is_set():
                raise Cancelled("cancelled while npm was at work")
            if written > MAX_WRITTEN:
                raise unavailable(f"npm wrote more than {MAX_WRITTEN >> 30} GiB for {package}, and was ended.")
            if time.monotonic() > deadline:
                raise unavailable(f"npm did not bring {package} within {SECONDS // 60} minutes.")
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


def _written(pid: int) -> int:
    """Return how many bytes the process has written; 0 where the kernel does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("wchar:")).split()[1])
    return 0


def _why(package: str, printed: str) -> str:
    """Return what npm's own words say about why it could not bring the package."""
    lines = [line for line in printed.strip().splitlines() if "error" in line.lower()]
    words = list(dict.fromkeys([*lines[:1], *(line for line in lines if "request to" in line)][:2]))
    if any("CERT" in line for line in lines):
        words.append("If a proxy here signs TLS itself, name the file of its CA in HANDRAIL_UPSTREAM_CA.")
    return f"npm could not bring {package}: {' '.join(words or ['it says nothing'])[:500]}"
