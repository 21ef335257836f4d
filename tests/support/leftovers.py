"""What a product of the tests would leave behind: its workspaces stay up when it stops, as they should.

Run as a process it is the janitor of one test run: told of each product on its standard input, and when that ends
before it has heard that one was cleaned up (the run was killed), it ends that product and its workspaces itself.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support import CHECKOUT

PATIENCE = 20.0  # seconds for a supervisor to end its parts


def end_runs(home: Path, runtime: Path, engine: str = "", cluster: str = ""):
    """End what runs in a product's workspaces, and clear it away as its runner would: containers, control groups."""
    # Imported here, because the janitor mostly needs none of it.
    from workspaces.drivers.base import RunRecord, get_driver
    from workspaces.drivers.processes import boot_id, start_time

    options = {"docker": {"address": engine}, "kubernetes": {"at": cluster}}

    async def end(owner: RunRecord):
        if owner.boot_id == boot_id() and owner.pid and start_time(owner.pid) == owner.start_time:
            os.kill(owner.pid, signal.SIGKILL)
        driver = get_driver(owner.driver, home, runtime, options.get(owner.driver))
        await driver.stop(owner, grace_s=0.0)
        await driver.clear(owner)

    async def end_all():
        owners = [RunRecord.from_json(record.read_text()) for record in home.glob("runs/*/record.json")]
        found = await asyncio.gather(*(end(owner) for owner in owners), return_exceptions=True)
        for owner, trouble in zip(owners, found, strict=True):
            if trouble is not None:  # an engine that a test has ended, say; its process is killed all the same
                print(f"{owner.driver} {owner.run_id}: {trouble!r}", file=sys.stderr)

    asyncio.run(end_all())


class Janitor:
    """One for each process of a test run, started with its first product."""

    _process: subprocess.Popen | None = None

    @classmethod
    def tell(cls, product, *, over: bool = False):
        if cls._process is None:
            command = [sys.executable, "-m", "tests.support.leftovers"]
            cls._process = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, start_new_session=True)
        told = {
            "home": str(product.home),
            "runtime": str(product.runtime),
            "engine": product.environment.get("HANDRAIL_DOCKER_HOST", ""),
            "cluster": product.environment.get("HANDRAIL_KUBERNETES", ""),
            "pid": product.process.pid if product.process else None,
            "over": over,
        }
        with contextlib.suppress(BrokenPipeError):
            cls._process.stdin.write(json.dumps(told).encode() + b"\n")
            cls._process.stdin.flush()


def main():
    products = {}
    for line in sys.stdin:
        told = json.loads(line)
        if told["over"]:
            products.pop(told["home"], None)
        else:
            products[told["home"]] = told
    for told in products.values():
        if told["pid"] and told["home"] in _environment_of(told["pid"]):
            _end(told["pid"])
        end_runs(Path(told["home"]), Path(told["runtime"]), told["engine"], told["cluster"])


def _environment_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return ""


def _end(pid: int):
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
