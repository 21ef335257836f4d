"""What a cluster can do: asked of it, and tried by canaries, which are pods like those of workspaces.

A canary is started for the cluster's default runtime and for each RuntimeClass. It says which kernel it sees, what
holds programs there, and whom it reaches. What was found is kept in HOME/kubernetes/canaries.json.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from ..base import BackendLost, DriverError, Probe
from . import states, template
from .cluster import Cluster, kubeconfig_is_there
from .pod_source import BarePods, Wanted

COUNTS_S = 24 * 3600.0  # how long what canaries found counts, and after what did not work
AGAIN_S = 120.0
CANARY_S = 45.0
LEFT_S = 600.0  # after which nobody waits for a canary any more
LISTENER_PORT = 7444
NOT_HELD = "The cluster's network plug-in does not hold NetworkPolicies: a pod of the namespace reached {}."
HOLD_IT = "Use a network plug-in that enforces them, such as Calico, Cilium or kube-router."
INSTALL = "Install Handrail with its extra: `handrail[kubernetes]`."
ALL_LIMITS = frozenset({"memory", "cpus", "disk"})


class Prober:
    """Asks a cluster what it can do, and remembers what its canaries found."""

    def __init__(self, cluster: Cluster, home: Path, image: str):
        self.cluster, self.home, self.image = cluster, home, image
        self.pods = BarePods(cluster)
        # (hostUsers, suffix of the name): a user namespace of its own first, then the users of its node.
        self.attempts = ((False, ""), (None, "-host"))

    # What others ask

    def probe(self) -> Probe:
        if not kubeconfig_is_there():
            what = "Name a kubeconfig in KUBECONFIG, or run Handrail in the cluster."
            return Probe(False, "There is no way to a cluster: no kubeconfig, and no account of a pod.", what)
        try:
            version = self._version()
            found = self._found(version)
        except BackendLost as error:
            return Probe(False, str(error), "Check the cluster, and the context in HANDRAIL_KUBERNETES.")
        except DriverError as error:
            is_missing = "[kubernetes]" in str(error)
            what = INSTALL if is_missing else f"Check the namespace {self.cluster.namespace} and the account's rights."
            return Probe(False, str(error), what)
        return self._judged(version, found)

    def facts(self, runtime_class: str) -> Mapping:
        """Return what the canary of a runtime class found: {isolation, envelope, limits, host_users}."""
        return self._kept().get("classes", {}).get(runtime_class) or {}

    # Canaries

    def _version(self) -> str:
        from lightkube.resources.core_v1 import Namespace

        with self.cluster.asked() as client:
            client.get(Namespace, self.cluster.namespace)
            return client._client._client.get("/version").json()["gitVersion"]

    def _found(self, version: str) -> dict:
        classes = self._classes()
        about = {"version": version, "namespace": self.cluster.namespace, "context": self.cluster.context}
        about |= {"classes": classes, "image": self.image, "programs": self.cluster.keep_programs()}
        kept = self._kept()
        worked = kept and all("why" not in facts for facts in kept["classes"].values()) and not kept["reached"]
        if kept and kept["about"] == about and time.time() - kept["at"] < (COUNTS_S if worked else AGAIN_S):
            return kept
        found = self._try(classes) | {"about": about, "at": time.time()}
        self.home.mkdir(mode=0o700, exist_ok=True)
        replace_file(self.home / "canaries.json", json.dumps(found).encode())
        return found

    def _kept(self) -> dict:
        try:
            return json.loads((self.home / "canaries.json").read_text())
        except (OSError, ValueError):
            return {}

    def _classes(self) -> list[str]:
        """Return the names of the RuntimeClasses; none where the account may not list them."""
        from lightkube.resources.node_v1 import RuntimeClass

        try:
            with self.cluster.asked() as client:
                return sorted(each.metadata.name for each in client.list(RuntimeClass))
        except BackendLost:
            raise
        except DriverError:
            return []

    def _try(self, classes: list[str]) -> dict:
        """Start a pod that must not be reached, and a canary for each runtime; return {classes, reached}."""
        self._keep_policy()
        self._remove_left()
        programs = self.cluster.keep_programs()
        mark = f"{time.time_ns():x}"[-8:]
        names = {each: f"hr-canary-{mark}-{number}" for number, each in enumerate(["", *classes])}
        target = f"hr-canary-{mark}-target"
        try:
            self._start(target, programs, ["listen", str(LISTENER_PORT)], "", None)
            address = self._wait(target, lambda pod: pod.status.podIP if pod.status.phase == "Running" else None)
            where = f"{address}:{LISTENER_PORT}"
            with ThreadPoolExecutor(len(names)) as pool:  # at once: each waits for its node for seconds
                sung = pool.map(lambda each: self._sing(names[each], programs, each, where), names)
                found = dict(zip(names, sung, strict=True))
        finally:
            for name in (target, *names.values(), *(f"{name}-host" for name in names.values())):
                with contextlib.suppress(DriverError):
                    self.pods.delete(name, grace_s=0)
        reached = sorted({each for facts in found.values() for each in facts.get("reached", ())})
        return {"classes": found, "reached": [self._named(each, address) for each in reached]}

    def _remove_left(self) -> None:
        """Remove the canaries of a runner that was killed; those that others send now are younger."""
        from lightkube.resources.core_v1 import Pod

        oldest = datetime.now(UTC) - timedelta(seconds=LEFT_S)
        for pod in self.cluster.listed(Pod, labels={template.POLICY_LABEL: "canary"}):
            if pod.metadata.creationTimestamp < oldest:
                self.cluster.delete(Pod, pod.metadata.name, grace_s=0)

    def _named(self, reached: str, target: str) -> str:
        return "another pod" if reached.startswith(f"{target}:") else reached

    def _sing(self, name: str, programs: str, runtime_class: str, target: str) -> dict:
        """Return what the canary of a runtime found; {why} if it did not get so far."""
        why = ""
        for host_users, suffix in self.attempts:
            try:
                self._start(name + suffix, programs, ["canary", target], runtime_class, host_users)
                pod = self._wait(name + suffix, lambda pod: pod if states.is_over(pod) else None)
                said = json.loads(pod.status.containerStatuses[0].state.terminated.message)
                return self._read(said, pod, host_users)
            except BackendLost:
                raise
            except (DriverError, ValueError, TypeError) as error:
                why = str(error)
        return {"why": why}

    def _read(self, said: dict, pod, host_users: bool | None) -> dict:
        limits = ALL_LIMITS | ({"pids"} if said["pids"] else set())
        return {
            "isolation": self._isolation(said, pod),
            "envelope": said["abilities"],
            "limits": sorted(limits),
            "host_users": host_users,
            "reached": said["reached"],
        }

    def _isolation(self, said: dict, pod) -> str:
        """Return the level: gVisor says so itself, and a kernel that is not the node's is a microVM's."""
        from lightkube.resources.core_v1 import Node

        if said["gvisor"]:
            return "pod-gvisor"
        try:
            with self.cluster.asked() as client:
                node = client.get(Node, pod.spec.nodeName)
        except BackendLost:
            raise
        except DriverError:
            return "pod-runc"  # the weaker one, where the account may not look at nodes
        return "pod-runc" if said["kernel"] == node.status.nodeInfo.kernelVersion else "pod-kata"

    def _start(self, name: str, programs: str, words: list[str], runtime_class: str, host_users: bool | None) -> None:
        spec = template.canary_spec(self.image, programs, words, runtime_class=runtime_class, host_users=host_users)
        self.pods.create(Wanted(name, {template.POLICY_LABEL: "canary"}, spec))

    def _wait(self, name: str, ready):
        began = time.monotonic()
        while True:
            pod = self.pods.find(name)
            waited = time.monotonic() - began
            if pod is not None and pod.status is not None and (found := ready(pod)):
                return found
            trouble = states.trouble(pod, self.cluster.warnings(pod) if waited > 2 else []) if pod is not None else None
            if trouble is not None and trouble.patience_s is not None and waited >= min(trouble.patience_s, CANARY_S):
                raise DriverError(f"A canary could not be started: {trouble.words}.")
            if waited > CANARY_S:
                words = trouble.words if trouble is not None else "the cluster does not say why"
                raise DriverError(f"A canary was not up within {waited:.0f} s: {words}.")
            time.sleep(0.3)

    def _keep_policy(self) -> None:
        """Make sure that the namespace has the policy: pods reach nobody, and only their keepers' port is reached."""
        from lightkube.resources.networking_v1 import NetworkPolicy

        if self.cluster.get(NetworkPolicy, template.POLICY_NAME) is None:
            made = {"metadata": {"name": template.POLICY_NAME}, "spec": template.POLICY}
            with contextlib.suppress(Exception):
                self.cluster.create(NetworkPolicy.from_dict(made))

    # The verdict

    def _judged(self, version: str, found: dict) -> Probe:
        usual = found["classes"][""]
        if "why" in usual:
            return Probe(False, usual["why"], "Correct what it names; Handrail tries again in two minutes.")
        if found["reached"]:
            return Probe(False, NOT_HELD.format(", ".join(found["reached"])), HOLD_IT)
        notes = [f"Kubernetes {version}", *self._notes(found["classes"])]
        able = {name: facts for name, facts in found["classes"].items() if name and "why" not in facts}
        return Probe(
            True,
            notes=tuple(notes),
            limits=frozenset(usual["limits"]),
            isolation=usual["isolation"],
            envelope=usual["envelope"],
            classes=able,
        )

    def _notes(self, classes: Mapping) -> list[str]:
        notes = []
        for name, facts in classes.items():
            title = f"Runtime class {name}" if name else "The default runtime"
            if "why" in facts:
                notes.append(f"{title} cannot be used: {facts['why']}")
                continue
            lacks = [] if facts["host_users"] is False else ["no user namespaces"]
            lacks += [] if "pids" in facts["limits"] else ["no limit on processes"]
            notes.append(f"{title}: {facts['isolation']}{', ' if lacks else ''}{', '.join(lacks)}.")
        return notes
