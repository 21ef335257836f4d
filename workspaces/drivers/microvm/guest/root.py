"""The root that programs of a guest have: the image, on top what a set-up has installed, and above that a fresh layer.

Beside agent.py, which has a root of its own: whatever a set-up does to Python or to /etc, the first program of a guest
is the image's. The fresh layer lies in memory, or in a set-up on a disk that becomes the next layer; then what belongs
to the guest alone (its names and users) lies below, so that nothing of it is kept.
"""

import ctypes
import os
import re
import shutil
import stat
import subprocess
import time

DISKS = "/run/handrail/disks"  # out of sight of every program
PARTS = f"{DISKS}/root"
ROOT = f"{PARTS}/whole"
UPPER = f"{PARTS}/upper"
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_NOATIME = 1, 2, 4, 8, 32, 1024
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
# What apt-get and dpkg need: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETFCAP.
SETUP_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 31}
# A disk that was the upper one keeps its meaning below only if nothing of it refers to another.
OVERLAY = "redirect_dir=off,metacopy=off,index=off"
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
HOST_KEY = re.compile(r"ssh_host_([a-z0-9]+)_key")
UNMOUNT_S = 3.0

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    os.makedirs(target, exist_ok=True)
    arguments = (source and source.encode(), target.encode(), kind and kind.encode(), flags, data and data.encode())
    check(libc.mount(*arguments), f"mount {target}")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def find_disk(serial):
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/serial") as file:
                if file.read().strip() == serial:
                    return f"/dev/{name}"
        except OSError:
            continue
    raise ValueError(f"there is no disk {serial}")


# Making it


def build(message):
    """Put the root together as `configure` has said; the agent's disks come to it afterwards (`show`)."""
    lower = [f"{PARTS}/image"]
    mount(find_disk("root"), lower[0], "ext4", MS_RDONLY)
    if message["layer"]:
        mount(find_disk("layer"), f"{PARTS}/layer", "ext4", MS_RDONLY | MS_NODEV | MS_NOATIME)
        lower.insert(0, f"{PARTS}/layer/tree")
    fresh = f"{PARTS}/fresh"
    mount("tmpfs", fresh, "tmpfs", MS_NODEV, "mode=755")
    overlay(lower, fresh)
    name_it(message)
    if message["setup"]:
        check(libc.umount2(ROOT.encode(), 0), "the root of the set-up")
        mount(find_disk("upper"), UPPER, "ext4", MS_NODEV | MS_NOATIME, "discard,errors=remount-ro")
        overlay([f"{fresh}/tree", *lower], UPPER)
    furnish(message["setup"])


def overlay(lower, above):
    for name in ("tree", "work"):
        os.makedirs(f"{above}/{name}", exist_ok=True)
    parts = f"lowerdir={':'.join(lower)},upperdir={above}/tree,workdir={above}/work"
    mount("overlay", ROOT, "overlay", MS_NODEV, f"{parts},{OVERLAY}")


def name_it(message):
    """What tells this guest from any other, whatever a set-up has left there."""
    must_be_folder("/etc")
    put("/etc/hostname", message["hostname"] + "\n")
    put("/etc/machine-id", message["machine_id"] + "\n")
    put("/etc/hosts", message["hosts"])
    uid = message["uid"]
    for path, line in (
        ("/etc/passwd", f"agent:x:{uid}:{uid}:agent:/home/agent:/bin/bash\n"),
        ("/etc/group", f"agent:x:{uid}:\n"),
    ):
        with open(ROOT + path) as file:
            kept = [found for found in file if found.split(":")[0] != "agent"]
        put(path, "".join(kept) + line)


def must_be_folder(place):
    if not stat.S_ISDIR(os.lstat(ROOT + place).st_mode):
        raise ValueError(f"the set-up has made something else of {place}")


def put(path, text, mode=0o644, owner=(0, 0)):
    """A file of the new root, anew: what lies there may be a link to anywhere."""
    if os.path.lexists(ROOT + path):
        os.unlink(ROOT + path)
    with open(os.open(ROOT + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), *owner)


