"""The agent, the first program of a microVM: mounts disks, starts the Run's init, and serves the bridge on the host.

A standalone program: standard library only, any Python from 3.9, with the package `init` and its other modules beside
it. It runs as root of the guest. The workspace's programs run under the same init as in every other driver, as the
agent's user, in a pid namespace of their own. Until `configure` the guest belongs to no workspace; templates are saved
in this state.

Messages from the host beside those of every agent (remote/base_agent.py; an answer has the same `n`):

  configure  hostname, machine_id, uid, disks, hosts, ports, pids, layer, setup, system_files, manifest,
             + the fields of wake   → {init}
             layer: there is a disk with a setup layer; setup: programs run as root and can install;
             manifest: what programs read as .handrail/manifest.json, or None
  wake       time_ns, entropy       set the clock, add entropy to the kernel's pool
  hold                              sync, answer `held`, and send nothing more until `go` or another `hello`
  go                                send again
  sync                              write everything to the disks
  show_manifest  content            replace what programs read as .handrail/manifest.json
  serve                             start the program that serves the tree on the second port
"""

import base64
import fcntl
import os
import resource  # noqa: F401 - as `held_programs`: the init needs it for its limit
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import base_agent  # noqa: E402
import manifest  # noqa: E402
import root  # noqa: E402
from conversations import Conversations  # noqa: E402
from init import held_programs, program  # noqa: E402,F401 - the first cannot be loaded in the root of the programs
from init.spawn import SPARE_PROCESSES  # noqa: E402
from root import (  # noqa: E402
    DISKS,
    MS_NOATIME,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    check,
    find_disk,
    libc,
    mount,
    write,
)

TREE, JOURNAL, HOME = f"{DISKS}/workspace/tree", f"{DISKS}/workspace/journal", f"{DISKS}/home/tree"
TREE_SERVER = [sys.executable, "-I", "-S", os.path.join(HERE, "tree.pyz"), TREE]
INIT_SOCKET = "/run/handrail/init.sock"
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
PR_SET_KEEPCAPS = 8
RNDADDENTROPY, RNDRESEEDCRNG = 0x40085203, 0x5207
RB_AUTOBOOT = 0x01234567
RESERVE = 80 << 20  # bytes of the guest's memory kept for its kernel and the agent
ERROR_FS = 2  # in s_state of an ext4 superblock


class Agent(base_agent.Agent):
    """The agent of a guest: a machine with disks, a clock, and an init in a pid namespace of its own."""

    def __init__(self, port):
        super().__init__(port, lambda line, selector: Conversations(line, selector, connect, oom_kills))
        self.init_pid = None

    def lost(self):
        """Drop the buffers: the host has closed the port. The next bridge sends `hello`."""
        self.line.received.clear()
        self.line.outgoing.clear()
        time.sleep(0.02)

    def reap(self):
        """Reap children; power off when the init has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.server is not None and pid == self.server.pid:
                self.server = None
            if pid == self.init_pid:
                if self.server is not None:
                    self.server.kill()  # it holds the disks
                    self.server.wait()
                power_off(f"the init ended with {status}")

    # Messages from the host

    def op_configure(self, message):
        if self.configured is not None:
            raise ValueError("this guest is somebody's already")
        self.op_wake(message)
        socket.sethostname(message["hostname"])
        root.build(message)
        uid, setup = message["uid"], message["setup"]
        for serial, place in message["disks"].items():
            mount_disk(serial, place, uid)
        if os.path.exists(JOURNAL):
            # A restore was interrupted: finish it or roll it back before anything reads the tree.
            subprocess.run([*TREE_SERVER, "--journal", JOURNAL, "--recover"], check=True, stdout=subprocess.DEVNULL)
        if message["manifest"] is not None:
            manifest.prepare(message["manifest"], TREE, uid)
        for number, name in message["ports"].items():
            self.listen(int(number), name)
        self.init_pid = start_init(uid, message.get("pids"), setup)
        self.configured = message
        return {"init": self.init_pid}

    def op_wake(self, message):
        time.clock_settime_ns(time.CLOCK_REALTIME, message["time_ns"])
        seed = base64.b64decode(message["entropy"])
        with open("/dev/urandom", "wb", buffering=0) as pool:
            fcntl.ioctl(pool, RNDADDENTROPY, struct.pack("ii", len(seed) * 8, len(seed)) + seed)
            fcntl.ioctl(pool, RNDRESEEDCRNG)

    def op_sync(self, message):
        os.sync()

    def op_show_manifest(self, message):
        manifest.replace(message["content"])

    def op_hold(self, message):
        os.sync()
        self.line.be_quiet(True)
        self.line.message({"n": message["n"], "held": True})
        # Send all that is queued, blocking: the host reads until it sees `held`.
        os.set_blocking(self.line.fd, True)
        try:
            self.line.flush()
        finally:
            os.set_blocking(self.line.fd, False)
        self.line.held = True
        message["n"] = None  # already answered

    def op_go(self, message):
        self.line.go_on()

    def op_serve(self, message):
        """Start a server of the tree for the client now connected to the second port; end the former client's."""
        if self.server is not None and self.server.poll() is None:
            self.server.terminate()
            try:
                self.server.wait(5)
            except subprocess.TimeoutExpired:
                raise ValueError("the tree is still being changed for somebody who has left") from None
        port = os.open(find_port("handrail.tree"), os.O_RDWR | os.O_CLOEXEC)
        try:
            poll = select.poll()
            poll.register(port, 0)
            for _ in range(500):
                if not poll.poll(0):  # no POLLHUP: a client is connected
                    break
                time.sleep(0.01)
            installed = ["--installed", f"{root.UPPER}/tree"] if self.configured["setup"] else []
            self.server = subprocess.Popen(
                [*TREE_SERVER, "--journal", JOURNAL, "--home", HOME, *installed], stdin=port, stdout=port, cwd="/"
            )
        finally:
            os.close(port)


