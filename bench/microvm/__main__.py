"""MicroVMs beside the bare QMP sequence on the same machine: what our bridge, encryption and checks cost.

    python -m bench.microvm          needs QEMU and an image (`make images`); HANDRAIL_BENCH_ROUNDS rounds, 5 by default

The bare side is the same machine and guest with disks of its own, driven by hand: `stop`, `migrate exec:zstd -1` into a
file, `quit`; then `-incoming` with `exec:zstd -d` and `cont`. Both pauses are timed until QEMU has ended, both resumes
until the guest has answered, turn by turn. The bare side neither writes out the guest's disk first, encrypts, flushes,
nor checks what the memory belongs to. Where guests are emulated, as the first line says, all figures are.
"""

import asyncio
import base64
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from workspaces.drivers.base import Limits, RunSpec
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.local import listen
from workspaces.drivers.microvm import disks, machine, qmp
from workspaces.drivers.microvm.driver import MicroVMDriver
from workspaces.drivers.microvm.image import find_image
from workspaces.drivers.remote.mux import HEAD, MESSAGE
from workspaces.store import Store

ROUNDS = int(os.environ.get("HANDRAIL_BENCH_ROUNDS", "5"))
IMAGES = os.environ.get("HANDRAIL_TEST_MICROVM_IMAGES") or os.path.join(
    os.environ.get("HANDRAIL_HOME", "var"), "images", "microvm"
)
FIELD = """Published by others, with virtualisation on machines of their own: Sprites create 1-2 s, wake 0.1-0.5 s
warm; E2B resume about 1 s, pause 4 s per GiB; Agentbase create 2-5 s, resume 1-2 s; exec-sandbox restore 0.1 s."""
EMULATED = "Ours below are in software emulation, many times slower than a real machine, and so is the bare side."

MAKE = """
import os
for d in range({folders}):
    os.makedirs('t/%d' % d)
    for f in range(83):
        open('t/%d/%d' % (d, f), 'w').write('%d %d' % (d, f))
"""


class Bench:
    def __init__(self, ground: Path):
        for name in ("handrail", "run", "tree", "home"):
            (ground / name).mkdir()
        self.ground, self.count = ground, 0
        self.driver = MicroVMDriver(ground / "handrail", ground / "run", {"images": IMAGES})
        uid = 200_900 if os.getuid() == 0 else os.getuid()
        limits = Limits(memory=512 << 20, disk=8 << 30)
        self.spec = RunSpec("", "bench", "bench", ground / "tree", ground / "home", uid=uid, limits=limits)
        self.owner = None

    def do(self, verb, *args):
        begun = time.perf_counter()
        said = asyncio.run(getattr(self.driver, verb)(*args))
        return time.perf_counter() - begun, said

    def up(self, verb="start"):
        self.count += 1
        self.spec = replace(self.spec, run_id=f"bench-{os.getpid()}-{self.count}")
        self.answered, self.owner = self.do(verb, self.spec)
        return self.answered + self.sh("echo hello")

    def down(self):
        self.do("stop", self.owner)
        self.do("clear", self.owner)

    def sh(self, command):
        begun = time.perf_counter()
        with InitClient(self.owner.address.socket, timeout_s=600) as init:
            env = dict(self.owner.address.env)
            started = init.start(["/bin/sh", "-c", command], env=env, cwd="/workspace", stdio="pipe")
            while os.read(started.fd, 1 << 16):
                pass
            os.close(started.fd)
        return time.perf_counter() - begun


def show(what, times, note=""):
    print(f"{what:<58} {statistics.median(times):8.3f} s   {note}", flush=True)
    return statistics.median(times)


