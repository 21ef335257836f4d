"""Where pods come from: `PodSource` is the seam, `BarePods` makes each by itself.

A source knows nothing of Runs: it makes a pod from a template, finds it again, and takes it away.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from ..base import DriverError
from .cluster import Cluster

INSTALLATION, RUN, WORKSPACE = (f"handrail.dev/{name}" for name in ("installation", "run", "workspace"))
LOOK_S = 0.1


@dataclass(frozen=True)
class Wanted:
    """A pod to make: its name, its labels, its spec as the API server takes it, and the Secret that it mounts."""

    name: str
    labels: Mapping[str, str]
    spec: Mapping
    secret: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodSource(Protocol):
    """Makes pods, finds them and takes them away. Errors are those of `Cluster`; what is there already is no error."""

    warm: ClassVar[bool]  # it can have pods wait, as `AgentSandboxes` can

    def create(self, wanted: Wanted):
        """Ask for the pod and return it (lightkube's Pod) as soon as it has a UID; it need not be scheduled yet."""

    def find(self, name: str):
        """Return the pod that `create` made under this name, as it is now; None if there is none."""

    def left(self, name: str):
        """Return a pod of this name that still ends while what `create` made is gone; None if there is none."""

    def delete(self, name: str, *, grace_s: int) -> None:
        """Take the pod away, and what was made for it; its processes have `grace_s` seconds. Does not wait."""

    def wait_until_gone(self, name: str, *, within_s: float) -> None:
        """Return once nothing has this name any more; DriverError if that takes longer."""

    def listed(self, installation: str) -> list:
        """Return every pod of this installation, alive or not."""

    def name_of(self, pod) -> str:
        """Return the name under which `create` was asked for this pod."""


class BarePods:
    """One pod for each call, without any other object: works on every cluster, and needs no CRD."""

    warm: ClassVar[bool] = False

    def __init__(self, cluster: Cluster):
        self.cluster = cluster

    def create(self, wanted: Wanted):
        from lightkube.resources.core_v1 import Pod

        metadata = {"name": wanted.name, "labels": dict(wanted.labels), "annotations": dict(wanted.annotations)}
        return self.cluster.create(Pod.from_dict({"metadata": metadata, "spec": dict(wanted.spec)}))

    def find(self, name: str):
        from lightkube.resources.core_v1 import Pod

        return self.cluster.get(Pod, name)

    def left(self, name: str) -> None:
        return None

    def delete(self, name: str, *, grace_s: int) -> None:
        from lightkube.resources.core_v1 import Pod

        self.cluster.delete(Pod, name, grace_s=grace_s)

    def wait_until_gone(self, name: str, *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while self.find(name) is not None:
            if time.monotonic() > deadline:
                raise DriverError(f"The pod {name} is not gone after {within_s:.0f} s.")
            time.sleep(LOOK_S)

    def listed(self, installation: str) -> list:
        from lightkube.resources.core_v1 import Pod

        return self.cluster.listed(Pod, labels={INSTALLATION: installation})

    def name_of(self, pod) -> str:
        return pod.metadata.name
