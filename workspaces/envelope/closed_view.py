"""What a program sees of the file system where no Landlock forbids the rest: the paths that its envelope names.

In the namespace of `mount_view.py`, before anything else is mounted there. A folder on the way to a shown path becomes
an empty one in which only shown paths are; any other folder of the root is empty and closed, and so is any file in it.
"""

import os

from .mounts import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REC, MS_REMOUNT, bind, mount
from .syscalls import PR_SET_DUMPABLE, libc

MADE_OTHERWISE = ("dev", "tmp")  # of devices there are none to hide, and /tmp is the program's own
OF_A_PROCESS = ("root/", "cwd/", "environ", "mem", "fd/0")
FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC


def show_only(paths):
    """Hide every path but these and what is below them. Those that are not there are left out."""
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in _outermost(paths) if _is_there(path)}
    tops = [f"/{entry}" for entry in sorted(os.listdir("/")) if entry not in MADE_OTHERWISE]
    tops = [top for top in tops if top not in opened and not os.path.islink(top)]
    _close_files([top for top in tops if not os.path.isdir(top)])
    for top in tops:
        if not os.path.isdir(top):
            continue
        below = {path: fd for path, fd in opened.items() if path.startswith(top + "/")}
        mount("tmpfs", top, "tmpfs", FLAGS, "mode=755,size=1m" if below else "mode=0,size=4k")
        for path, fd in below.items():
            _show(path, fd)
        mount(None, top, None, MS_REMOUNT | MS_BIND | MS_RDONLY | FLAGS)
    for fd in opened.values():
        os.close(fd)


def _close_files(paths):
    """Mount an empty file that nobody may read over each; it lies in a /tmp that the program's own covers later."""
    if not paths:
        return
    mount("tmpfs", "/tmp", "tmpfs", FLAGS, "mode=755,size=4k")
    os.close(os.open("/tmp/closed", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    mount(None, "/tmp", None, MS_REMOUNT | MS_RDONLY | FLAGS)
    for path in paths:
        bind("/tmp/closed", path)


def is_apart():
    """Return whether a program in a namespace of its own is kept from what others of its user have open."""
    from .mount_view import own_namespace  # which imports this module

    read_end, write_end = os.pipe()
    outside = os.fork()
    if outside == 0:  # as programs are, and the init is not
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    child = os.fork()
    if child == 0:
        try:
            own_namespace()
            os._exit(1 if any(_can_look(outside, name) for name in OF_A_PROCESS) else 0)
        except BaseException:
            os._exit(1)
    held_apart = os.waitpid(child, 0)[1] == 0
    for fd in (write_end, read_end):
        os.close(fd)
    os.waitpid(outside, 0)
    return held_apart


def _can_look(pid, name):
    try:
        os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
    except OSError:
        return False
    return True


def _show(path, fd):
    source = f"/proc/self/fd/{fd}"
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    if os.path.isdir(source):
        os.mkdir(path)
    else:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    mount(source, path, None, MS_BIND | MS_REC)


def _outermost(paths):
    """Return the paths that are below no other of them."""
    found = []
    for path in sorted(set(paths)):
        if not any(path.startswith(top + "/") for top in found):
            found.append(path)
    return found


def _is_there(path):
    try:
        os.stat(path)
    except OSError:
        return False
    return True
