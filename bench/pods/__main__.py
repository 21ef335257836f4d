"""`python -m bench.pods [--rounds N] [--at-once N]`: workspaces from a pool of agent-sandbox beside cold ones.

Milliseconds on this machine, in one run and in turn, so under the same load: a workspace of 2,000 files until the first
output of its first command, in a pod that waited, in a new Sandbox, and in a bare pod; a claim alone; a bare pod of the
same image until it runs; what brings 2,000 files into a pod that is up; and many workspaces at once, from both.

    python -m bench.kubernetes run python -m bench.pods

needs HANDRAIL_TEST_KUBERNETES_IMAGE and, in HANDRAIL_TEST_AGENT_SANDBOX, the built controller that tests take.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.drivers.__main__ import Ground, bare_pods
from bench.figures import spread
from bench.kubernetes.cluster import Cluster
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS
from tests.workspaces.kubernetes.controller import PLACE, Controller
from workspaces.drivers.base import DriverError

FILES = 2000
WAYS = {
    "a bare pod": {},
    "a new Sandbox": {"source": "agent-sandbox"},
    "a pool": {"source": "agent-sandbox", "warm": 1},
}


@contextmanager
def ground(folder: Path, options: dict):
    """Workspaces whose pods come in one way, each with 2,000 files."""
    before = dict(OPTIONS["kubernetes"])
    OPTIONS["kubernetes"] |= options
    folder.mkdir(mode=0o755, parents=True)
    made = Ground("kubernetes", folder)
    try:
        yield made
    finally:
        OPTIONS["kubernetes"] = before
        made.driver.warm_pools.drop_all(lambda namespace: made.driver.pods.within(namespace).source)


async def spec_of(made: Ground):
    spec = replace(await made.spec(), environment="bench")
    for number in range(FILES):
        place = spec.workspace / f"d{number % 40}" / f"file-{number}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"# {number}\n" * 100)
    return spec


def await_pool(made: Ground, number: int = 1) -> None:
    [pool] = made.driver.warm_pools._pools()
    until(lambda: made.driver.pods.source.waiting(pool.name)[0] == number)


async def ready_to_run(made: Ground) -> float:
    """Return the seconds until a first command has answered."""
    spec = await spec_of(made)
    began = time.perf_counter()
    owner = await made.up(spec)
    taken = time.perf_counter() - began
    await made.down(owner)
    return taken


def claim_alone(made: Ground) -> float:
    """Return the seconds from the claim to a pod with an address that is this name's."""
    [pool] = made.driver.warm_pools._pools()
    source = made.driver.pods.source
    began = time.perf_counter()
    source.claim("claimed-alone", pool.name)
    taken = time.perf_counter() - began
    source.delete("claimed-alone", grace_s=0)
    source.wait_until_gone("claimed-alone", within_s=60)
    return taken


async def at_once(made: Ground, number: int) -> dict:
    """Bring so many workspaces up together; count those that failed."""
    specs = [await made.spec() for _ in range(number)]
    began = time.perf_counter()
    found = await asyncio.gather(*(made.up(spec) for spec in specs), return_exceptions=True)
    taken = time.perf_counter() - began
    failed = [each for each in found if isinstance(each, BaseException)]
    await asyncio.gather(*(made.down(each) for each in found if not isinstance(each, BaseException)))
    return {"ms": round(taken * 1000, 1), "failed": len(failed)} | ({"why": str(failed[0])} if failed else {})


async def measure(folder: Path, rounds: int, together: int) -> dict:
    canaries = folder / "canaries"  # what they found, which is the same for all
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    claims = []
    with ground(folder / "probe", {}) as made:
        if not (probe := await made.driver.probe()).available:
            raise DriverError(f"{probe.reason} {probe.what_to_do}")
        shutil.copytree(made.driver.home / "kubernetes", canaries)
    for number in range(rounds):
        for mark, (way, options) in enumerate(WAYS.items()):
            with ground(folder / f"{number}-{mark}", options) as made:
                shutil.copytree(canaries, made.driver.home / "kubernetes")
                if "warm" in options:
                    await made.driver.warm(await spec_of(made))
                    await asyncio.to_thread(await_pool, made)
                    claims.append(await asyncio.to_thread(claim_alone, made))
                    await asyncio.to_thread(await_pool, made)
                times[way].append(await ready_to_run(made))
    found = {f"2,000 files ready to run, from {way}": spread(taken) for way, taken in times.items()}
    found["a claim alone"] = spread(claims)
    found |= {f"bare {title}": row for title, row in bare_pods(rounds).items()}
    with ground(folder / "together", {}) as made:
        shutil.copytree(canaries, made.driver.home / "kubernetes")
        found[f"{together} workspaces at once"] = await at_once(made, together)
    return found


def ratios(found: dict) -> dict:
    """Return what the project holds itself to, each with what it may be at most."""
    p50 = {title: row["p50"] for title, row in found.items() if "p50" in row}
    warm, cold, bare = (
        p50[f"2,000 files ready to run, from {way}"] for way in ("a pool", "a new Sandbox", "a bare pod")
    )
    return {
        "target: from a pool to cold, the same source": {"is": round(warm / cold, 2), "at most": 0.5},
        "from a pool to cold, a bare pod": {"is": round(warm / bare, 2)},
        "target: a claim alone, ms": {"is": p50["a claim alone"], "at most": 300},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pods", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=50, help="workspaces that are brought up together")
    options = parser.parse_args()
    name = os.environ.get("HANDRAIL_TEST_KUBERNETES")
    if name is None or not (PLACE / "agent-sandbox-controller.xz").exists():
        print(
            "not measured: there is no cluster of `python -m bench.kubernetes run`, or no controller of agent-sandbox"
        )
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-"))
    folder.chmod(0o755)
    (folder / "controller").mkdir()
    controller = Controller(Cluster.load(name), folder / "controller")
    controller.start()
    try:
        found = {"load": [round(load, 1) for load in os.getloadavg()], "cores": os.cpu_count()}
        found |= asyncio.run(measure(folder / "runs", options.rounds, options.at_once))
    finally:
        controller.kill()
        shutil.rmtree(folder, ignore_errors=True)
    for title, row in (found | ratios({t: r for t, r in found.items() if isinstance(r, dict)})).items():
        print(f"{title:50} {json.dumps(row)}")


if __name__ == "__main__":
    main()
