"""Start QEMU, then load and run the bridge while QEMU comes up.

`python3 -I -S FIRST BRIDGE_FD LISTEN_FD LOCK_FD CONFIG_FD`: BRIDGE_FD is the archive with bridge.py, CONFIG_FD a
marshalled dict. Only fast imports here: the start of QEMU waits for them.
"""

import ctypes
import marshal
import os
import signal
import socket
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
NOT_FOR_QEMU = ("ports", "oom")

libc = ctypes.CDLL(None, use_errno=True)


class Qemu:
    """The QEMU process, a child that dies with us (PR_SET_PDEATHSIG)."""

    def __init__(self, argv, keep):
        parent = os.getpid()
        for name in os.listdir("/proc/self/fd"):
            try:
                os.set_inheritable(int(name), int(name) in (0, 1, 2, *keep))
            except OSError:
                pass  # the descriptor of the listing itself
        self.status = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() == parent:
                    os.dup2(2, 1)
                    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
                    os.execve(argv[0], argv, {})
            except OSError as error:
                os.write(2, f"QEMU could not be started: {error.strerror}\n".encode())
            os._exit(127)

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None

    def kill(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)


def main():
    bridge_fd, listen_fd, lock_fd, config_fd = (int(argument) for argument in sys.argv[1:5])
    with open(config_fd, "rb") as file:
        config = marshal.load(file)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise SystemExit("cannot protect the bridge from the workload")
    agent, theirs = socket.socketpair()
    console, printing = socket.socketpair()
    argv = [part.format(agent=theirs.fileno(), console=printing.fileno()) for part in config["qemu"]]
    ours = [config[name] for name in NOT_FOR_QEMU]
    disks = [fd for fd in config["keep"] if fd not in ours]
    # Both we and QEMU keep the lock, so that it is held until the last of the two has ended.
    qemu = Qemu(argv, [*disks, lock_fd, theirs.fileno(), printing.fileno()])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    theirs.close()
    printing.close()
    for fd in disks:
        os.close(fd)
    sys.path.insert(0, f"/proc/self/fd/{bridge_fd}")
    from bridge import Bridge

    Bridge(socket.socket(fileno=listen_fd), config, qemu, agent, console).run()
    os._exit(0 if qemu.status == 0 else 1)


if __name__ == "__main__":
    main()
