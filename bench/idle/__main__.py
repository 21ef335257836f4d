"""`python -m bench.idle [--seconds N] [--json]`: what Handrail costs while nothing happens, and how soon it is there.

Starts it as a newcomer does, connects a folder for Claude Code, has it ask once, and leaves it alone until the policy
engine's processes have ended. Exits with 1 beyond a limit.

BEFORE is of the commit before the parts were forked from one process, measured beside its successor on the same busy
machine (2 processors, Python 3.11, SQLite), but for "ready s", which is of a quiet one. That successor had 203 MiB,
1.5 s a minute (1.4 of it the runner), and 2.1 s of a processor until it was ready, in 0.56 of the time that the other
took; with less beside it, it was ready after 1.6 s.
"""

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.product import Product

# 230 MiB and what was added since may have 15 % more.
LIMITS = {"PSS MiB": 230 * 1.15, "processor s a minute": 0.6, "ready s": 1.5, "first page ms": 100}
BEFORE = {"PSS MiB": 345, "processor s a minute": 2.1, "ready s": 1.9, "ready processor s": 4.0, "first page ms": None}
SETTLED_S = 70  # the policy engine's processes end after a minute without a question
STARTS = 3  # the median of so many, each on the data of the one before
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """One process as /proc shows it now."""

    def __init__(self, pid: int):
        self.pid = pid
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        self.parent = int(fields[1])
        self.seconds = sum(map(int, fields[11:15])) / _TICKS  # with those of the children that it has waited for
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        self.words = " ".join(Path(word).name if word.startswith("/") else word for word in words).strip()

    def pss(self) -> float:
        """MiB; what several processes share counts in equal parts."""
        try:
            text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return 0  # it ended meanwhile
        return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) / 1024


def all_of(product: Product, others: set[int]) -> list[Process]:
    """Return the supervisor and its descendants; this process reaps, so their orphans are found too."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found[int(entry.name)] = Process(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    found = {pid: process for pid, process in found.items() if process.words}  # a zombie has none
    chosen = {product.process.pid}
    chosen |= {pid for pid, process in found.items() if process.parent == os.getpid() and pid not in others}
    while more := {pid for pid, process in found.items() if process.parent in chosen} - chosen:
        chosen |= more
    return [found[pid] for pid in sorted(chosen)]


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def median(values) -> float:
    return sorted(values)[len(values) // 2]


def measure_start(product: Product, others: set[int]) -> dict:
    """Seconds until it says that it is ready, and of a processor until all parts have calmed down."""
    began = time.perf_counter()
    product.start()
    wall = time.perf_counter() - began
    time.sleep(5)
    return {"ready s": wall, "ready processor s": sum(process.seconds for process in all_of(product, others))}


def measure_first_pages(product: Product) -> float:
    """Milliseconds of the slower of the first two pages of this start: the one that signs in, and the desk."""
    path = urlsplit(product.sign_in_url("rita", "lead")).path
    signing_in, page = _timed(product, path)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[1]
    headers = {
        "Cookie": page.headers["Set-Cookie"].split(";")[0],
        "Content-Type": "application/x-www-form-urlencoded",
        "Origin": product.desk,
    }
    answer = product.call("POST", path, body=f"csrfmiddlewaretoken={token}".encode(), headers=headers.items())
    cookies = "; ".join(line.split(";")[0] for line in answer.headers.get_all("Set-Cookie"))
    desk, page = _timed(product, "/", headers={"Cookie": cookies}.items())
    if page.status != 200:
        raise SystemExit(f"the desk answered {page.status}")
    return max(signing_in, desk)


def _timed(product: Product, path: str, headers=()) -> tuple:
    began = time.perf_counter()
    page = product.get(path, headers=headers)
    return 1000 * (time.perf_counter() - began), page


def connect(product: Product, folder: Path):
    """Gate a folder, and let its Claude Code ask once."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    done = product.manage("connect", "claude-code", str(folder))
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    hooks = json.loads((folder / ".claude/settings.local.json").read_text())["hooks"]["PreToolUse"]
    call = {
        "session_id": "idle",
        "cwd": str(folder),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "git status"},
        "tool_use_id": "idle",
    }
    answer = subprocess.run(
        ["/bin/sh", "-c", hooks[-1]["hooks"][0]["command"]], input=json.dumps(call).encode(), capture_output=True
    )
    decision = json.loads(answer.stdout)["hookSpecificOutput"]["permissionDecision"]
    if decision != "allow":
        raise SystemExit(f"the hook said {decision}")


def measure_idle(product: Product, others: set[int], seconds: int) -> dict:
    """Per process and in all: memory, and seconds of a processor in a minute."""
    time.sleep(SETTLED_S)
    before = {process.pid: process.seconds for process in all_of(product, others)}
    time.sleep(seconds)
    after = all_of(product, others)
    used = {process.pid: (process.seconds - before.get(process.pid, 0)) * 60 / seconds for process in after}
    rows = [(process.pid, process.words, process.pss(), used[process.pid]) for process in after]
    total = {"PSS MiB": sum(row[2] for row in rows), "processor s a minute": sum(row[3] for row in rows)}
    return total | {"processes": rows}


def main(seconds: int) -> dict:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        product = Product(Path(folder, "home"))
        others = set()
        try:
            product.start()  # the first start makes the database
            product.stop()
            others = children()  # the janitor
            starts, pages = [], []
            for _ in range(STARTS):
                product.stop()
                starts.append(measure_start(product, others))
                pages.append(measure_first_pages(product))
            found = {name: median([start[name] for start in starts]) for name in starts[0]}
            found["first page ms"] = median(pages)
            connect(product, Path(folder, "calc"))
            # The shell that gave the names and tokens of the scene is not the product.
            product._console.close()
            product._console = None
            return found | measure_idle(product, others, seconds)
        finally:
            product.clean_up()


def show(found: dict) -> None:
    print(f"{'process':>8}  {'PSS MiB':>8}  {'s/min':>6}  program")
    for pid, words, pss, used in found["processes"]:
        print(f"{pid:>8}  {pss:8.1f}  {used:6.2f}  {words[:80]}")
    print(f"\n{'':24} {'now':>8} {'before':>8} {'limit':>8}")
    for name, before in BEFORE.items():
        limit = f"{LIMITS[name]:8.1f}" if name in LIMITS else ""
        was = "" if before is None else f"{before:.2f}"
        print(f"{name:24} {found[name]:8.2f} {was:>8} {limit}")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="how long it is watched")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    found = main(options.seconds)
    print(json.dumps(found, indent=1)) if options.json else show(found)
    sys.exit(any(found[name] > limit for name, limit in LIMITS.items()))
