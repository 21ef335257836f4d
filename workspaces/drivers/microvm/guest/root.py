"""The overlay root of the programs in a guest: the image, a setup layer above it, and a fresh upper layer on top.

The agent runs in a root of its own: whatever setup does to Python or to /etc, the agent uses the image's. The upper
layer is in memory, or during setup on a disk that becomes the next setup layer. In that case the files that belong to
this guest (names and users) are in a layer below it, so that they are not kept.
"""

import ctypes
import os
import shutil
import stat
import time

DISKS = "/run/handrail/disks"  # not visible to programs
PARTS = f"{DISKS}/root"
ROOT = f"{PARTS}/whole"
UPPER = f"{PARTS}/upper"
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_NOATIME = 1, 2, 4, 8, 32, 1024
MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 4096, 8192, 16384, 1 << 18
MNT_DETACH = 2
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
# What apt-get and dpkg need: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETFCAP.
SETUP_CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 31}
# A disk written as the upper layer can serve as a lower one later only if it holds no references to other layers.
OVERLAY = "redirect_dir=off,metacopy=off,index=off"
DEVICES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
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
    """Return the block device with this serial."""
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/serial") as file:
                if file.read().strip() == serial:
                    return f"/dev/{name}"
        except OSError:
            continue
    raise ValueError(f"there is no disk {serial}")


# Building the root


def build(message):
    """Build the root according to the `configure` message; the agent mounts its disks afterwards (`show`)."""
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
        check(libc.umount2(ROOT.encode(), 0), "the root of the setup")
        mount(find_disk("upper"), UPPER, "ext4", MS_NODEV | MS_NOATIME, "discard,errors=remount-ro")
        overlay([f"{fresh}/tree", *lower], UPPER)
    furnish(message["setup"])


def overlay(lower, above):
    """Mount the overlay of these lower directories at ROOT, with the upper directory in the folder `above`."""
    for name in ("tree", "work"):
        os.makedirs(f"{above}/{name}", exist_ok=True)
    parts = f"lowerdir={':'.join(lower)},upperdir={above}/tree,workdir={above}/work"
    mount("overlay", ROOT, "overlay", MS_NODEV, f"{parts},{OVERLAY}")


def name_it(message):
    """Write the files that identify this guest, replacing what setup left: hostname, machine-id, hosts and users."""
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
    own_folders(message["system_files"])


def own_folders(files):
    """Make folders of /etc that hold only these files, replacing what setup left there."""
    for folder in {os.path.dirname(f"/etc/{path}") for path in files}:
        if os.path.isdir(ROOT + folder) and not os.path.islink(ROOT + folder):
            shutil.rmtree(ROOT + folder)
        elif os.path.lexists(ROOT + folder):
            os.unlink(ROOT + folder)
        os.mkdir(ROOT + folder, 0o755)
        os.chmod(ROOT + folder, 0o755)
    for path, text in files.items():
        put(f"/etc/{path}", text, 0o555 if text.startswith("#!") else 0o444)


def must_be_folder(place):
    if not stat.S_ISDIR(os.lstat(ROOT + place).st_mode):
        raise ValueError(f"the setup has made something else of {place}")


def put(path, text, mode=0o644):
    """Write a file of the new root; unlink an existing one first, which may be a symlink to anywhere."""
    if os.path.lexists(ROOT + path):
        os.unlink(ROOT + path)
    with open(os.open(ROOT + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), mode)
        os.fchown(file.fileno(), 0, 0)


def furnish(setup):
    """Mount what is not part of an image: devices, the kernel's file systems, and temporary folders."""
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
            # Packages are unpacked there, which needs more space than the guest's memory has.
            os.makedirs(f"{UPPER}/temporary{place}")
            os.chmod(f"{UPPER}/temporary{place}", 0o1777)
            mount(f"{UPPER}/temporary{place}", ROOT + place, None, MS_BIND)
        else:
            mount("tmpfs", ROOT + place, "tmpfs", aside, "mode=1777")


def show(folder, place):
    """Bind-mount a folder of a disk at `place`, in the agent's root and in that of the programs."""
    mount(folder, place, None, MS_BIND)
    parent = os.path.dirname(place)
    if parent != "/":
        must_be_folder(parent)
    mount(folder, ROOT + place, None, MS_BIND)


# Entering and closing the root


def enter(setup):
    """Make it the root of this process, which is in a mount namespace of its own, irreversibly."""
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
    """Set no_new_privs, and for setup limit the capability bounding set of root; effective from the next exec."""
    for capability in range(64) if setup else ():
        if capability not in SETUP_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # unknown capabilities fail, which is ignored
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new rights")


def close():
    """Unmount the root, and the upper disk of a setup cleanly. Nothing may run in it any more."""
    libc.umount2(ROOT.encode(), MNT_DETACH)
    if os.path.ismount(UPPER):
        shutil.rmtree(f"{UPPER}/temporary", ignore_errors=True)
        shutil.rmtree(f"{UPPER}/work", ignore_errors=True)
        unmount(UPPER)


def unmount(place):
    """Unmount, waiting up to UNMOUNT_S until the file system is free; at least remount it read-only."""
    give_up = time.monotonic() + UNMOUNT_S
    while libc.umount2(place.encode(), 0) != 0 and time.monotonic() < give_up:
        time.sleep(0.02)
    # If it is still busy, remounting read-only leaves it as clean as unmounting.
    libc.mount(None, place.encode(), None, MS_REMOUNT | MS_RDONLY | MS_NODEV | MS_NOATIME, None)
