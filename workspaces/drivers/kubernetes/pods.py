"""The pods of Runs in a cluster: their names, how one is made, and why one does not start."""

import hashlib
import time
from collections.abc import Mapping
from copy import copy

from ..base import DriverError, RunSpec
from . import states, template
from .agent_sandbox import AgentSandboxes
from .cluster import Cluster
from .pod_source import INSTALLATION, RUN, WORKSPACE, BarePods, PodSource, Wanted
from .probing import Prober

SCHEDULE_S = 60.0  # how long a pod may wait for a node or for anything that may still come
POLL_S = 0.1
LIVES_S = 24 * 3600.0  # which a pod of agent-sandbox has, and which the host that leads it moves ahead
GONE_S = 30.0  # in which a pod that was deleted at once is gone
LONGEST_NAME = 45  # of a Run in the name of its pod
LOOKS_AT_NODE_S = 5.0  # after which a pod that is not up has its node looked at


class NodeAway(DriverError):
    """The pod was given to a node that does not answer: another node may have room for it."""


class Pods:
    """The pods of one installation in a cluster. `image` is that of a Run that names none."""

    def __init__(self, cluster: Cluster, source: PodSource, prober: Prober, *, installation: str, image: str):
        self.cluster, self.source, self.prober = cluster, source, prober
        self.installation, self.image = installation, image
        self.patience_s = SCHEDULE_S

    def within(self, namespace: str, installation: str | None = None) -> "Pods":
        """Return the pods in another namespace of the cluster; `installation`: of another host, which named them."""
        found = copy(self)
        found.installation = installation or self.installation
        if namespace != self.cluster.namespace:
            found.source = copy(self.source)
            found.cluster = found.source.cluster = self.cluster.within(namespace)
        return found

    def find(self, run_id: str):
        """Return the pod of a Run as it is now, also while it ends; None if there is none."""
        return self.source.find(self.name_of(run_id)) or self.source.left(self.name_of(run_id))

    def listed(self) -> list:
        """Return every pod of this installation in this namespace; BackendLost if the cluster does not answer."""
        return self.source.listed(self.installation)

    def delete(self, run_id: str, *, grace_s: int = 1) -> None:
        """Take the pod of a Run away, if it is there."""
        self.source.delete(self.name_of(run_id), grace_s=grace_s)

    def forget(self, run_id: str) -> None:
        """Take away the pod of a Run and what was made for it."""
        from lightkube.resources.core_v1 import Secret

        self.delete(run_id)
        self.cluster.delete(Secret, self.name_of(run_id))

    def take_away(self, run_id: str, *, grace_s: int = 1) -> None:
        """Take away the pod of a Run that did not start, and wait until its name can be used again."""
        self.delete(run_id, grace_s=grace_s)
        self.source.wait_until_gone(self.name_of(run_id), within_s=GONE_S)

    def await_end(self, pods: list) -> None:
        """Wait until these pods are gone, which somebody has deleted; no longer than GONE_S."""
        from lightkube.resources.core_v1 import Pod

        deadline = time.monotonic() + GONE_S
        while time.monotonic() < deadline and any(self.cluster.get(Pod, each.metadata.name) for each in pods):
            time.sleep(POLL_S)

    def claim(self, spec: RunSpec, pool: str):
        """Take a pod of a pool for the Run, and return it once it has an address; DriverError in words if not."""
        return self._await_address(spec, self.source.claim(self.name_of(spec.run_id), pool, self._labels(spec)))

    def how_made(self, spec: RunSpec, uid: int) -> dict:
        """Return what `template.pod_spec` is told of a Run's pod beside its Secret and its volume."""
        return {
            "uid": uid,
            "image": spec.image or self.image,
            "programs": self.cluster.keep_programs(),
            "host_users": self.prober.facts(spec.runtime_class).get("host_users"),
        }

    def make(self, spec: RunSpec, uid: int, given: Mapping[str, str], volume: str):
        """Make the Run's Secret and pod, and return the pod once it has an address; DriverError in words if not.

        `given`: the content of the Secret (`template.given`). `volume`: the claim for its files, "" for none.
        """
        from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
        from lightkube.resources.core_v1 import Secret

        name, labels = self.name_of(spec.run_id), self._labels(spec)
        metadata = ObjectMeta(name=name, labels=labels)
        self.cluster.delete(Secret, name)  # left by an interrupted start
        self.cluster.create(Secret(metadata=metadata, stringData=given, immutable=True))
        description = template.pod_spec(spec, secret=name, volume=volume, **self.how_made(spec, uid))
        pod = self.source.create(Wanted(name, labels, description, secret=name))
        owner = OwnerReference(apiVersion="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
        with self.cluster.asked() as client:
            patch = {"metadata": {"ownerReferences": [owner.to_dict()]}}
            client.patch(Secret, name, patch, namespace=self.cluster.namespace)
        return self._await_address(spec, pod)

    def _await_address(self, spec: RunSpec, pod):
        """Wait until the pod has an address; give up as soon as it is known that it gets none."""
        patience = self.patience_s
        began = time.monotonic()
        looked = began
        while True:
            if pod is None or pod.metadata.deletionTimestamp is not None:
                raise DriverError("The pod was deleted by somebody else before it was up.")
            if pod.status is not None and pod.status.podIP and not states.is_over(pod):
                return pod
            waited = time.monotonic() - began
            if time.monotonic() - looked > 1.0 or states.is_over(pod):
                looked = time.monotonic()
                self.refuse_hopeless(pod, waited, patience)
                if waited > LOOKS_AT_NODE_S:
                    self._refuse_silent_node(pod)
            time.sleep(POLL_S if waited < 3 else 5 * POLL_S)
            pod = self.source.find(self.name_of(spec.run_id))

    def _refuse_silent_node(self, pod) -> None:
        """Raise NodeAway if the cluster says that the pod's node does not answer."""
        if (name := pod.spec.nodeName) and self.cluster.is_silent(name):
            raise NodeAway(f"The pod could not be started: its node {name} does not answer.")

    def refuse_hopeless(self, pod, waited: float, patience: float) -> None:
        found = states.trouble(pod, self.cluster.warnings(pod) if waited > 2 else [])
        limit = patience if found is None or found.patience_s is None else min(found.patience_s, patience)
        if (found is not None and waited >= limit) or waited >= patience:
            words = found.words if found is not None else "the cluster does not say why"
            raise DriverError(f"The pod could not be started within {waited:.0f} s: {words}.")

    def name_of(self, run_id: str) -> str:
        """Return the pod's name: that of the Run, as far as a name of the cluster can have it."""
        return f"hr-{self.installation[:8]}-{fitting(run_id)}"

    def _labels(self, spec: RunSpec) -> dict[str, str]:
        return {INSTALLATION: self.installation, RUN: fitting(spec.run_id), WORKSPACE: fitting(spec.workspace_id)}


def make_source(name: str, cluster: Cluster) -> PodSource:
    """Return the source of pods of this name: HANDRAIL_KUBERNETES_SOURCE."""
    if name == "pods":
        return BarePods(cluster)
    if name == "agent-sandbox":
        return AgentSandboxes(cluster, lives_s=LIVES_S)
    raise DriverError(f"There is no source of pods named {name!r}.")


def fitting(name: str) -> str:
    """Return the name in the letters that names and labels of a cluster have, still one for each name."""
    plain = name.lower().replace("_", "-").replace(".", "-").strip("-")
    if plain == name and len(name) <= LONGEST_NAME:
        return name
    return f"{plain[:36].strip('-')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
