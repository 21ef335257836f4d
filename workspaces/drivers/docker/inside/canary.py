"""The canary of a runtime: what its containers can and cannot do, as a line of JSON.

    python3 keeper.pyz canary PATH     also make a file, which the engine should see as a change of the container

{kernel: release, gvisor: bool, abilities: {landlock, …}, pids: bool}
"""

import json
import os

from kernel import abilities, holds_processes, is_gvisor


def main(path):
    with open(path, "w"):
        pass
    gvisor = is_gvisor()
    found = {
        "kernel": os.uname().release,
        "gvisor": gvisor,
        "abilities": abilities(),
        "pids": not gvisor and holds_processes(),  # gVisor has no such limit
    }
    print(json.dumps(found), flush=True)