def main() -> int:
    ground = Path(tempfile.mkdtemp(prefix="bench-microvm-"))
    ground.chmod(0o755)
    bench = Bench(ground)
    probe = bench.do("probe")[1]
    if not probe.available:
        print(f"{probe.reason} {probe.what_to_do}")
        return 1
    print(f"{probe.isolation}; {'; '.join(probe.notes)}\n{FIELD}")
    if probe.isolation == "microvm-emulated":
        print(EMULATED)
    print(f"Load of this machine's {os.cpu_count()} cores at the start: {os.getloadavg()[0]:.1f}\n")
    try:
        measure(bench)
    finally:
        for owner in asyncio.run(bench.driver.records()):
            bench.do("stop", owner)
        print(f"\nLoad at the end: {os.getloadavg()[0]:.1f}")
        shutil.rmtree(ground, ignore_errors=True)
    return 0


def measure(bench: Bench):
    bench.do("prepare", bench.spec)
    templates = Path(IMAGES) / "templates"
    shutil.rmtree(templates, ignore_errors=True)
    cold = []
    for _ in range(max(2, ROUNDS // 2)):
        cold.append(bench.up())
        bench.down()
    cold = show("cold start to the first output", cold)
    bench.do("warm", bench.spec)
    warm = []
    for _ in range(ROUNDS):
        warm.append(bench.up())
        bench.down()
    warm = show("start from the template to the first output", warm)
    print(f"{'':<58} {warm / cold:8.2f} × cold")
    bench.up()
    show("command: asked to ended", [bench.sh("true") for _ in range(10 * ROUNDS)])
    beside_bare(bench)
    print(f"{'memory of an idle workspace on the host':<58} {resident(bench.owner.pid) >> 20:8} MiB")
    print(f"{'disks of an empty workspace on the host':<58} {on_disk(bench) >> 10:8} KiB")
    files(bench)
    bench.down()


def beside_bare(bench: Bench):
    """Pause and resume in turns with the same done by hand."""
    bare = Bare(bench)
    ours, theirs, outputs = {"pause": [], "resume": []}, {"pause": [], "resume": []}, []
    try:
        for _ in range(ROUNDS):
            ours["pause"].append(bench.do("pause", bench.owner, bench.spec)[0])
            kept = disks.memory_of(bench.spec.workspace).stat().st_size
            theirs["pause"].append(bare.pause())
            bench.do("clear", bench.owner)
            took = bench.up("resume")
            ours["resume"].append(bench.answered)
            outputs.append(took)
            theirs["resume"].append(bare.resume())
    finally:
        bare.end()
    for what, note in (("pause", f"{kept >> 20} MiB, encrypted"), ("resume", "until the guest answers")):
        mine = show(f"{what} with memory", ours[what], note)
        hand = show(f"the same {what} by hand over QMP", theirs[what])
        print(f"{'':<58} {mine / hand:8.2f} × bare")
    show("resume with memory to the first output of a command", outputs)


def files(bench: Bench):
    count = int(os.environ.get("HANDRAIL_BENCH_FILES", "84000"))
    bench.sh(f'python3 -c "{MAKE.format(folders=count // 84)}"; sync')
    store = Store.create(bench.ground / "store")

    def snapshot(what):
        tree = bench.driver.tree(bench.owner, cache=bench.ground / "cache")
        begun = time.perf_counter()
        kept = store.snapshot(tree)
        show(f"{what}, {kept.entries:,} entries in the guest", [time.perf_counter() - begun])

    snapshot("first snapshot")
    bench.down()
    bench.up()
    snapshot("scan, nothing changed, cold: the guest has just booted")
    snapshot("scan, nothing changed, warm")


def on_disk(bench: Bench) -> int:
    return sum(disks.disk_of(f).stat().st_blocks * 512 for f in (bench.spec.workspace, bench.spec.home))


def resident(bridge: int) -> int:
    total = 0
    for pid in [bridge, *map(int, Path(f"/proc/{bridge}/task/{bridge}/children").read_text().split())]:
        line = next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS"))
        total += int(line.split()[1]) * 1024
    return total


class Bare:
    """The same guest on disks of its own, driven by hand: no bridge, no encryption, no checks."""

    def __init__(self, bench: Bench):
        self.ground, self.kept = bench.ground, bench.ground / "bare.zst"
        driver, folders = bench.driver, [bench.ground / f"bare-{name}" for name in ("tree", "home")]
        for folder in folders:
            folder.mkdir()
        spec = replace(bench.spec, workspace=folders[0], home=folders[1])
        bench.do("prepare", spec)
        self.qemu, self.image = machine.find_qemu(), find_image(driver.images)
        accel, _why = machine.find_accel(self.qemu, self.image, driver.images)
        self.shape = machine.shape(self.qemu, self.image, accel, spec.limits.memory, None)
        self.disks = dict(zip(("workspace", "home"), map(disks.disk_of, folders), strict=True))
        self.vm = None
        self.start(incoming=False)
        self.ask("hello", session="first")
        self.ask(
            "configure",
            **{"hostname": "bare", "machine_id": "0" * 32, "uid": 1000, "hosts": "127.0.0.1 localhost\n", "ports": {}},
            **{"disks": {"workspace": "/workspace", "home": "/home/agent"}, "time_ns": time.time_ns()},
            **{"layer": False, "setup": False, "entropy": base64.b64encode(os.urandom(128)).decode()},
        )

    def start(self, incoming: bool):
        files = {"kernel": self.image.vmlinuz, "initrd": self.image.initrd, "root": self.image.root} | self.disks
        fds = {name: os.open(path, os.O_RDWR if name in self.disks else os.O_RDONLY) for name, path in files.items()}
        self.monitor = self.ground / "bare.qmp"
        fds |= {"qmp": listen(self.monitor).detach(), "tree": listen(self.ground / "bare.tree").detach()}
        self.agent, theirs = socket.socketpair()
        argv = machine.command_line(self.qemu, self.shape, fds, incoming=incoming, disks=list(self.disks))
        at = argv.index("-sandbox")
        del argv[at : at + 2]  # it would forbid `exec:`
        argv = [part.replace("socket,id=console,fd={console}", "null,id=console") for part in argv]
        argv = [part.format(agent=theirs.fileno()) for part in argv]
        self.vm = subprocess.Popen(argv, pass_fds=[*fds.values(), theirs.fileno()])
        for fd in fds.values():
            os.close(fd)
        theirs.close()

    def ask(self, op: str, **fields):
        """One message to the agent, and its answer."""
        message = json.dumps({"op": op, "n": 1, **fields}).encode()
        self.agent.sendall(HEAD.pack(MESSAGE, 0, len(message)) + message)
        got = b""
        while len(got) < HEAD.size or len(got) < HEAD.size + HEAD.unpack_from(got)[2]:
            said = self.agent.recv(65536)
            assert said, "the guest driven by hand has ended"
            got += said
        said = json.loads(got[HEAD.size :])
        assert "error" not in said, said

    def pause(self) -> float:
        async def save():
            async with qmp.monitor(self.monitor) as client:
                await client.execute("stop")
                await client.execute("migrate-set-parameters", {"max-bandwidth": 1 << 40})
                await client.execute("migrate", {"uri": f"exec:zstd -1 -q -f -o {self.kept}"})
                await moved(client)
                await client.execute("quit")

        begun = time.perf_counter()
        asyncio.run(save())
        self.vm.wait()
        self.agent.close()
        return time.perf_counter() - begun

    def resume(self) -> float:
        async def load():
            async with qmp.monitor(self.monitor) as client:
                await client.execute("migrate-incoming", {"uri": f"exec:zstd -d -q -c {self.kept}"})
                await moved(client)
                await client.execute("cont")

        begun = time.perf_counter()
        self.start(incoming=True)
        asyncio.run(load())
        self.ask("hello", session=str(begun))
        return time.perf_counter() - begun

    def end(self):
        self.vm.kill()
        self.vm.wait()


async def moved(client):
    while (status := (await client.execute("query-migrate")).get("status")) != "completed":
        assert status != "failed", "QEMU could not move the memory of the guest driven by hand"
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    sys.exit(main())
