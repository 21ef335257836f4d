"""QEMU for a guest: its program, its accelerator (KVM or TCG) and its command line."""

import ctypes
import json
import mmap
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from workspaces.drivers.default_limits import GUEST_CPUS

from ..base import DriverError
from ..processes import boot_id
from .image import Image

MIB = 1 << 20
MACHINE = "microvm,x-option-roms=off,pit=on,pic=on,rtc=on,isa-serial=on,auto-kernel-cmdline=off"
KERNEL_LINE = (
    "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t rdinit=/init random.trust_cpu=on audit=0 nowatchdog "
    "cryptomgr.notests 8250.nr_uarts=1 no_timer_check"
)
# Under emulation, the time-stamp counter is the host's. The guest's kernel hangs when it calibrates it, so the
# frequency is given. There is no speculative execution to mitigate either.
EMULATED = " tsc=reliable mitigations=off tsc_early_khz={khz}"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
PROBE_S = 8.0
LAYER_BYTES = 8 << 30  # size of the disk that setup installs to, and of each layer
OVERHEAD = 320 * MIB  # what QEMU itself takes besides the guest's memory


@dataclass(frozen=True)
class Qemu:
    path: str
    version: str


@dataclass(frozen=True)
class Shape:
    """The virtual hardware and software of a guest; a memory image fits only the same shape."""

    qemu: str
    machine: str
    accel: str
    memory_mib: int
    cpus: int
    kernel: str
    root: str
    initrd: str
    clock_mhz: int  # frequency of the time-stamp counter, which an emulated guest depends on; 0 under KVM


def find_qemu() -> Qemu:
    path = shutil.which("qemu-system-x86_64")
    if path is None:
        raise DriverError("QEMU was not found.")
    return Qemu(path, _version(path, os.stat(path).st_mtime_ns))


@lru_cache(maxsize=4)
def _version(path: str, _changed: int) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError("QEMU does not start.") from error
    found = re.search(r"version ([\d.]+(?: \([^)]*\))?)", said)
    if found is None:
        raise DriverError("QEMU does not report its version.")
    return found[1]


