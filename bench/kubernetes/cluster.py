"""A cluster on this machine: etcd, the control plane and its nodes, all started here and all taken away again.

Everything is in one folder, and everything that is outside of it has a name or an address with the cluster's number, so
that several can exist at once. `state.json` has each part's command and process, and other processes use it: a test
kills `n1/kubelet`, and `down` ends what `up` has started.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.kubernetes import image, machine, node, programs
from bench.kubernetes.api import Api
from bench.kubernetes.pki import Authority
from tests.support.product import free_port
from workspaces.drivers.processes import start_time

SERVICES = "10.96.0.0/16"
GRACE_S = 20  # after which a node that says nothing is NotReady
STARTS_S = 120
RUNTIME_CLASSES = {"runc": "runc", "gvisor": "runsc"}


@dataclass
class Part:
    """A program of the cluster."""

    command: list[str]
    namespace: str = ""
    pid: int = 0
    began: int = 0

    @property
    def lives(self) -> bool:
        return bool(self.pid) and start_time(self.pid) == self.began


def folder_of(name: str) -> Path:
    return Path(tempfile.gettempdir()) / "handrail-kubernetes" / name


class Cluster:
    """The cluster `name`, which need not exist yet. Verbs raise RuntimeError with what a part said last."""

    def __init__(self, name: str = "default", *, nodes: int = 2, kubernetes: str = programs.KUBERNETES):
        self.name, self.kubernetes, self.size = name, kubernetes, nodes
        self.folder = folder_of(name)
        self.slot = -1
        self.parts: dict[str, Part] = {}

    @classmethod
    def load(cls, name: str = "default") -> "Cluster":
        """Return a cluster that another process has started; FileNotFoundError if there is none."""
        state = json.loads((folder_of(name) / "state.json").read_text())
        found = cls(name, nodes=state["nodes"], kubernetes=state["kubernetes"])
        found.slot = state["slot"]
        found.parts = {each: Part(**fields) for each, fields in state["parts"].items()}
        return found

    @property
    def nodes(self) -> dict[str, node.Node]:
        names = {f"n{number}": number for number in range(1, self.size + 1)}
        return {
            each: node.Node(each, number, self.name, self.slot, self.kubernetes, self.folder / each)
            for each, number in names.items()
        }

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "pki" / "admin.conf"

    @property
    def url(self) -> str:
        return f"https://{machine.address(self.slot)}:6443"

    @property
    def api(self) -> Api:
        return Api(self.kubeconfig)

    def up(self, say=lambda words: None) -> None:
        self.folder.mkdir(parents=True)
        self.slot = machine.take_slot()
        self._save()
        self._issue()
        self._start_control_plane()
        for each in self.nodes.values():
            each.make()
            machine.set_wall(each.namespace, up=True)
            for name, command in each.parts(self.folder / "pki").items():
                self.parts[name] = Part(command, each.namespace)
                self.start(name)
            self._import(each, image.pause())
        say("Waiting for the nodes")
        self._until(self._is_ready, "The nodes are not ready")
        for name, handler in RUNTIME_CLASSES.items():
            self.create("/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", name, handler=handler)

    def start(self, name: str) -> None:
        """Start a part, also one that has been killed."""
        part = self.parts[name]
        if name.endswith("/kubelet"):  # it ends where it finds no containerd
            self._until(self.nodes[name.partition("/")[0]].answers, "Its containerd does not answer")
        environment = os.environ | {"PATH": programs.path(self.kubernetes)}
        command = [*machine.inside(part.namespace), shutil.which(part.command[0], path=environment["PATH"])]
        with open(self.log(name), "ab") as log:
            started = subprocess.Popen(
                [*command, *part.command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        part.pid, part.began = started.pid, start_time(started.pid) or 0
        started.returncode = 0  # it outlives this process, so nothing waits for it
        self._save()

    def kill(self, name: str) -> None:
        """Kill a part as a power cut does. What it has started goes on."""
        part = self.parts[name]
        if part.lives:
            machine.kill(part.pid)
        while part.lives:
            machine.reap(part.pid)
            time.sleep(0.02)

    def cut(self, name: str) -> None:
        """Pull a node's network cable."""
        machine.set_cable(self.slot, self.nodes[name].number, up=False)

    def mend(self, name: str) -> None:
        machine.set_cable(self.slot, self.nodes[name].number, up=True)

    def power_off(self, name: str) -> None:
        """Let a node lose its power: its cable, its parts and every process of its pods are gone at once."""
        self.cut(name)
        for part in ("kubelet", "proxy", "containerd"):
            self.kill(f"{name}/{part}")
        for pid in self.nodes[name].pids() | machine.runtimes_in(self.folder / name):
            machine.kill(pid)

    def power_on(self, name: str) -> None:
        for part in ("containerd", "proxy", "kubelet"):
            self.start(f"{name}/{part}")
        self.mend(name)

    def wall(self, *, up: bool) -> None:
        """Let pods open no connection at all, as a NetworkPolicy of all pods would; or let them reach everything."""
        for each in self.nodes.values():
            machine.set_wall(each.namespace, up=up)

    def load_image(self, archive: Path) -> None:
        """Import an image into every node."""
        for each in self.nodes.values():
            self._import(each, archive)

    def create(self, path: str, kind: str, name: str, *, labels: Mapping[str, str] = {}, **fields) -> dict:
        """Create an object in the collection at `path`, /apis/GROUP/VERSION/… or /api/v1/…, and return it."""
        version = "v1" if path.startswith("/api/") else "/".join(path.split("/")[2:4])
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": dict(labels)}, **fields}
        status, answer = self.api.ask(path, body)
        if status not in (200, 201):
            raise RuntimeError(f"{kind} {name}: {answer}")
        return answer

    def log(self, name: str) -> Path:
        return self.folder / f"{name.replace('/', '-')}.log"

    def down(self) -> None:
        """End and remove all of it, whatever state it is in."""
        self._end_parts("kubelet", "proxy", "controllers", "scheduler")  # else they would make anew what is ended here
        for each in self.nodes.values():
            self._end_pods(each)
        self._end_parts("containerd", "apiserver", "etcd")
        machine.end_runtimes(self.folder)
        for each in self.nodes.values():
            machine.end_cgroup(each.group)
        machine.unmount_below(self.folder)
        machine.remove_network(self.slot, {each.number: each.namespace for each in self.nodes.values()})
        machine.remove_traces(self.folder, [each.network for each in self.nodes.values()])
        shutil.rmtree(self.folder)

    def _end_parts(self, *names: str) -> None:
        for name, part in self.parts.items():
            if name.rpartition("/")[2] in names:
                machine.end(part.pid, part.began)

    def _end_pods(self, each: node.Node) -> None:
        if not each.socket.exists():
            return
        tasks = subprocess.run(each.ctr("tasks", "list", "--quiet"), capture_output=True, text=True, check=False)
        for task in tasks.stdout.split():
            subprocess.run(each.ctr("tasks", "delete", "--force", task), capture_output=True, check=False)

    def _issue(self) -> None:
        authority = Authority(self.folder / "pki")
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        hosts = (machine.address(self.slot), "127.0.0.1", SERVICES.replace("0/16", "1"), *names)
        authority.issue("apiserver", "kube-apiserver", hosts=hosts)
        authority.issue("admin", "admin", group="system:masters")
        authority.issue("controllers", "system:kube-controller-manager")
        authority.issue("scheduler", "system:kube-scheduler")
        for each in self.nodes.values():
            authority.issue(
                each.name, f"system:node:{each.name}", group="system:nodes", hosts=(each.name, each.address)
            )
            authority.issue(f"{each.name}-proxy", "system:kube-proxy")
        authority.signing_pair("tokens")
        for name in [path.stem for path in authority.folder.glob("*.crt") if path.stem not in ("ca", "apiserver")]:
            authority.kubeconfig(name, self.url)

    def _start_control_plane(self) -> None:
        store, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.parts["etcd"] = Part(_etcd(self.folder, store, peers))
        self.parts["apiserver"] = Part(_apiserver(self.folder / "pki", machine.address(self.slot), store))
        self.parts["controllers"] = Part(_controllers(self.folder / "pki", machine.address(self.slot)))
        self.parts["scheduler"] = Part(_scheduler(self.folder / "pki", machine.address(self.slot)))
        for name in ("etcd", "apiserver"):
            self.start(name)
        self._until(self.answers, "The API server does not answer")
        for name in ("controllers", "scheduler"):
            self.start(name)

    def answers(self) -> bool:
        try:
            return self.api.ask("/readyz")[0] == 200
        except OSError:
            return False

    def _is_ready(self) -> bool:
        nodes = self.api.ask("/api/v1/nodes")[1]["items"]
        conditions = [condition for each in nodes for condition in each["status"].get("conditions", ())]
        ready = [each for each in conditions if each["type"] == "Ready" and each["status"] == "True"]
        account = self.api.ask("/api/v1/namespaces/default/serviceaccounts/default")[0]
        return len(ready) == self.size and account == 200

    def _import(self, each: node.Node, archive: Path) -> None:
        done = subprocess.run(each.ctr("images", "import", str(archive)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{archive} cannot be imported: {done.stderr.strip()}")

    def _until(self, holds, otherwise: str) -> None:
        deadline = time.monotonic() + STARTS_S
        while not holds():
            if time.monotonic() > deadline:
                logs = "\n".join(f"{name}: {_end_of(self.log(name))}" for name in self.parts)
                raise RuntimeError(f"{otherwise}.\n{logs}")
            time.sleep(0.1)

    def _save(self) -> None:
        state = {"nodes": self.size, "kubernetes": self.kubernetes, "slot": self.slot}
        state["parts"] = {name: vars(part) for name, part in self.parts.items()}
        fresh = self.folder / "state.json.new"
        fresh.write_text(json.dumps(state, indent=1))
        fresh.rename(self.folder / "state.json")


def _etcd(folder: Path, store: str, peers: str) -> list[str]:
    options = {"data-dir": folder / "etcd", "listen-client-urls": store, "advertise-client-urls": store}
    options |= {"listen-peer-urls": peers, "initial-advertise-peer-urls": peers, "initial-cluster": f"default={peers}"}
    return ["etcd", *_flags(options), "--unsafe-no-fsync"]


def _apiserver(pki: Path, address: str, store: str) -> list[str]:
    options = {
        "etcd-servers": store,
        "bind-address": address,
        "advertise-address": address,
        "secure-port": 6443,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "kubelet-client-certificate": pki / "admin.crt",
        "kubelet-client-key": pki / "admin.key",
        "kubelet-certificate-authority": pki / "ca.crt",
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-key-file": pki / "tokens.pub",
        "service-account-signing-key-file": pki / "tokens.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-cluster-ip-range": SERVICES,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
    }
    return ["kube-apiserver", *_flags(options)]


def _controllers(pki: Path, address: str) -> list[str]:
    options = {"root-ca-file": pki / "ca.crt", "service-account-private-key-file": pki / "tokens.key"}
    options |= {"node-monitor-grace-period": f"{GRACE_S}s", "node-monitor-period": "2s"}
    options |= {"use-service-account-credentials": "true", "secure-port": 10257}
    return ["kube-controller-manager", *_flags(options | _for_a_part(pki / "controllers.conf", address))]


def _scheduler(pki: Path, address: str) -> list[str]:
    options = {"secure-port": 10259} | _for_a_part(pki / "scheduler.conf", address)
    return ["kube-scheduler", *_flags(options)]


def _for_a_part(kubeconfig: Path, address: str) -> dict:
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    return dict.fromkeys(names, kubeconfig) | {"bind-address": address, "leader-elect": "false"}


def _flags(options: dict) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-600:] if log.exists() else ""
