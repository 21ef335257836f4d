"""The canary of a probe: what a pod of this cluster can and cannot do, as JSON in its termination message.

    python3 keeper.pyz canary [ADDRESS:PORT…]     try these addresses too
    python3 keeper.pyz listen PORT                a pod that others must not reach

{kernel: release, gvisor: bool, abilities: {landlock, …}, pids: bool, reached: [address…]}
"""

import json
import os
import socket

from kernel import abilities, holds_processes, is_gvisor

METADATA = "169.254.169.254:80"  # of clouds, which gives credentials to whom it knows
CONNECT_S = 2.0


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
