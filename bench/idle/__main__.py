"""`python -m bench.idle [--beside CHECKOUT] [--seconds N] [--json]`: what Handrail costs while nothing happens.

Starts it as a newcomer does, connects a folder for Claude Code, has it ask once, and leaves it alone until the policy
engine's processes have ended: then counts context switches, SQL statements and memory of all its processes. The same
once more with a sandbox workspace. `--beside` measures another checkout, with that one's `.venv`, in the same run.
Exits with 1 beyond a limit.
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
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.product import Product

READY = "ready s"
SWITCHES, STATEMENTS, MEMORY = "context switches a second", "SQL statements a minute", "PSS MB"
# Of one connected folder, and with one sandbox workspace as well.
LIMITS = {READY: 1.2, SWITCHES: 8, STATEMENTS: 60, MEMORY: 190}
WITH_A_WORKSPACE = ", with a workspace"
LIMITS |= {SWITCHES + WITH_A_WORKSPACE: 8, STATEMENTS + WITH_A_WORKSPACE: 60, MEMORY + WITH_A_WORKSPACE: 260}
SETTLED_S = 75  # the processes of the policy engine, and the threads for queries, end after a minute without work
STARTS = 5  # the median of so many, each on the data of the one before
COUNTING = Path(__file__).parents[1] / "counting"
_PR_SET_CHILD_SUBREAPER = 36


class Watched:
    """The processes of one product: the supervisor and its descendants.

    This process reaps, so orphans of the product are found as its children; `others` are those that it had before.
    """

    def __init__(self, product: Product, counts: Path, others: set[int]):
        self.product, self.counts, self.others = product, counts, others

    def pids(self) -> list[int]:
        parents = {int(entry.name): _parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdecimal()}
        chosen = {self.product.process.pid}
        chosen |= {pid for pid, parent in parents.items() if parent == os.getpid() and pid not in self.others}
        while more := {pid for pid, parent in parents.items() if parent in chosen} - chosen:
            chosen |= more
        return sorted(chosen)

    def measure(self, seconds: int) -> dict:
        """Watch for so long; return the figures, and the rows of single processes under "processes"."""
        switches, before, statements = {}, {}, self._statements()
        until = time.monotonic() + seconds
        for pid in self.pids():
            before |= _switches(pid)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 1))
            for pid in self.pids():
                switches |= _switches(pid)  # of a thread that has ended meanwhile, the last that was seen
        switches = {task: count - before.get(task, 0) for task, count in switches.items()}
        after = self._statements()
        pids = self.pids()
        rows = [
            {
                "process": _words(pid),
                MEMORY: _pss(pid),
                SWITCHES: sum(count for task, count in switches.items() if task[0] == pid) / seconds,
                STATEMENTS: (after.get(pid, 0) - statements.get(pid, 0)) * 60 / seconds,
                "threads": {
                    f"{task[1]} {_thread(task)}": round(count / seconds, 2)
                    for task, count in switches.items()
                    if task[0] == pid
                },
            }
            for pid in pids
        ]
        made = sum(after.values()) - sum(statements.values())
        found = {SWITCHES: sum(switches.values()) / seconds, STATEMENTS: made * 60 / seconds}
        return found | {MEMORY: sum(row[MEMORY] for row in rows), "processes": rows}

    def _statements(self) -> dict[int, int]:
        files = [file for file in self.counts.iterdir() if file.name.isdecimal()]
        return {int(file.name): int.from_bytes(file.read_bytes(), sys.byteorder) for file in files}


def _parent(entry: Path) -> int:
    try:
        stat = (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended meanwhile
    state, parent = stat.rpartition(")")[2].split()[:2]
    return 0 if state == "Z" else int(parent)


def _words(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return " ".join(Path(word).name if word.startswith("/") else word for word in words).strip()


def _pss(pid: int) -> float:
    """Megabytes; what several processes share counts in equal parts."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) * 1024 / 1e6


