"""Claims of volumes on which the files of a workspace are while it is up, and which outlive its pods (`storage: pvc`).

Each host makes its own, so that a pod that a lost host has left and the one that came after it never share a volume.
"""

import hashlib
from pathlib import Path

from ..base import RunSpec
from . import template
from .cluster import Cluster
from .pod_source import WORKSPACE

HOST = "handrail.dev/host"


def host_of(home: Path) -> str:
    """Return what stands for a host on its claims, from the id of its HANDRAIL_HOME: hosts may share the path."""
    try:
        name = (home / "installation").read_text().strip()
    except FileNotFoundError:
        name = str(home)  # a driver without an installation
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def keep(cluster: Cluster, host: str, spec: RunSpec) -> str:
    """Return the name of the workspace's claim of this host (`host_of`); made if it is not there."""
    from lightkube.models.core_v1 import PersistentVolumeClaimSpec, VolumeResourceRequirements
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import PersistentVolumeClaim

    name = f"hr-{host[:8]}-{spec.workspace_id}"[:63]
    size = VolumeResourceRequirements(requests={"storage": str(spec.limits.disk or template.DEFAULT_DISK)})
    wanted = PersistentVolumeClaimSpec(accessModes=["ReadWriteOnce"], resources=size)
    labels = {HOST: host, WORKSPACE: spec.workspace_id}
    cluster.create(PersistentVolumeClaim(metadata=ObjectMeta(name=name, labels=labels), spec=wanted))
    return name


def delete(cluster: Cluster, workspace_id: str, host: str = "") -> None:
    """Delete the claims of a workspace in this namespace; `host`: only those of this host."""
    from lightkube.resources.core_v1 import PersistentVolumeClaim

    labels = {WORKSPACE: workspace_id} | ({HOST: host} if host else {})
    for claim in cluster.listed(PersistentVolumeClaim, labels=labels):
        cluster.delete(PersistentVolumeClaim, claim.metadata.name)
