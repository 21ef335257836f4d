"""`python -m bench.drivers [--rounds N] [--driver NAME]`: sandboxes, containers and pods beside the bare tools.

Milliseconds on this machine, all in one run: from nothing to the first output of a first command, a command's round
trip through its host process, pause and resume (the Run ends, the next one begins), and many workspaces at once. What
is bare: `bwrap`, `docker run` and `docker exec` of the same `echo`, and a pod of the same image until it runs, also
with an init container, as ours has one. A busy machine says so in `load`.

The engine and the image are those of the tests: HANDRAIL_TEST_DOCKER_HOST or DOCKER_HOST, HANDRAIL_TEST_DOCKER_IMAGE.
Pods are measured under `python -m bench.kubernetes run python -m bench.drivers`, with HANDRAIL_TEST_KUBERNETES_IMAGE.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from dataclasses import replace
from pathlib import Path

from bench.figures import spread
from bench.kubernetes.cluster import Cluster
from tests.support.kubernetes import Pods
from tests.support.pods import GIVEN
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, driver_of, image_of
from workspaces.drivers.base import DriverError, RunSpec
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.sandbox.driver import find_bwrap
from workspaces.envelope.envelope import BY_TIER, LOW, MEDIUM, Envelope
from workspaces.envelope.ring import is_held
from workspaces.shim import client, pool
from workspaces.shim.record import ShimSpec

ECHO = ["/bin/echo", "hello"]


class Ground:
    """Workspaces of one driver in a scratch folder."""

    def __init__(self, name: str, folder: Path):
        self.folder = folder
        for part in ("handrail", "run", "programs"):
            (folder / part).mkdir(mode=0o700)
        if name == "kubernetes":
            OPTIONS[name]["at"] = os.environ.get(GIVEN, "")
        self.driver = driver_of(name, folder)
        self.made = 0

    async def spec(self) -> RunSpec:
        self.made += 1
        tree, home = self.folder / f"tree-{self.made}", self.folder / f"home-{self.made}"
        for part in (tree, home):
            part.mkdir()
        uid = 300_000 + self.made if os.getuid() == 0 else os.getuid()
        image = await self.driver.find_image(image_of(self.driver.name)) if self.driver.capabilities.images else None
        return RunSpec(uuid.uuid4().hex, "bench", "bench", tree, home, uid=uid, image=image)

    async def up(self, spec: RunSpec):
        """Bring it up and read the first output of a first program."""
        await self.driver.prepare(spec)
        owner = await self.driver.start(spec)
        await asyncio.to_thread(first_output, owner)
        return owner

    async def down(self, owner):
        await self.driver.stop(owner, grace_s=0.0)
        await self.driver.clear(owner)

    async def command(self, owner, envelope: Envelope | None = None):
        """Run a program under a host process, to its end; held to an envelope if there is one."""
        folder = self.folder / "programs" / uuid.uuid4().hex
        ring = envelope and {"envelope": envelope.to_json(), "workspace": "/workspace", "home": "/home/agent"}
        await client.start(folder, ShimSpec(tuple(ECHO), owner.address, ring=ring))
        status = await client.wait(folder)
        assert status.exit.exit_status == 0, status


def first_output(owner):
    with InitClient(owner.address.socket) as init:
        started = init.start(ECHO, env=owner.address.env, cwd="/workspace", stdio="pipe")
        assert os.read(started.fd, 100) == b"hello\n"
        os.close(started.fd)


async def timed(what) -> float:
    began = time.perf_counter()
    await what
    return time.perf_counter() - began


async def of_driver(name: str, folder: Path, rounds: int, at_once: int) -> dict:
    ground = Ground(name, folder)
    created, resumed, ended, commands = [], [], [], []
    if not (probe := await ground.driver.probe()).available:
        raise DriverError(f"{probe.reason} {probe.what_to_do}")
    owner = await ground.up(await ground.spec())  # what is made once (the bundle) is made now
    pool.prepare()
    for _ in range(rounds):
        commands.append(await timed(ground.command(owner)))
    held = await held_commands(ground, owner, rounds)
    await ground.down(owner)
    for _ in range(rounds):
        spec = await ground.spec()
        began = time.perf_counter()
        owner = await ground.up(spec)
        created.append(time.perf_counter() - began)
        ended.append(await timed(ground.down(owner)))
        began = time.perf_counter()
        owner = await ground.up(replace(spec, run_id=uuid.uuid4().hex))
        resumed.append(time.perf_counter() - began)
        await ground.down(owner)
    specs = [await ground.spec() for _ in range(at_once)]
    began = time.perf_counter()
    owners = await asyncio.gather(*(ground.up(spec) for spec in specs))
    together = time.perf_counter() - began
    await asyncio.gather(*(ground.down(owner) for owner in owners))
    return {
        "nothing to first output": spread(created),
        "pause (programs and Run end)": spread(ended),
        "resume to first output": spread(resumed),
        "command round trip": spread(commands),
        **held,
        f"{at_once} at once, all answered": {"ms": round(together * 1000, 1)},
    }


async def held_commands(ground: Ground, owner, rounds: int) -> dict:
    """Time commands that are not held and those of each envelope, in turn: in an empty tree and among 1,000 folders."""
    with InitClient(owner.address.socket) as init:
        envelopes = [LOW, MEDIUM] if is_held(init.request("abilities")["abilities"]) else [LOW]
    found = {}
    for tree in ("empty tree", "tree of 1,000 folders"):
        times = {"not held": [], **{name: [] for name, envelope in BY_TIER.items() if envelope in envelopes}}
        for _ in range(rounds + 1):
            for name, taken in times.items():
                taken.append(await timed(ground.command(owner, BY_TIER.get(name))))
        found |= {f"command {name}, {tree}": spread(taken[1:]) for name, taken in times.items()}
        make = "for n in $(seq 1000); do mkdir -p f$n && echo x > f$n/a; done; echo x > f9/.env; sleep 0.3"
        with InitClient(owner.address.socket) as init:
            started = init.start(["/bin/sh", "-c", make], env=owner.address.env, cwd="/workspace", stdio="pipe")
            while os.read(started.fd, 100):
                pass
            os.close(started.fd)
    return found


def bare(command: list[str], rounds: int) -> dict:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return spread(times)


def bare_docker(rounds: int) -> dict:
    docker = ["docker", "-H", OPTIONS["docker"]["address"]]
    name = f"handrail-bench-{os.getpid()}"
    subprocess.run([*docker, "run", "-d", "--network=none", "--name", name, IMAGES["docker"], "sleep", "600"],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        return {
            "docker run": bare([*docker, "run", "--rm", "--network=none", IMAGES["docker"], *ECHO], rounds),
            "docker exec": bare([*docker, "exec", name, *ECHO], rounds),
        }
    finally:
        subprocess.run([*docker, "rm", "-f", name], check=True, stdout=subprocess.DEVNULL)


def bare_pods(rounds: int) -> dict:
    cluster = Cluster.load(os.environ["HANDRAIL_TEST_KUBERNETES"])
    image = image_of("kubernetes")
    first = {"name": "first", "image": image, "command": ["/bin/true"]}
    found: dict[str, list[float]] = {"pod": [], "pod with an init container": []}
    for number in range(rounds):
        for title, more in zip(found, ({}, {"initContainers": [first]}), strict=True):  # in turn, under the same load
            pods = Pods(cluster, image)
            began = time.perf_counter()
            pods.start(f"bare-{number}-{len(more)}", "sleep 600", **more)
            pods.until_running(pods.made[0])
            found[title].append(time.perf_counter() - began)
            pods.end()
    return {title: spread(times) for title, times in found.items()}


def bare_bwrap(rounds: int) -> dict:
    options = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"]
    return {"bwrap": bare([str(find_bwrap().path), *options, *ECHO], rounds)}


PEERS = {"sandbox": bare_bwrap, "docker": bare_docker, "kubernetes": bare_pods}


def measure(rounds: int, at_once: int, drivers: list[str]) -> dict:
    figures: dict = {"load": [round(load, 1) for load in os.getloadavg()], "cores": os.cpu_count()}
    for name in drivers:
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        folder.chmod(0o755)
        try:
            found = asyncio.run(of_driver(name, folder, rounds, at_once))
            figures |= {f"{name}: {title}": row for title, row in found.items()}
            figures |= {f"bare {title}": row for title, row in PEERS[name](rounds).items()}
        except (DriverError, FileNotFoundError) as error:
            figures[name] = f"not measured: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for line, (ours, theirs, factor, more) in TARGETS.items():
        if ours in figures and theirs in figures:
            limit = figures[theirs]["p50"] * factor + more
            figures[line] = {"is": figures[ours]["p50"], "at most": round(limit, 1)}
    return figures


TARGETS = {  # what the project holds itself to: ours, theirs, factor, milliseconds more
    "target: sandbox up": ("sandbox: nothing to first output", "bare bwrap", 1.0, 100),
    "target: container up": ("docker: nothing to first output", "bare docker run", 1.3, 150),
    "target: pod up": ("kubernetes: nothing to first output", "bare pod", 1.5, 0),
    "target: command in a pod": ("kubernetes: command round trip", "docker: command round trip", 1.3, 0),
    "target: command in a sandbox": ("sandbox: command round trip", "bare bwrap", 1.0, 30),
    "target: command in a container": ("docker: command round trip", "bare docker exec", 1.0, 30),
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.drivers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=20, help="workspaces that are brought up together")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--driver", choices=PEERS, action="append", help="of these drivers alone")
    options = parser.parse_args()
    found = measure(options.rounds, options.at_once, options.driver or list(PEERS))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for title, row in found.items():
            print(f"{title:45} {json.dumps(row)}")
