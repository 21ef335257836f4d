"""Watches the processes of the product: which ran when, and how much memory and how many files each had."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY = 0.25  # seconds
SAMPLE_EVERY = 8  # looks
NAMES = {f"handrail {part}": part for part in ("web", "runner", "queue")}


@dataclass
class Started:
    """A process of a part that was seen for the first time; `start` is the kernel's, in clock ticks since the boot."""

    at: float
    part: str
    pid: int
    start: int
    first: bool  # the first of its part under its supervisor
    host: str = ""  # of several


@dataclass
class Sample:
    at: float
    part: str
    pid: int
    mib: float
    files: int
    threads: int


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def parts_of(supervisor: int) -> dict[str, int]:
    """Return {part: process id} of the children of a supervisor."""
    found = {}
    for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
        try:
            name = Path(f"/proc/{child}/cmdline").read_text().rstrip("\0")
        except OSError:
            continue
        if name in NAMES:
            found[NAMES[name]] = int(child)
    return found


def below(pid: int) -> list[int]:
    """Return a process and all its descendants, also those in sessions of their own."""
    found = [pid]
    for parent in found:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return found


def measured(part: str, pid: int) -> Sample:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return Sample(time.time(), part, pid, int(fields["VmRSS"].split()[0]) / 1024, files, int(fields["Threads"]))


class Watch:
    def __init__(self, day):
        self.day = day
        self.started: list[Started] = []
        self.samples: list[Sample] = []
        self._known: set[tuple] = set()  # (pid, start)
        self._parts: set[tuple] = set()  # (pid of the supervisor, part)

    async def work(self):
        looks = 0
        while True:
            self._look(sample=looks % SAMPLE_EVERY == 0)
            looks += 1
            await asyncio.sleep(LOOK_EVERY)

    def _look(self, *, sample: bool):
        for host, process in self.day.supervisors.items():
            self._look_at(host, process, sample=sample)

    def _look_at(self, host: str, process, *, sample: bool):
        try:
            parts = parts_of(process.pid)
        except OSError:
            return  # the supervisor is gone; its fault is planned, or the product's end is seen otherwise
        for part, pid in parts.items():
            try:
                self._see(host, process.pid, part, pid)
                if sample:
                    self.samples.append(measured(part, pid))
            except OSError:
                continue  # it has ended meanwhile

    def _see(self, host: str, supervisor: int, part: str, pid: int):
        start = start_of(pid)
        if (pid, start) not in self._known:
            self._known.add((pid, start))
            first = (supervisor, part) not in self._parts
            self._parts.add((supervisor, part))
            self.started.append(Started(time.time(), part, pid, start, first, host))
