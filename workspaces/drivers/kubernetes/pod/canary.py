"""The canary of a probe: what a pod of this cluster can and cannot do, as JSON in its termination message.

    python3 keeper.pyz canary [ADDRESS:PORT…]     try these addresses too
    python3 keeper.pyz listen PORT                a pod that others must not reach

{kernel: release, gvisor: bool, abilities: {landlock, …}, pids: bool, reached: [address…]}
"""

import ctypes
import json
import os
import resource
import socket

METADATA = "169.254.169.254:80"  # of clouds, which gives credentials to whom it knows
CONNECT_S = 2.0
SYSLOG_ACTION_READ_ALL = 3
FORKS = 40  # some are counted of what made the pod


def listen(port):
    server = socket.create_server(("0.0.0.0", int(port)))
    while True:
        server.accept()[0].close()


def main(*addresses):
    own = [f"{os.environ[name]}:443" for name in ("KUBERNETES_SERVICE_HOST",) if name in os.environ]
    gvisor = is_gvisor()
    found = {
        "kernel": os.uname().release,
        "gvisor": gvisor,
        "abilities": abilities(),
        "reached": [address for address in (*own, METADATA, *addresses) if answers(address)],
        "pids": not gvisor and holds_processes(),  # gVisor has no such limit
    }
    with open("/dev/termination-log", "w") as file:
        json.dump(found, file)


def answers(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except ConnectionRefusedError:
        return True  # a machine has answered, even if no program has
    except OSError:
        return False
    return True


def is_gvisor():
    """Return whether the kernel says that it is gVisor's; any other refuses to be asked."""
    text = ctypes.create_string_buffer(1 << 16)
    size = ctypes.CDLL(None, use_errno=True).klogctl(SYSLOG_ACTION_READ_ALL, text, len(text))
    return size > 0 and b"gVisor" in text.raw[:size]


def abilities():
    """Return what programs can be held to an envelope by here."""
    from init.held_programs import ring

    return ring.probe()


def holds_processes():
    """Return whether a limit on processes counts this pod's alone."""
    resource.setrlimit(resource.RLIMIT_NPROC, (FORKS, FORKS))
    children = []
    read_end, write_end = os.pipe()
    try:
        for _ in range(FORKS + 1):
            pid = os.fork()
            if pid == 0:
                os.close(write_end)
                os.read(read_end, 1)  # until the parent has seen enough
                os._exit(0)
            children.append(pid)
    except BlockingIOError:
        return len(children) > 0  # one at least: nobody else's processes count
    finally:
        os.close(write_end)
        for pid in children:
            os.waitpid(pid, 0)
    return False