def shape(qemu: Qemu, image: Image, accel: str, memory: int, cpus: float | None) -> Shape:
    """Return the shape of a guest with `memory` bytes; a fraction of a CPU is rounded up."""
    return Shape(
        qemu=qemu.version,
        machine=MACHINE,
        accel=accel,
        memory_mib=max(192, memory // MIB),
        cpus=max(1, -int(-(cpus or GUEST_CPUS) // 1)),
        kernel=image.kernel_digest,
        root=image.root_digest,
        initrd=image.initrd_digest,
        clock_mhz=round(counter_khz() / 1000) if accel == "tcg" else 0,
    )


def command_line(qemu: Qemu, shape: Shape, fds: dict[str, int], *, incoming: bool, disks: list[str]) -> list[str]:
    """Return QEMU's argv. `fds` are inherited descriptors; bootstrap.py fills in {agent} and {console}.

    Every guest has disks `layer` and `upper`, null devices if there is no descriptor, so that all fit one template.
    """
    cpu = "host" if shape.accel == "kvm" else "max,la57=off"
    accel = "kvm" if shape.accel == "kvm" else "tcg,thread=multi,tb-size=192"
    argv = [qemu.path, "-M", shape.machine, "-accel", accel, "-cpu", cpu, "-m", f"{shape.memory_mib}M"]
    argv += ["-smp", str(shape.cpus), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
    argv += ["-sandbox", SANDBOX, "-global", "virtio-mmio.force-legacy=false", "-msg", "timestamp=off"]
    line = KERNEL_LINE + (EMULATED.format(khz=counter_khz()) if shape.accel == "tcg" else "")
    argv += ["-kernel", _by_fd(fds["kernel"]), "-initrd", _by_fd(fds["initrd"]), "-append", line]
    argv += ["-chardev", "socket,id=console,fd={console}", "-serial", "chardev:console"]
    argv += ["-object", "rng-builtin,id=rng", "-device", "virtio-rng-device,rng=rng"]
    argv += ["-device", "virtio-serial-device,id=serial"]
    argv += ["-chardev", "socket,id=agent,fd={agent}"]
    argv += ["-device", "virtserialport,bus=serial.0,nr=1,chardev=agent,name=handrail.agent"]
    argv += ["-chardev", f"socket,id=tree,fd={fds['tree']},server=on,wait=off"]
    argv += ["-device", "virtserialport,bus=serial.0,nr=2,chardev=tree,name=handrail.tree"]
    argv += ["-chardev", f"socket,id=qmp,fd={fds['qmp']},server=on,wait=off", "-mon", "chardev=qmp,mode=control"]
    argv += _disk("root", fds["root"], read_only=True)
    argv += _disk("layer", fds.get("layer"), read_only=True)
    for name in ("upper", *disks):
        argv += _disk(name, fds.get(name), read_only=False)
    return [*argv, "-incoming", "defer"] if incoming else argv


def _by_fd(fd: int) -> str:
    # The workspace's user may not reach the file's path, but can open an inherited descriptor.
    return f"/proc/self/fd/{fd}"


def _disk(name: str, fd: int | None, *, read_only: bool) -> list[str]:
    device = ["-device", f"virtio-blk-device,drive={name},serial={name}"]
    kind = "read-only=on" if read_only else "discard=unmap,detect-zeroes=unmap"
    if fd is None:
        nothing = f"driver=null-co,node-name={name},size={LAYER_BYTES},read-zeroes=on"
        return ["-blockdev", f"{nothing},{kind}", *device]
    # Flushes of the guest reach this host's disk; blocks that it discards or zeroes are freed here.
    file = f"file.driver=file,file.filename={_by_fd(fd)},cache.direct=off,cache.no-flush=off"
    file += f",file.locking={'off' if read_only else 'on'}"
    return ["-blockdev", f"driver=raw,node-name={name},{file},{kind}", *device]


@lru_cache(maxsize=1)
def counter_khz() -> int:
    """Measure the frequency of this host's time-stamp counter in kHz."""
    try:
        with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
            code.write(bytes.fromhex("0f3148c1e2204809d0c3"))  # rdtsc; shl rdx, 32; or rax, rdx; ret
            place = ctypes.c_char.from_buffer(code)
            count = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
            before, first = _reading(count)
            time.sleep(0.1)
            after, last = _reading(count)
            del count, place
        return round((last - first) * 1_000_000 / (after - before))
    except OSError:  # the host forbids memory that is writable and executable
        found = re.search(r"cpu MHz\s*: ([\d.]+)", Path("/proc/cpuinfo").read_text())
        return round(float(found[1]) * 1000) if found else 1_000_000


def _reading(count) -> tuple[float, int]:
    """Return (clock in ns, counter) read at the same moment: the tightest of 50 readings."""
    found = []
    for _ in range(50):
        before, value, after = time.monotonic_ns(), count(), time.monotonic_ns()
        found.append((after - before, (before + after) / 2, value))
    return min(found)[1:]


def find_accel(qemu: Qemu, image: Image, folder: Path) -> tuple[str, str]:
    """Return ("kvm", "") or ("tcg", why not kvm).

    The answer comes from booting a probe guest under KVM; it is cached per boot of the host, QEMU, initramfs and user.
    """
    asked = {"boot": boot_id(), "qemu": qemu.version, "initrd": image.initrd_digest, "uid": os.getuid()}
    cache = folder / "accel.json"
    try:
        known = json.loads(cache.read_text())
        if known["asked"] == asked:
            return known["accel"], known["why"]
    except (OSError, ValueError, KeyError):
        pass
    why = _try_kvm(qemu, image)
    accel = "tcg" if why else "kvm"
    replace_file(cache, json.dumps({"asked": asked, "accel": accel, "why": why}).encode(), mode=0o644)
    return accel, why


def kvm_groups() -> list[int]:
    """Return the group that may use /dev/kvm, as supplementary groups for a process without other rights."""
    try:
        found = os.stat("/dev/kvm")
    except OSError:
        return []
    return [found.st_gid] if found.st_mode & 0o060 == 0o060 and found.st_gid != 0 else []


def _try_kvm(qemu: Qemu, image: Image) -> str:
    """Boot the probe guest under KVM, as an unprivileged user like a workspace's; return what failed, or ""."""
    if not os.path.exists("/dev/kvm"):
        return "this host has no /dev/kvm"
    who = {"user": 65534, "group": 65534, "extra_groups": kvm_groups()} if os.getuid() == 0 else {}
    with tempfile.TemporaryFile() as said, open(image.vmlinuz, "rb") as kernel, open(image.initrd, "rb") as initrd:
        argv = [qemu.path, "-M", MACHINE, "-accel", "kvm", "-cpu", "host", "-m", "192M", "-nodefaults", "-no-reboot"]
        argv += ["-no-user-config", "-display", "none", "-serial", "stdio", "-kernel", _by_fd(kernel.fileno())]
        argv += ["-initrd", _by_fd(initrd.fileno()), "-append", f"{KERNEL_LINE} handrail.probe"]
        fds = [kernel.fileno(), initrd.fileno()]
        try:
            probe = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=fds, cwd="/", env={}, **who
            )
        except OSError as error:
            return f"QEMU could not be started as an ordinary user: {error.strerror}"
        try:
            probe.wait(PROBE_S)
        except subprocess.TimeoutExpired:
            return f"a guest under KVM said nothing within {PROBE_S:.0f} seconds"
        finally:
            probe.kill()
            probe.wait()
        said.seek(0)
        words = said.read(1 << 16).decode("utf-8", "replace").strip()
    if "handrail: probe answered" in words:
        return ""
    return f"a guest under KVM did not boot: {(words.splitlines() or ['QEMU said nothing'])[0][:160]}"
