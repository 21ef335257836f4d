"""The installation's keys in a Secret of its own namespace, where a chart starts its parts."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from ..base import DriverError
from .cluster import Cluster, kubeconfig_is_there

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def read(name: str, *, namespace: str = "") -> dict[str, bytes] | None:
    """Return the files in the Secret, None if there is none; of the pod's own namespace, unless one is given."""
    from lightkube.resources.core_v1 import Secret  # of the extra [kubernetes]

    found = _cluster(namespace).get(Secret, name)
    return None if found is None else {key: b64decode(value) for key, value in (found.data or {}).items()}


def make(name: str, keys: Mapping[str, bytes], *, namespace: str = "") -> None:
    """Make the Secret; DriverError if somebody else has made it meanwhile."""
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import Secret

    data = {key: b64encode(value).decode() for key, value in keys.items()}
    made = _cluster(namespace).create(Secret(metadata=ObjectMeta(name=name), data=data))
    if made.data != data:
        raise DriverError(f"Somebody else has made the Secret {name} meanwhile. Run this again: it takes those keys.")


def _cluster(namespace: str) -> Cluster:
    if not kubeconfig_is_there():
        raise DriverError("There is no cluster here: no KUBECONFIG, and no account of a pod.")
    own = OWN_NAMESPACE.read_text().strip() if OWN_NAMESPACE.exists() else "default"
    return Cluster(namespace or own)
