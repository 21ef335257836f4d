"""Start programs: fork, exec, the limit on processes, the shell."""

import array
import ctypes
import errno
import fcntl
import os
import signal
import socket
import termios

from .protocol import Refused

SPARE_PROCESSES = 16  # that the init may start beyond the limit of its programs
END_THEM = " What runs uses up the limit on processes: stop or pause the workspace to end it."
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def spawn(request, stdio, controlling, max_processes=None, ring=None):
    """Fork and exec; return the pid, or raise Refused if the exec failed. Close `stdio`.

    With a `ring` (envelope/ring.py), return (pid, what its `enter` returned).
    """
    argv = [os.fsencode(argument) for argument in request["argv"]]
    env = {os.fsencode(name): os.fsencode(value) for name, value in request["env"].items()}
    cwd = os.fsencode(request["cwd"])
    if not argv:
        raise Refused("argv is empty")
    failed_r, failed_w = os.pipe2(os.O_CLOEXEC)
    ours, theirs = socket.socketpair() if ring is not None else (None, None)
    enter = None if ring is None else lambda: hand_over(ring.enter(cwd), theirs)
    if ring is not None:
        env.update(ring.environment(env))
    try:
        pid = os.fork()
        if pid == 0:
            execute(argv, env, cwd, stdio, controlling, failed_w, max_processes, enter)
    except OSError as error:
        os.close(failed_r)
        raise Refused(f"no further process can be started: {error.strerror}.{END_THEM}") from error
    finally:
        os.close(failed_w)
        for fd in set(stdio):
            os.close(fd)
    with open(failed_r, "rb") as file:
        failure = file.read()
    watches = {} if ring is None else receive_descriptors(ours, theirs)
    if failure:
        for fd in watches.values():
            os.close(fd)
        number, what = failure.split(b" ", 1)
        raise Refused(f"{os.fsdecode(what)}: {os.strerror(int(number))}")
    return pid if ring is None else (pid, watches)


def hand_over(descriptors, line):
    """Send descriptors by their names: {name: descriptor}."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors.values()))] if descriptors else []
    line.sendmsg([b"." + " ".join(descriptors).encode()], rights)


def receive_descriptors(ours, theirs):
    """Return the descriptors that a child handed over before its exec; {} if it did not come so far."""
    theirs.close()
    with ours:
        names, rights, _flags, _address = ours.recvmsg(64, socket.CMSG_SPACE(8), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for _level, _kind, payload in rights:
        fds.frombytes(payload[: len(payload) // 4 * 4])
    return dict(zip(names[1:].decode().split(), fds, strict=False))


def execute(argv, env, cwd, stdio, controlling, failed, max_processes, enter=None):
    """Set up the forked child and exec; report a failure through `failed`. Never returns."""
    what = argv[0]
    try:
        os.setsid()
        if controlling:
            fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
        # Duplicate to high numbers first, so that no source is overwritten before it is copied.
        sources = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in stdio]
        for target, source in enumerate(sources):
            os.dup2(source, target, inheritable=True)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        if max_processes is not None:
            limit_processes(max_processes)
        what = cwd
        os.chdir(cwd)
        if enter is not None:
            what = b"its envelope cannot be held"
            enter()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        what = argv[0]
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        os.write(failed, b"%d %s" % (error.errno or errno.EINVAL, what))
    except BaseException as error:
        os.write(failed, b"%d %s" % (errno.EINVAL, str(error).encode()))
    os._exit(127)


def limit_processes(number):
    """Set RLIMIT_NPROC, soft and hard, for this process and its future children."""
    import resource  # deferred: not every Python that runs us has it, and only a limit needs it

    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    number = number if hard == resource.RLIM_INFINITY else min(number, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (number, number))


def shell():
    """Return the shell for command lines in this root."""
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if os.access(path, os.X_OK)), "/bin/sh")
