"""The keeper of a container in gVisor, its first process, which runners reach by programs that the engine starts.

    python3 keeper.pyz keep [--no-links PATH…] [--give-back UID GID]

It listens to an abstract unix socket, which only this container has. `relay.py`, which the engine starts in the
container, carries one connection to it. A runner shows the key that the keeper was given in ONCE, whose file the bridge
removes once the keeper has answered, before any program of the workspace can run: gVisor's SO_PEERCRED names the one
who asks, not the peer, so nothing else tells a relay from a program.
"""

import json
import os
import socket
import sys
from _operator import _compare_digest  # as in hmac, which needs more than our Python has here

import base_keeper
from init.program import give_back, options_of, refuse_links, take_precautions

ONCE = "/.handrail/once"
ADDRESS = "\0handrail-keeper"


class ContainerDoor(base_keeper.Door):
    """Takes connections that show the key. `told`: {run, key}."""

    def listener(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(ADDRESS)
        listener.listen(64)
        return listener

    def why_not(self, asked):
        if not _compare_digest(str(asked.get("key")).encode(), self.told["key"].encode()):
            return "it does not show this container's key"
        return super().why_not(asked)


def main(*arguments):
    options = options_of(arguments)
    refuse_links(options)
    with open(f"{ONCE}/keeper.json") as file:
        door = ContainerDoor(json.load(file))
    os.chdir("/")
    os.umask(0o022)
    os.environ.clear()
    take_precautions()
    door.serve()
    if "--give-back" in options:
        give_back(*map(int, options["--give-back"]))
    door.say_over()
    sys.stdout.flush()
    os._exit(0)
