"""Pods by way of kubernetes-sigs/agent-sandbox: its `Sandbox`, `SandboxClaim` and `SandboxWarmPool` (v1beta1).

What the controller says of a Sandbox is not what its pod is: *Ready* stays true while the pod is being deleted,
*Finished* appears in the middle of a suspend, and a Sandbox whose time was over gets a new pod with empty files when
that time is moved ahead. So the pod decides everything here: its uid, its phase, and whether it is being deleted.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import ClassVar

from ..base import BackendLost, DriverError
from .cluster import Cluster, Exists, Missing, QuotaUsedUp
from .pod_source import INSTALLATION, Wanted

CORE, EXTENSIONS, VERSION = "agents.x-k8s.io", "extensions.agents.x-k8s.io", "v1beta1"
KINDS = {
    "Sandbox": (CORE, "sandboxes"),
    "SandboxClaim": (EXTENSIONS, "sandboxclaims"),
    "SandboxTemplate": (EXTENSIONS, "sandboxtemplates"),
    "SandboxWarmPool": (EXTENSIONS, "sandboxwarmpools"),
}
NAME = "handrail.dev/name"  # label of a pod: the name under which it was asked for
POD_NAME = f"{CORE}/pod-name"  # annotation of a Sandbox whose pod has another name
LONGEST_NAME = 63  # the API takes longer ones, and the controller then never makes a pod
# Reasons of a claim's condition Ready with which it never gets a pod.
NEVER = {
    "InvalidMetadata": "its labels are refused",
    "EnvVarsInjectionRejected": "its pool takes no environment",
    "VolumeClaimTemplatesError": "its volumes are refused",
    "InvalidConfiguration": "its configuration is refused",
    "ClaimExpired": "its time is over",
    "SandboxExpired": "its time is over",
    "PodFailed": "its pod has failed",
    "PodSucceeded": "its pod has ended",
    "WarmPoolNotFound": "its pool is not there",
}
LOOK_S, GETS_A_POD_S = 0.05, 30.0


class Gone(DriverError):
    """The pod of a Sandbox is gone or going, and with it what was in its files."""


class AgentSandboxes:
    """A source of pods (`PodSource`). A pod's name here is that of its Sandbox, or of the claim that got it.

    `lives_s`: seconds after which a pod goes unless `keep` is called before; a dead man's switch.
    """

    warm: ClassVar[bool] = True

    def __init__(self, cluster: Cluster, *, lives_s: float | None = None):
        self.cluster, self.lives_s = cluster, lives_s

    def create(self, wanted: Wanted):
        """Create a Sandbox and return its pod as soon as it has a UID."""
        if len(wanted.name) > LONGEST_NAME:
            raise DriverError(f"The name {wanted.name} is too long for a Sandbox: {LONGEST_NAME} characters at most.")
        spec = {"podTemplate": _template(wanted), "operatingMode": "Running", "shutdownPolicy": "Delete"}
        self._create("Sandbox", wanted.name, spec | self._ends())
        return self._pod_of(wanted.name)

    def claim(self, name: str, pool: str, labels: Mapping[str, str] = {}):
        """Take a pod of a warm pool under this name and return it; a cold one if none waits.

        Its labels are put on the pod, since a claim refuses those of other domains than its controller lists; with
        variables or volumes it would be cold.
        """
        from lightkube.resources.core_v1 import Pod

        spec = {"warmPoolRef": {"name": pool}, "lifecycle": {"shutdownPolicy": "Delete"} | self._ends()}
        self._create("SandboxClaim", name, spec)
        got = self._pod_of(name)
        patch = {"metadata": {"uid": got.metadata.uid, "labels": {**labels, NAME: name}}}
        with self.cluster.asked() as client:
            return client.patch(Pod, got.metadata.name, patch, namespace=self.cluster.namespace)

    def find(self, name: str):
        """Return the pod as it is now; DriverError if a claim can never get one."""
        from lightkube.resources.core_v1 import Pod

        sandbox = self._sandbox(name)
        if sandbox is None:
            return None
        metadata = sandbox["metadata"]
        found = self.cluster.get(Pod, (metadata.get("annotations") or {}).get(POD_NAME) or metadata["name"])
        mine = found is not None and any(owner.uid == metadata["uid"] for owner in found.metadata.ownerReferences or ())
        return found if mine else None

    def left(self, name: str):
        """Return the pod of a Sandbox that is gone, as after its end: it has its grace. None if there is none."""
        from lightkube.resources.core_v1 import Pod

        return next(iter(self.cluster.listed(Pod, labels={NAME: name})), None)

    def delete(self, name: str, *, grace_s: int) -> None:
        """Delete the Sandbox, or the claim with its Sandbox; and the pod, so that the grace is this one."""
        from lightkube.resources.core_v1 import Pod

        try:
            found = self.find(name) or self.left(name)
        except BackendLost:
            raise
        except DriverError:
            found = None  # a claim that can never get a pod
        for kind in ("SandboxClaim", "Sandbox"):
            self.cluster.delete(_kind(kind), name)
        if found is not None:
            self.cluster.delete(Pod, found.metadata.name, grace_s=grace_s)

    def listed(self, installation: str) -> list:
        from lightkube.resources.core_v1 import Pod

        return self.cluster.listed(Pod, labels={INSTALLATION: installation})

    def name_of(self, pod) -> str:
        return pod.metadata.labels.get(NAME, pod.metadata.name)

    def keep(self, name: str, *, uid: str) -> None:
        """Let the pod of this uid live `lives_s` from now on; raise Gone if it is gone or going.

        One whose time was over is left so: it would come back as a new pod with empty files.
        """
        while self.lives_s is not None:
            kind = "Sandbox" if self._get("Sandbox", name) else "SandboxClaim"
            held, found = self._get(kind, name), self.find(name)
            if held is None or found is None or found.metadata.uid != uid or _is_going(found):
                raise Gone(f"The pod of {name} is gone: its time was over, or somebody has deleted it.")
            # The version: an expiry that the controller notes in between is a conflict, and is seen at the next look.
            version = {"metadata": {"resourceVersion": held["metadata"]["resourceVersion"]}}
            ends = self._ends() if kind == "Sandbox" else {"lifecycle": self._ends()}
            try:
                self._patch(kind, name, version | {"spec": ends})
                return
            except Exists:
                continue  # the controller writes its status often

    def suspend(self, name: str, *, within_s: float = 180.0) -> bool:
        """End the pod but keep its Sandbox, and return once it has gone; False for a pod that was claimed.

        The condition Finished, which says for a moment that the work has failed, is not looked at.
        """
        if self._patch("Sandbox", name, {"spec": {"operatingMode": "Suspended"}}) is None:
            return False
        self._until(lambda: self.find(name) is None and self._holds(name, "Suspended"), within_s, f"{name} is not down")
        return True

    def resume(self, name: str, *, within_s: float = 180.0):
        """Give a suspended Sandbox a new pod, with empty files, and return it.

        One that still ends is waited for: told to run before that, it would be *Ready* with the pod that goes.
        """
        self._until(lambda: not _is_going(self.find(name)), within_s, f"{name} is not down")
        if self._patch("Sandbox", name, {"spec": {"operatingMode": "Running"} | self._ends()}) is None:
            raise Missing(f"There is no Sandbox {name} to resume.")
        return self._pod_of(name)

    def ended(self, name: str, *, uid: str) -> str:
        """Return "Succeeded" or "Failed" if the pod of this uid has ended by itself, else "".

        A pod that is suspended or deleted fails because its programs are told to end.
        """
        sandbox, found = self._sandbox(name), self.find(name)
        if found is None or found.metadata.uid != uid or _is_going(found):
            return ""
        if sandbox is None or sandbox["spec"].get("operatingMode") == "Suspended":
            return ""
        return found.status.phase if found.status.phase in ("Succeeded", "Failed") else ""

    def want_pool(self, pool: str, wanted: Wanted, replicas: int, *, owner: Mapping | None = None) -> None:
        """Keep so many pods waiting for a claim; a changed one takes the place of those that wait as they are taken.

        `owner`: the object with which it goes, as `anchor` returns it.
        """
        about = {"labels": dict(wanted.labels), "ownerReferences": [owner] if owner else []}
        # Its own policy would let every pod reach the internet.
        template = {"podTemplate": _template(wanted, named=False), "networkPolicyManagement": "Unmanaged"}
        self._put("SandboxTemplate", pool, template, about)
        self._put("SandboxWarmPool", pool, {"replicas": replicas, "sandboxTemplateRef": {"name": pool}}, about)

    def anchor(self, pool: str, lives_s: float, labels: Mapping[str, str]) -> dict:
        """Make what a pool hangs on, and return it as an owner: a Sandbox without a pod, which goes after `lives_s`.

        With it goes all that it owns, whoever made it is gone for good or not. `keep_pool` moves its end ahead.
        """
        none = {"spec": {"containers": [{"name": "none", "image": "none"}]}}
        spec = {"podTemplate": none, "operatingMode": "Suspended", "shutdownPolicy": "Delete"} | _ends_in(lives_s)
        made = self._create("Sandbox", pool, spec, {"labels": dict(labels)})
        kind = {"apiVersion": f"{CORE}/{VERSION}", "kind": "Sandbox"}
        return kind | {"name": pool, "uid": made["metadata"]["uid"]}

    def keep_pool(self, pool: str, replicas: int, lives_s: float) -> bool:
        """Let a pool that hangs on an `anchor` live `lives_s` from now on; False if it is not there any more."""
        is_there = self._patch("Sandbox", pool, {"spec": _ends_in(lives_s)}) is not None
        return is_there and self._patch("SandboxWarmPool", pool, {"spec": {"replicas": replicas}}) is not None

    def drop_pool(self, pool: str) -> None:
        """Delete a pool and what it hangs on; what that owned goes too."""
        for kind in ("SandboxWarmPool", "SandboxTemplate", "Sandbox"):
            self.cluster.delete(_kind(kind), pool)

    def pools(self, labels: Mapping[str, str]) -> list[str]:
        """Return the names of the pools with these labels."""
        found = self.cluster.listed(_kind("SandboxWarmPool"), labels=labels)
        return [each["metadata"]["name"] for each in found]

    def waiting(self, pool: str) -> tuple[int, list]:
        """Return how many pods of a pool can be claimed at once, and the pods that wait, which alone say why not."""
        from lightkube.resources.core_v1 import Pod

        status = (self._get("SandboxWarmPool", pool) or {}).get("status") or {}
        if not status.get("selector"):
            return 0, []
        labels = dict(part.partition("=")[::2] for part in status["selector"].split(","))
        return status.get("readyReplicas", 0), self.cluster.listed(Pod, labels=labels)

    def wait_until_gone(self, name: str, *, within_s: float) -> None:
        """Return once nothing has this name any more; DriverError if that takes longer."""
        kinds = ("SandboxClaim", "Sandbox")
        self._until(lambda: not any(self._get(kind, name) for kind in kinds), within_s, f"{name} is not gone")

    def _ends(self) -> dict:
        return {} if self.lives_s is None else _ends_in(self.lives_s)

    def _sandbox(self, name: str) -> Mapping | None:
        """Return the Sandbox of this name, or that of the claim of this name."""
        if own := self._get("Sandbox", name):
            return own
        claim = self._get("SandboxClaim", name)
        if claim is None:
            return None
        got = (claim.get("status") or {}).get("sandbox", {}).get("name")
        ready = _condition(claim, "Ready")
        if not got and ready.get("reason") in NEVER:
            raise DriverError(f"The claim {name} gets no pod: {NEVER[ready['reason']]} ({ready.get('message', '')}).")
        return self._get("Sandbox", got) if got else None

    def _pod_of(self, name: str):
        def got():
            found = self.find(name)
            if found is None:
                self._refuse_without_room(name)
            return found

        return self._until(got, GETS_A_POD_S, f"{name} got no pod: does its controller run?")

    def _refuse_without_room(self, name: str) -> None:
        """Raise QuotaUsedUp if the controller, which tries again and again, may not make the pod for want of quota."""
        said = _condition(self._sandbox(name) or {}, "Ready").get("message", "")
        if "exceeded quota" in said:
            raise QuotaUsedUp(f"The quota of the namespace is used up: {said}.")

    def _until(self, holds: Callable, within_s: float, otherwise: str):
        deadline = time.monotonic() + within_s
        while not (found := holds()):
            if time.monotonic() > deadline:
                raise DriverError(f"After {within_s:.0f} s {otherwise}.")
            time.sleep(LOOK_S)
        return found

    def _holds(self, name: str, condition: str) -> bool:
        return _condition(self._get("Sandbox", name) or {}, condition).get("status") == "True"

    def _get(self, kind: str, name: str) -> Mapping | None:
        return self.cluster.get(_kind(kind), name)

    def _create(self, kind: str, name: str, spec: Mapping, about: Mapping = {}) -> Mapping:
        return self.cluster.create(_kind(kind)(metadata={"name": name, **about}, spec=spec))

    def _put(self, kind: str, name: str, spec: Mapping, about: Mapping) -> None:
        if self._patch(kind, name, {"spec": spec}) is None:
            self._create(kind, name, spec, about)

    def _patch(self, kind: str, name: str, patch: Mapping) -> Mapping | None:
        from lightkube.types import PatchType

        try:
            with self.cluster.asked() as client:
                return client.patch(
                    _kind(kind), name, patch, namespace=self.cluster.namespace, patch_type=PatchType.MERGE
                )
        except Missing:
            return None


@cache
def _kind(name: str):
    from lightkube.generic_resource import create_namespaced_resource  # of the extra [kubernetes]

    group, plural = KINDS[name]
    return create_namespaced_resource(group, VERSION, name, plural)


def _ends_in(seconds: float) -> dict:
    at = datetime.fromtimestamp(time.time() + seconds, UTC)
    return {"shutdownTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _template(wanted: Wanted, *, named: bool = True) -> dict:
    """Return a podTemplate. The controller puts its labels on the pod again and again, so a pool's have no name."""
    labels = {**wanted.labels, NAME: wanted.name} if named else dict(wanted.labels)
    return {"metadata": {"labels": labels, "annotations": dict(wanted.annotations)}, "spec": dict(wanted.spec)}


def _condition(found: Mapping, kind: str) -> Mapping:
    conditions = (found.get("status") or {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def _is_going(pod) -> bool:
    return pod is not None and pod.metadata.deletionTimestamp is not None
