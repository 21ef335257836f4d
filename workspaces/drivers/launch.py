"""The launcher of a Run's first process: join its cgroups, drop privileges, exec.

A standalone program, `python3 -I -S launch.py` with a marshalled dict on standard input (importing json would take
longer than everything else here), so that nothing privileged happens between fork and exec of the threaded runner. It
waits for the end of its input: by then the Run's record names our pid. Started by root, it becomes `uid` for good.
Folders that this uid cannot reach (HANDRAIL_HOME is 0700) are first bind-mounted below /tmp in a mount namespace of our
own, where the sandbox finds them.
"""

import ctypes
import marshal
import os
import resource
import sys

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags, data=None):
    check(libc.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), data), f"mount {target}")


def stage(folders):
    """Bind-mount each folder ({name: path}) below /tmp, in a mount namespace that only we and the sandbox share."""
    check(libc.unshare(CLONE_NEWNS), "a mount namespace of our own")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    # Open them after unshare, so that they belong to this namespace, and before mounting /tmp, which may hide them.
    opened = {name: os.open(path, os.O_PATH | os.O_CLOEXEC) for name, path in folders.items()}
    mount("tmpfs", "/tmp", b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755")
    for name, fd in opened.items():
        os.mkdir(f"/tmp/{name}")
        mount(f"/proc/self/fd/{fd}", f"/tmp/{name}", None, MS_BIND | MS_REC)
        os.close(fd)


def main():
    told = sys.stdin.buffer.read()
    if not told:
        raise SystemExit(1)  # the runner died before it wrote the record with our pid
    spec = marshal.loads(told)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    for cgroup in spec["cgroups"]:
        with open(cgroup + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    if os.uname().machine in KEYCTL:
        # Join a new session keyring: the runner's would be inherited into every namespace.
        libc.syscall(KEYCTL[os.uname().machine], KEYCTL_JOIN_SESSION_KEYRING, None)
    if spec["stage"]:
        stage(spec["stage"])
    if os.getuid() == 0:
        os.setgroups(spec["groups"])
        os.setresgid(spec["gid"], spec["gid"], spec["gid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if os.getuid() == 0 or os.geteuid() != spec["uid"]:
        raise SystemExit("A workload never runs as root, nor as anybody but its own user.")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    os.chdir(spec["cwd"])
    for fd in spec["keep"]:
        os.set_inheritable(fd, True)
    os.execve(spec["argv"][0], spec["argv"], spec["env"])


if __name__ == "__main__":
    main()
