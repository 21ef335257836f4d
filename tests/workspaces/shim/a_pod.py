"""The keeper's agent and init without a cluster, and the bridges that hosts have to it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import until
from workspaces.drivers import init_client
from workspaces.drivers.base import Address
from workspaces.drivers.init_client import InitClient

DRIVERS = Path(init_client.__file__).parent
PLACES = [DRIVERS, DRIVERS / "remote"]
POD = """
import os, socket, sys, threading
sys.path[:0] = {places!r}
import base_keeper, conversations, kept_output
kept_output.KeptOutput.__init__.__defaults__ = ({cap}, {folder!r})
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
listener.listen()
init = base_keeper.KeeperInit()
agent = base_keeper.KeeperAgent(listener.accept()[0].detach(), init)
def take():
    while True:
        agent.lines.put(listener.accept()[0].detach())
for serve in (agent.run, take):
    threading.Thread(target=serve, daemon=True).start()
init.run()
"""
BRIDGE = """
import os, socket, sys
sys.path[:0] = {places!r}
import base_bridge

class Bridge(base_bridge.Bridge):
    def has_ended(self): return self.lost
    def put_an_end(self): pass

line = socket.socket(socket.AF_UNIX)
line.connect({pod!r})
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
listener.listen()
bridge = Bridge(listener, line.detach(), None, os.open({oom!r}, os.O_WRONLY))
bridge.ask({{"op": "hello", "session": {path!r}}}, print)
bridge.ask({{"op": "configure", "pids": None, "ports": {{}}}}, lambda _: bridge.up())
bridge.run()
"""


class Pod:
    """An agent with its init in a process, and the bridge of the host that leads it now."""

    def __init__(self, ground: Path, cap: int):
        self.ground, self.path = ground, ground / "pod"
        told = {"places": [str(place) for place in PLACES], "path": str(self.path), "cap": cap, "folder": str(ground)}
        self.log = (ground / "log").open("wb")
        self.process = self._begin(POD.format(**told))
        until(self.path.exists)
        self.hosts, self.bridge = 0, None

    def led(self) -> Address:
        """Have one more host lead it; return where its programs are reached there."""
        self.hosts += 1
        path, oom = self.ground / f"host-{self.hosts}", self.ground / f"oom-{self.hosts}"
        oom.write_text("oom_kill 0\n")
        told = {"places": [str(place) for place in PLACES], "path": str(path), "pod": str(self.path), "oom": str(oom)}
        self.bridge = self._begin(BRIDGE.format(**told))
        until(path.exists)
        lead = ("workspace", self.hosts)
        return Address(str(path), str(oom), {"PATH": os.defpath}, cwd=str(self.ground), lead=lead)

    def abandon(self, address: Address):
        with InitClient(address.socket, lead=address.lead) as init:
            init.request("abandon")

    def lose_host(self):
        self.bridge.send_signal(signal.SIGKILL)
        self.bridge.wait()

    def end(self):
        for process in (self.bridge, self.process):
            if process is not None:
                process.kill()
                process.wait()
        self.log.close()

    def _begin(self, program: str) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdout=self.log, stderr=self.log)