def _switches(pid: int) -> dict[tuple[int, int], int]:
    """Return {(pid, thread): voluntary and involuntary context switches so far}."""
    found = {}
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            text = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[pid, int(task.name)] = sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", text)))
    return found


def _thread(task: tuple[int, int]) -> str:
    try:
        return Path(f"/proc/{task[0]}/task/{task[1]}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "ended"


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def median(values) -> float:
    return sorted(values)[len(values) // 2]


def measure_start(product: Product) -> float:
    """Seconds from `manage.py up` to the first answered request."""
    began = time.perf_counter()
    product.process = subprocess.Popen(
        [sys.executable, "manage.py", "up"],
        env=product.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while True:
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"{product.url}/healthz", timeout=60
            ).close()
            return time.perf_counter() - began
        except urllib.error.HTTPError as answer:
            answer.close()
            return time.perf_counter() - began
        except OSError:  # nobody listens yet
            time.sleep(0.01)


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


def make_workspace(product: Product):
    agent = product.agent_token("idle")
    product.post("/api/v1/workspaces", agent, {"key": "idle"})
    made = product.settled("/api/v1/workspaces/idle", agent)
    if made["state"] != "ready" or made["driver"] != "sandbox":
        raise SystemExit(f"the workspace is {made['state']} ({made['driver']}): {made['reason']}")


def main(seconds: int) -> dict:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        counts = Path(folder, "counts")
        counts.mkdir()
        product = Product(Path(folder, "home"))
        plain = dict(product.environment)
        try:
            product.start()  # the first start makes the database
            product.stop()
            others = children()  # the janitor
            starts = []
            for _ in range(STARTS):
                product.stop()
                starts.append(measure_start(product))
            product.stop()
            path = os.pathsep.join(filter(None, [str(COUNTING), plain.get("PYTHONPATH")]))
            product.environment |= {"PYTHONPATH": path, "COUNT_SQL_INTO": str(counts)}
            product.start()
            product.environment = plain
            connect(product, Path(folder, "calc"))
            return {READY: median(starts)} | _idle(product, Watched(product, counts, others), seconds)
        finally:
            product.clean_up()


def _idle(product: Product, watched: Watched, seconds: int) -> dict:
    """Return the figures of one connected folder, and of a workspace beside it."""
    time.sleep(SETTLED_S)
    found = watched.measure(seconds)
    make_workspace(product)
    # The shell that gave the tokens of the scene is not the product.
    product._console.close()
    product._console = None
    time.sleep(SETTLED_S)
    return found | {f"{name}{WITH_A_WORKSPACE}": value for name, value in watched.measure(seconds).items()}


def beside(checkout: Path, seconds: int) -> dict:
    """Return what this file finds of another checkout."""
    command = [checkout / ".venv/bin/python", __file__, "--json", "--seconds", str(seconds)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    return json.loads(
        subprocess.run(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, check=False).stdout
    )


def show(found: dict, other: dict) -> None:
    for title in ("", WITH_A_WORKSPACE):
        print(f"\n{'PSS MB':>8}  {'switches/s':>10}  {'SQL/min':>8}  process{title}")
        for row in found[f"processes{title}"]:
            print(f"{row[MEMORY]:8.1f}  {row[SWITCHES]:10.2f}  {row[STATEMENTS]:8.1f}  {row['process'][:80]}")
    print(f"\n{'':46} {'now':>8} {'beside':>8} {'limit':>8}")
    for name, limit in LIMITS.items():
        print(f"{name:46} {found[name]:8.2f} {other.get(name, float('nan')):8.2f} {limit:8.1f}")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.idle", description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout, which has a .venv")
    parser.add_argument("--seconds", type=int, default=60, help="how long each is watched")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    options = parser.parse_args()
    other = beside(options.beside, options.seconds) if options.beside else {}
    found = main(options.seconds)
    print(json.dumps(found, indent=1)) if options.json else show(found, other)
    sys.exit(any(found[name] > limit for name, limit in LIMITS.items()))
