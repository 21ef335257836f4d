"""`python -m bench.held [--rounds N] [--json]`: what holding adds to an agent's shell calls in a connected folder.

A warm box; each row is the median of its rounds in milliseconds of wall time, beside the limits that it should keep:
the hook's answer with nothing new to snapshot and after a write, `handrail-run` alone against the same command outside,
and a second of processor and 500 small programs held and outside. Run it on a quiet machine. Run as root it becomes
`nobody`. Exits with 1 beyond a limit.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.projects.__main__ import HOME, USER
from tests.support.held_calls import HeldCalls, give
from tests.support.product import Product

WORK = {
    "one program": "true",
    "processor": "python3 -c 'sum(i * i for i in range(8_000_000))'",
    "500 programs": "for i in $(seq 500); do /bin/true; done",
}
HOOK_MS = 60
OVERHEAD_MS = 30
OVERHEAD_SHARE = 0.02


def milliseconds(act) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def run(calls: HeldCalls, command: str):
    done = calls.run(command)
    assert done.returncode == 0, done.stdout


def answer(calls: HeldCalls, command: str) -> str:
    """Return the changed command of the hook's answer."""
    found = calls.ask(command)
    assert found["permissionDecision"] == "allow", found
    changed = found["updatedInput"]["command"]
    assert "handrail-run" in changed, found
    return changed


def hooks(calls: HeldCalls, rounds: int) -> dict:
    """Return the times of the hook's answers: nothing written since the last call, and one file written."""
    times = {"hook": [], "hook after a write": []}
    for number in range(rounds):
        times["hook"].append(milliseconds(lambda number=number: answer(calls, f"ls module{number}.py")))
        (calls.folder / "written").write_text(str(number))
        times["hook after a write"].append(milliseconds(lambda: answer(calls, "touch x")))
    return {name: statistics.median(each) for name, each in times.items()}


def held_and_not(calls: HeldCalls, rounds: int) -> dict:
    """Return {work: (median outside, median held)}; the two take turns, and the hook is not in the times."""
    found = {}
    for name, command in WORK.items():
        outside, held = [], []
        for _ in range(rounds):
            outside.append(milliseconds(lambda command=command: run(calls, command)))
            changed = answer(calls, command)
            held.append(milliseconds(lambda changed=changed: run(calls, changed)))
        found[name] = statistics.median(outside), statistics.median(held)
    return found


def measure(rounds: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="handrail-held-", dir=HOME, ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o755)
        product = Product(Path(top, "desk"), HANDRAIL_HELD="1")
        if USER:
            product.become(USER)
        try:
            product.start()
            for name in ("home", "project"):
                Path(top, name).mkdir()
            for number in range(200):
                Path(top, "project", f"module{number}.py").write_text(f"VALUE = {number}\n" * 50)
            give(Path(top, "home"), USER)
            give(Path(top, "project"), USER)
            calls = HeldCalls(Path(top, "project"), Path(top, "home"), USER)
            calls.connect(product)
            run(calls, answer(calls, "true"))
            return hooks(calls, rounds) | held_and_not(calls, rounds)
        finally:
            product.clean_up()


def rows(found: dict) -> list[tuple]:
    """Return (name, outside, held, limit), in milliseconds; the limit of a work's held time is its own."""
    hook = [(name, None, found[name], HOOK_MS if name == "hook" else None) for name in ("hook", "hook after a write")]
    works = [(name, *found[name], found[name][0] * (1 + OVERHEAD_SHARE) + OVERHEAD_MS) for name in WORK]
    return hook + works


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.held", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    found = rows(measure(asked.rounds))
    over = [name for name, _outside, held, limit in found if limit is not None and held > limit]
    if asked.json:
        keys = ("name", "outside_ms", "held_ms", "limit_ms")
        print(json.dumps({"load": os.getloadavg(), "rows": [dict(zip(keys, row, strict=True)) for row in found]}))
        return 1 if over else 0
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, outside, held, limit in found:
        beside = f"outside {outside:8.1f}" if outside is not None else " " * 16
        most = f"limit {limit:8.1f}" if limit is not None else ""
        print(f"{name:20} {beside}   held {held:8.1f}   {most} {'MISSED' if name in over else ''}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