# The machine


def connect():
    """Connect to the init."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.connect(INIT_SOCKET)
    return sock


def oom_kills():
    """Return the number of OOM kills in this guest since it booted."""
    with open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)


def mount_disk(serial, place, uid):
    """Mount a disk below DISKS, out of sight of programs, and bind-mount its `tree` folder at `place`."""
    device = find_disk(serial)
    with open(device, "rb", buffering=0) as disk:
        superblock = os.pread(disk.fileno(), 1024, 1024)
        if struct.unpack_from("<H", superblock, 58)[0] & ERROR_FS:
            done = subprocess.run(["/usr/sbin/e2fsck", "-p", "-f", device], stdout=subprocess.PIPE)
            if done.returncode > 1:
                raise ValueError(f"the file system of the {serial} disk is damaged: e2fsck says {done.stdout[-300:]!r}")
    below = f"{DISKS}/{serial}"
    mount(device, below, "ext4", MS_NOSUID | MS_NODEV | MS_NOATIME, "discard,errors=remount-ro")
    tree = f"{below}/tree"
    if not os.path.isdir(tree):
        os.mkdir(tree, 0o755)
        os.chown(tree, uid, uid)
    root.show(tree, place)


def start_init(uid, pids, setup):
    """Start the Run's init in a pid namespace of its own, as the agent's user or for setup as root; return its pid."""
    with_pid_r, with_pid_w = os.pipe()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(INIT_SOCKET)
    listener.listen(64)
    group = "/sys/fs/cgroup/run"
    os.makedirs(group, exist_ok=True)
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids")
    # Programs hit their memory limit before the guest itself runs out.
    write(f"{group}/memory.max", str(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") - RESERVE))
    if pids is not None:
        write(f"{group}/pids.max", str(pids + SPARE_PROCESSES))
    middle = os.fork()
    if middle == 0:
        try:
            check(libc.unshare(CLONE_NEWPID | CLONE_NEWNS), "namespaces")
            first = os.fork()
            if first:
                os.write(with_pid_w, b"%d" % first)
                os._exit(0)
            become_init(listener, group, uid, setup, pids)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(with_pid_w)
    listener.close()
    with open(with_pid_r, "rb") as answer:
        said = answer.read(20)
    if not said:
        raise ValueError("the init did not start")
    return int(said)


def become_init(listener, group, uid, setup, pids):
    """Enter the programs' root, drop privileges and run the init. Never returns."""
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    write(f"{group}/cgroup.procs", "0")
    manifest.cover("/workspace")
    root.enter(setup)
    root.lose_rights(setup)
    if not setup:
        libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)  # the init gives up all but what mount views need (init/program.py)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.umask(0o022)
    os.environ.clear()
    signal.set_wakeup_fd(-1)
    lock = os.open("/dev/null", os.O_RDONLY)
    options = ["--give-back", str(uid), str(uid)] if setup else []
    if pids is not None and not setup:
        options += ["--max-processes", str(pids)]
    sys.argv = ["init", str(listener.detach()), str(lock), *options]
    program.main()
    os._exit(0)


def find_port(name):
    """Return the device of the virtio-serial port `name`."""
    folder = "/sys/class/virtio-ports"
    for port in os.listdir(folder):
        with open(f"{folder}/{port}/name") as file:
            if file.read().strip() == name:
                return f"/dev/{port}"
    raise ValueError(f"there is no port {name}")


def power_off(why):
    """Sync, close the file systems and reboot, which makes QEMU exit."""
    print(f"handrail: {why}", file=sys.stderr, flush=True)
    os.sync()
    root.close()
    for serial in os.listdir(DISKS) if os.path.isdir(DISKS) else ():
        libc.umount2(f"{DISKS}/{serial}".encode(), 0)
        # The bind mounts keep the file system busy; remounting read-only leaves it as clean as unmounting.
        libc.mount(None, f"{DISKS}/{serial}".encode(), None, 32 | MS_NOSUID | MS_NODEV | MS_NOATIME, None)
    os.sync()
    libc.reboot(RB_AUTOBOOT)  # QEMU exits on a reboot (-no-reboot)


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))


def main():
    for kind, place, flags, data in (
        ("devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666"),
        ("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777"),
        ("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777"),
        ("cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, None),
    ):
        mount(kind, place, kind, flags, data)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        if not os.path.lexists(f"/dev/{name}"):
            os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.makedirs(DISKS, exist_ok=True)
    os.chmod("/run/handrail", 0o711)
    bring_up_loopback()
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    port = os.open(find_port("handrail.agent"), os.O_RDWR | os.O_CLOEXEC)
    Agent(port).run()


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        traceback.print_exc()
        power_off("the agent broke")
