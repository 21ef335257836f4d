"""Where the hosts of a cluster are: in network namespaces with a cable each, or all on loopback."""

import os
import shutil
import subprocess
from dataclasses import dataclass

from tests.support.product import free_port


@dataclass(frozen=True)
class Place:
    """An address of the cluster's network, and what to put before a command so that it runs there."""

    address: str
    port: int
    before: tuple[str, ...] = ()

    @property
    def at(self) -> str:
        return f"{self.address}:{self.port}"


class Loopback:
    """All hosts at 127.0.0.1, each on ports of its own. No cable can be cut."""

    can_cut = False
    address = "127.0.0.1"

    def make(self, names: list[str]):
        """Nothing is made: loopback is there."""

    def place(self, name: str = "") -> Place:
        return Place(self.address, free_port())

    def state(self) -> dict:
        return {"bridge": "", "namespaces": []}


class Namespaces:
    """A bridge, and for each host a network namespace with a pair of veths to it. Needs root.

    Its addresses are above those that container engines give out by themselves (10.88.0.0/16 and the like).
    """

    can_cut = True

    def __init__(self):
        self.tag = f"{os.getpid() % 100_000:05d}"
        self.bridge, self.net = f"hrb{self.tag}", f"10.{100 + os.getpid() % 100}.{os.getpid() % 250}"
        self.address = f"{self.net}.1"
        self.names: list[str] = []

    def make(self, names: list[str]):
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for number, name in enumerate(names, start=2):
            space, outside = self._space(name), self._outside(name)
            _ip("netns", "add", space)
            self.names.append(name)
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outside, "master", self.bridge, "up")
            for words in (
                ("link", "set", "lo", "up"),
                ("address", "add", f"{self.net}.{number}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("route", "add", "default", "via", self.address),
            ):
                _ip("-n", space, *words)

    def place(self, name: str = "") -> Place:
        """Return an address in the host's namespace, or on the bridge without a name."""
        if not name:
            return Place(self.address, free_port())
        number = self.names.index(name) + 2
        return Place(f"{self.net}.{number}", free_port(), ("ip", "netns", "exec", self._space(name)))

    def cut(self, name: str):
        _ip("link", "set", self._outside(name), "down")

    def mend(self, name: str):
        _ip("link", "set", self._outside(name), "up")

    def state(self) -> dict:
        return {"bridge": self.bridge, "namespaces": [self._space(name) for name in self.names]}

    def _space(self, name: str) -> str:
        return f"hr{self.tag}-{name}"

    def _outside(self, name: str) -> str:
        return f"hr{self.tag}{name}"[:15]


def network(kind: str = "") -> Loopback | Namespaces:
    """Return namespaces where this user may make them, else loopback; `kind` chooses: "namespaces" or "loopback"."""
    may = os.geteuid() == 0 and shutil.which("ip") is not None
    return Namespaces() if kind == "namespaces" or (not kind and may and _works()) else Loopback()


def _works() -> bool:
    name = f"hrprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "delete", name)
    return made


def remove(state: dict):
    """Remove what `make` has made, as its state says."""
    for space in state["namespaces"]:
        subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)
    if state["bridge"]:
        subprocess.run(["ip", "link", "delete", state["bridge"]], check=False, capture_output=True)


def _ip(*words: str):
    subprocess.run(["ip", *words], check=True, capture_output=True)
