"""The arguments of the init, and what it does before and after its event loop.

    python3 -I -S init.pyz LISTEN_FD LOCK_FD [OPTION]
    python3 -I -S init.pyz --door PATH [OPTION]

LISTEN_FD is a listening unix socket, LOCK_FD holds the lock that shows the host that this Run is alive. Where
descriptors cannot be inherited, both are received once over the unix socket PATH, which is removed before any program
is started.

--no-links PATH…     refuse to start if one of these paths is a symlink or leads through one
With --abilities alone, print what programs can be held to an envelope by here, as JSON, and exit.

--max-processes N    limit all programs together to N processes and threads. Only for a user whose other processes the
                     kernel does not count: of a user namespace, a workspace or a guest alone. The init itself may
                     exceed it by a few, so that it can still start something to end them
--give-back UID GID  chown /workspace and /home/agent to that user on exit (setup ran as root in them)
"""

import array
import ctypes
import json
import os
import signal
import socket
import sys

from .loop import NICENESS, Init
from .spawn import SPARE_PROCESSES, libc, limit_processes

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 36, 24, 47, 4
CAP_SETPCAP, CAP_SYS_ADMIN, CAPABILITY_VERSION_3 = 8, 21, 0x20080522


def receive_descriptors(path):
    """Receive the descriptors of the listening socket and the lock over the unix socket `path`."""
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(30)
        door.connect(path)
        data, rights, _flags, _address = door.recvmsg(1, socket.CMSG_SPACE(2 * 4))
    fds = array.array("i")
    for level, kind, payload in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(payload)
    if not data or len(fds) != 2:
        raise SystemExit("the driver closed the door without handing over the descriptors")
    return fds


def give_back(uid, gid):
    """Chown /workspace and /home/agent, where setup ran as root. Nothing else may run any more."""
    for top in ("/workspace", "/home/agent"):
        for _path, folders, files, fd in os.fwalk(top, topdown=False):
            for name in folders + files:
                found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if (found.st_uid, found.st_gid) != (uid, gid):
                    os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)
        os.chown(top, uid, gid)


def keep_from_programs():
    """Keep what this init may do (CAP_SYS_ADMIN in a sandbox, to make mount views) from every program it starts."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in (CAP_SYS_ADMIN, CAP_SETPCAP):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused where we have none, and then there is none to drop
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same for the upper half
    if libc.capget(header, sets) != 0:
        raise SystemExit("cannot read the capabilities")
    kept = sets[1] & 1 << CAP_SYS_ADMIN
    if libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept)) != 0:
        raise SystemExit("cannot give up capabilities")


def take_precautions():
    """Keep this process from the programs that it will start, and its signals and rights from them."""
    # The workload has the same uid and namespace: without this it could read our memory and descriptors.
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise SystemExit("cannot protect the init from the workload")
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getuid() != 0:
        keep_from_programs()
    os.nice(NICENESS)  # on an overloaded host, the workload yields to Handrail's own processes
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def options_of(arguments):
    """Return {option: its values} of arguments like `--option VALUE…`."""
    options, values = {}, []
    for argument in arguments:
        if argument.startswith("--"):
            values = options[argument] = []
        else:
            values.append(argument)
    return options


def refuse_links(options):
    """Exit if a path of --no-links is a symlink, or leads through one."""
    for path in options.get("--no-links", ()):
        if os.path.realpath(path) != path:
            raise SystemExit(f"{path} must not be a link: programs could exchange what it leads to")


def print_abilities():
    from .held_programs import ring  # deferred: an init loads it when the first program is to be held

    print(json.dumps(ring.probe()))


def main():
    if sys.argv[1] == "--abilities":
        print_abilities()
        return
    if sys.argv[1] == "--door":
        listen_fd, lock_fd = receive_descriptors(sys.argv[2])
    else:
        listen_fd, lock_fd = int(sys.argv[1]), int(sys.argv[2])
    options = options_of(sys.argv[3:])
    refuse_links(options)
    keep = {0, 1, 2, listen_fd, lock_fd}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # the descriptor of the listing itself
    os.set_inheritable(listen_fd, False)
    os.set_inheritable(lock_fd, False)
    max_processes = int(options["--max-processes"][0]) if "--max-processes" in options else None
    take_precautions()
    if max_processes is not None:
        limit_processes(max_processes + SPARE_PROCESSES)
    Init(socket.socket(fileno=listen_fd), max_processes).run()
    if "--give-back" in options:
        give_back(*map(int, options["--give-back"]))