def furnish(setup):
    """What is no file of an image: devices, the kernel's own, and room for what is temporary."""
    aside = MS_NOSUID | MS_NODEV
    for place in ("/dev", "/proc", "/run", "/sys", "/tmp", "/var", "/home"):
        must_be_folder(place)
    mount("sysfs", f"{ROOT}/sys", "sysfs", MS_RDONLY | MS_NOEXEC | aside)
    mount("cgroup2", f"{ROOT}/sys/fs/cgroup", "cgroup2", MS_RDONLY | MS_NOEXEC | aside)
    mount("tmpfs", f"{ROOT}/run", "tmpfs", aside, "mode=755")
    mount("tmpfs", f"{ROOT}/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    mount("devpts", f"{ROOT}/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=620,ptmxmode=666")
    mount("tmpfs", f"{ROOT}/dev/shm", "tmpfs", aside, "mode=1777")
    for name, numbers in DEVICES.items():
        os.mknod(f"{ROOT}/dev/{name}", stat.S_IFCHR, os.makedev(*numbers))
        os.chmod(f"{ROOT}/dev/{name}", 0o666)
    os.symlink("pts/ptmx", f"{ROOT}/dev/ptmx")
    for name, target in LINKS.items():
        os.symlink(f"/proc/self/fd{target}", f"{ROOT}/dev/{name}")
    for place in ("/tmp", "/var/tmp"):
        if setup:
            # Packages are unpacked there: on the disk, since memory would be too small.
            os.makedirs(f"{UPPER}/temporary{place}")
            os.chmod(f"{UPPER}/temporary{place}", 0o1777)
            mount(f"{UPPER}/temporary{place}", ROOT + place, None, MS_BIND)
        else:
            mount("tmpfs", ROOT + place, "tmpfs", aside, "mode=1777")


def show(folder, place):
    """Show a folder of a disk at `place`: to programs, and to ours that look at it."""
    mount(folder, place, None, MS_BIND)
    parent = os.path.dirname(place)
    if parent != "/":
        must_be_folder(parent)
    mount(folder, ROOT + place, None, MS_BIND)


# Keys of an ssh server


def own_host_keys(kept, hostname):
    """Those that came with the image or the layer belong to many: here they are this workspace's, kept in `kept`."""
    try:
        must_be_folder("/etc/ssh")
    except FileNotFoundError:
        return
    for name in os.listdir(f"{ROOT}/etc/ssh"):
        kind = HOST_KEY.fullmatch(name)
        if kind is None:
            continue
        found = os.lstat(f"{ROOT}/etc/ssh/{name}")
        mine = f"{kept}/{name}"
        if os.path.exists(mine) or make_key(kind[1], mine, hostname):
            for end, mode in (("", 0o600), (".pub", 0o644)):
                with open(mine + end) as file:
                    put(f"/etc/ssh/{name}{end}", file.read(), mode, (found.st_uid, found.st_gid))
        else:
            os.unlink(f"{ROOT}/etc/ssh/{name}")  # none is better than one that others have


def make_key(kind, path, hostname):
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    for end in ("", ".pub"):
        if os.path.exists(f"{path}.new{end}"):
            os.unlink(f"{path}.new{end}")
    argv = ["/usr/bin/ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"root@{hostname}", "-f", f"{path}.new"]
    try:
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return False
    os.replace(f"{path}.new.pub", f"{path}.pub")
    os.replace(f"{path}.new", path)
    return True


# Being in it, and the end


def enter(setup):
    """Make it the root of this process, in a mount namespace of its own, for good."""
    os.chdir(ROOT)
    check(libc.mount(b".", b"/", None, MS_MOVE, None), "the new root")
    os.chroot(".")
    os.chdir("/")
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    mount("proc", "/proc", "proc", flags)
    if setup:
        for place in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"):
            if os.path.exists(place):
                check(libc.mount(place.encode(), place.encode(), None, MS_BIND, None), place)
                check(libc.mount(None, place.encode(), None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags, None), place)


def lose_rights(setup):
    """From the next program on: nobody gains a right, and root of a set-up has few."""
    for capability in range(64) if setup else ():
        if capability not in SETUP_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # the kernel says which it does not know
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new rights")


def close():
    """Nothing runs in it any more: what was installed lies on its disk, whole and unmounted."""
    libc.umount2(ROOT.encode(), MNT_DETACH)
    if os.path.ismount(UPPER):
        shutil.rmtree(f"{UPPER}/temporary", ignore_errors=True)
        shutil.rmtree(f"{UPPER}/work", ignore_errors=True)
        unmount(UPPER)


def unmount(place):
    give_up = time.monotonic() + UNMOUNT_S
    while libc.umount2(place.encode(), 0) != 0 and time.monotonic() < give_up:
        time.sleep(0.02)
    # If something still holds it, read-only is as clean as unmounted.
    libc.mount(None, place.encode(), None, MS_REMOUNT | MS_RDONLY | MS_NODEV | MS_NOATIME, None)
