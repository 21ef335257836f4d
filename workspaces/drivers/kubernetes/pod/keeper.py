"""The keeper of a pod, its first process, which runners reach over mutual TLS (`remote/base_keeper.py`).

    python3 keeper.pyz keep

A runner shows the certificate that this pod was made with. The tree and the home are served over streams of its line.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import base_keeper
from init.processes import helpers
from init.program import take_precautions
from link import look_after
from mux import Stream
from tls import server_context

PORT = 7443
FILES, ONCE, PROGRAMS = "/.handrail/files", "/.handrail/once", "/.handrail/programs"
LOOK_S = 0.03


class PodAgent(base_keeper.KeeperAgent):
    """The agent of a pod. Its tree is served over a stream of the line, by a program for each folder."""

    def __init__(self, line, init):
        super().__init__(line, init)
        self.servers = {}  # folder: its server
        self.failures = {}  # folder: why its last server did not start
        self.going_r, self.going_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.selector.register(self.going_r, 1, self.say_it_goes)

    def say_it_goes(self, _mask):
        """Tell the runner that the cluster ends this pod."""
        os.read(self.going_r, 4096)
        self.line.message({"terminating": True})

    def op_serve(self, message):
        """Start a server of the tree, or of the home, for a client of the bridge; end the one of the former client."""
        folder = message["folder"]
        self.failures.pop(folder, None)
        try:
            ours = self.start_server(folder)
        except (OSError, subprocess.SubprocessError) as error:
            self.failures[folder] = error
            raise
        Stream(self.line, message["stream"], ours.detach(), reads=True, writes=True, half=True)

    def start_server(self, folder):
        """Return a socket that a new server of the folder serves, in place of the former one."""
        former = self.servers.get(folder)
        if former is not None and former.poll() is None:
            former.terminate()
            former.wait(5)
        more = ["--home", f"{FILES}/home"] if folder == "tree" else []
        ours, theirs = socket.socketpair()
        with theirs:
            made = subprocess.Popen([*tree_program(folder), *more], stdin=theirs, stdout=theirs, cwd="/")
        self.servers[folder] = helpers[made.pid] = made
        return ours

    def op_is_serving(self, message):
        folder = message.get("folder", "tree")
        if folder in self.failures:
            raise ValueError(f"the file server did not start: {self.failures[folder]}")
        self.server = self.servers.get(folder)
        super().op_is_serving(message)


class PodDoor(base_keeper.Door):
    """Takes connections whose other end has the runner's certificate."""

    agent_class = PodAgent

    def __init__(self, told):
        super().__init__(told)
        self.context = server_context(f"{ONCE}/keeper.crt", f"{ONCE}/keeper.key", f"{ONCE}/runner.crt")

    def listener(self):
        return socket.create_server(("0.0.0.0", PORT), backlog=64)

    def prove(self, sock):
        look_after(sock)
        return self.context.wrap_socket(sock, server_side=True)


def main():
    os.chdir("/")
    os.umask(0o022)
    os.environ.clear()
    take_precautions()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # nothing runs yet
    for folder in ("tree", "home"):
        recover(folder)
    door = PodDoor(await_run())
    for name in os.listdir(ONCE):
        os.unlink(f"{ONCE}/{name}")
    signal.signal(signal.SIGTERM, lambda *_: door.agent and os.write(door.agent.going_w, b"."))
    door.serve()
    door.say_over()
    os._exit(0)


def await_run():
    """Return what the pod was told, with the Run it is of. A pod of a pool waits for that (waiting.py)."""
    while True:
        try:
            with open(f"{ONCE}/keeper.json") as file:
                return json.load(file)
        except FileNotFoundError:
            time.sleep(LOOK_S)


def recover(folder):
    """Finish or roll back a restore that was interrupted, on a volume that outlived its pod."""
    if os.path.exists(f"{FILES}/{folder}.journal"):
        subprocess.run([*tree_program(folder), "--recover"], check=True, stdout=subprocess.DEVNULL)


def tree_program(folder):
    """Return the command of a server of the tree or the home."""
    python = [sys.executable, "-I", "-S", "-B", f"{PROGRAMS}/tree.pyz"]
    return [*python, f"{FILES}/{folder}", "--journal", f"{FILES}/{folder}.journal"]
