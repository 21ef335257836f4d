"""MicroVMs beside the bare QMP sequence on the same machine: what our bridge, encryption and checks cost.

    python -m bench.microvm          needs QEMU and an image (`make images`); HANDRAIL_BENCH_ROUNDS rounds, 5 by default

The bare side is QEMU with our image and no disks of a workspace: `stop`, `migrate exec:zstd -1`, and `-incoming` with
`exec:zstd -d`, timed until QEMU says that it runs. Where guests are emulated, as the first line says, all figures are.
"""

import asyncio
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
from workspaces.drivers.initclient import InitClient
from workspaces.drivers.microvm import disks, machine, qmp
from workspaces.drivers.microvm.driver import MicroVMDriver
from workspaces.drivers.microvm.image import find_image
from workspaces.drivers.microvm.streams import HEAD, MESSAGE
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
        took, self.owner = self.do(verb, self.spec)
        return took + self.sh("echo hello")

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
        for owner in asyncio.run(bench.driver.owners()):
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
    pauses, resumes, kept = [], [], 0
    for _ in range(ROUNDS):
        pauses.append(bench.do("pause", bench.owner, bench.spec)[0])
        kept = disks.memory_of(bench.spec.workspace).stat().st_size
        bench.do("clear", bench.owner)
        resumes.append(bench.up("resume"))
    pause = show("pause with memory", pauses, f"{kept >> 20} MiB, encrypted")
    resume = show("resume with memory to the first output", resumes)
    qemu_rss = resident(bench.owner.pid)
    print(f"{'memory of an idle workspace on the host':<58} {qemu_rss >> 20:8} MiB")
    print(f"{'disks of an empty workspace on the host':<58} {on_disk(bench) >> 10:8} KiB")
    files(bench)
    bench.down()
    bare_pause, bare_resume = bare(bench)
    bare_pause = show("bare QMP: stop, migrate through zstd -1, quit", bare_pause)
    bare_resume = show("bare QMP: QEMU with -incoming to running", bare_resume)
    print(f"{'ours beside bare: pause, resume':<58} {pause / bare_pause:8.2f} × {resume / bare_resume:.2f} ×")


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


def bare(bench: Bench):
    """The same kernel, root and memory, driven by hand over QMP."""
    image, qemu = find_image(bench.driver.images), machine.find_qemu()
    kept = bench.ground / "bare.zst"
    line, how = machine.KERNEL_LINE, ["-accel", "kvm", "-cpu", "host"]
    if machine.find_accel(qemu, image, bench.driver.images)[0] == "tcg":
        line += machine.EMULATED.format(khz=machine.counter_khz())
        how = ["-accel", "tcg,thread=multi,tb-size=192", "-cpu", "max,la57=off"]
    argv = [qemu.path, "-M", machine.MACHINE, *how]
    argv += ["-m", "512M", "-nodefaults", "-no-user-config", "-display", "none", "-kernel", str(image.vmlinuz)]
    argv += ["-initrd", str(image.initrd), "-append", line, "-global", "virtio-mmio.force-legacy=false"]
    argv += ["-device", "virtio-serial-device", "-device", "virtserialport,chardev=agent,name=handrail.agent"]
    argv += ["-drive", f"if=none,id=root,format=raw,readonly=on,file={image.root}"]
    argv += ["-device", "virtio-blk-device,drive=root,serial=root"]

    def run(*more, agent="null,id=agent"):
        path = bench.ground / f"bare-{time.monotonic_ns()}"
        vm = subprocess.Popen(
            [*argv, "-chardev", agent, "-qmp", f"unix:{path},server=on,wait=off", *more], close_fds=False
        )
        while not path.exists():
            time.sleep(0.002)
        return vm, path

    async def save(path):
        async with qmp.monitor(path) as client:
            await client.execute("stop")
            await client.execute("migrate-set-parameters", {"max-bandwidth": 1 << 40})
            await client.execute("migrate", {"uri": f"exec:zstd -1 -q -f -o {kept}"})
            await qmp._migrated(client)
            await client.execute("quit")

    async def running(path):
        async with qmp.monitor(path) as client:
            while (status := (await client.execute("query-status"))["status"]) != "running":
                if status == "paused":  # as it was when it was saved
                    await client.execute("cont")
                await asyncio.sleep(0.002)

    pauses, resumes = [], []
    agent, ours = socket.socketpair()
    os.set_inheritable(agent.fileno(), True)
    with agent, ours:
        vm, path = run(agent=f"socket,id=agent,fd={agent.fileno()}")
        hello = json.dumps({"op": "hello", "n": 1, "session": "bench"}).encode()
        ours.sendall(HEAD.pack(MESSAGE, 0, len(hello)) + hello)
        ours.recv(1)  # it has booted
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        asyncio.run(save(path))
        vm.wait()
        pauses.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        vm, path = run("-incoming", f"exec:zstd -d -q -c {kept}")
        asyncio.run(running(path))
        resumes.append(time.perf_counter() - begun)
    vm.kill()
    vm.wait()
    return pauses, resumes


if __name__ == "__main__":
    sys.exit(main())
