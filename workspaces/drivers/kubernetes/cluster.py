"""The cluster as this driver speaks with it: a few verbs of the API server, and its errors as sentences."""

import hashlib
import io
import logging
import os
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from ..base import BackendLost, DriverError
from ..program_archive import init_modules

HERE = Path(__file__).parent
PROGRAMS = {
    "__main__.py": HERE / "pod" / "__main__.py",
    "bring.py": HERE / "pod" / "bring.py",
    "canary.py": HERE / "pod" / "canary.py",
    "keeper.py": HERE / "pod" / "keeper.py",
    "base_keeper.py": HERE.parent / "remote" / "base_keeper.py",
    "kernel.py": HERE.parent / "remote" / "kernel.py",
    "link.py": HERE.parent / "remote" / "link.py",
    "tls.py": HERE / "pod" / "tls.py",
    "waiting.py": HERE / "pod" / "waiting.py",
    "mux.py": HERE.parent / "remote" / "mux.py",
    "conversations.py": HERE.parent / "remote" / "conversations.py",
    "kept_output.py": HERE.parent / "remote" / "kept_output.py",
    "base_agent.py": HERE.parent / "remote" / "base_agent.py",
}
SILENT = "The API server of the cluster does not answer: {}."
REQUEST_S = 15.0


class Missing(DriverError):
    """The cluster has no object of this name."""


class Exists(DriverError):
    """The cluster has an object of this name already."""


class QuotaUsedUp(DriverError):
    """The quota of the namespace leaves no room."""


class Cluster:
    """A cluster, one namespace of which holds the pods. Connects when it is first asked."""

    def __init__(self, namespace: str, context: str = ""):
        self.namespace, self.context = namespace, context

    def within(self, namespace: str) -> "Cluster":
        """Return the same cluster, as seen from another of its namespaces."""
        return self if namespace == self.namespace else Cluster(namespace, self.context)

    @property
    def client(self):
        """Return lightkube's client, for objects that this module has no verb for."""
        return _client(self.context, os.environ.get("KUBECONFIG", ""))

    @contextmanager
    def asked(self) -> Iterator:
        """Yield the client; raise DriverError in words for what the cluster refuses, BackendLost if it is silent."""
        try:
            import httpx2
            from lightkube.core.exceptions import ApiError, ConfigError
        except ImportError:
            raise DriverError("Handrail's extra [kubernetes] is not installed.") from None
        try:
            yield self.client
        except ConfigError as error:
            raise DriverError(f"The cluster's configuration cannot be used: {error}.") from error
        except ApiError as error:
            raise _in_words(error) from error
        except (httpx2.HTTPError, OSError) as error:
            raise BackendLost(SILENT.format(str(error) or type(error).__name__)) from error

    def get(self, kind, name: str):
        """Return the object, or None if there is none."""
        try:
            with self.asked() as client:
                return client.get(kind, name, namespace=self.namespace)
        except Missing:
            return None

    def is_silent(self, node: str) -> bool:
        """Return whether the cluster hears nothing of a node; False where the account may not look at nodes."""
        from lightkube.resources.core_v1 import Node

        try:
            with self.asked() as client:
                conditions = client.get(Node, node).status.conditions or ()
        except Missing:
            return True
        except BackendLost:
            raise
        except DriverError:
            return False
        return any(each.type == "Ready" and each.status != "True" for each in conditions)

    def create(self, made) -> object:
        """Create the object and return it as it is now; one of this name that is there already is returned."""
        try:
            with self.asked() as client:
                return client.create(made, namespace=self.namespace)
        except Exists:
            return self.get(type(made), made.metadata.name)

    def delete(self, kind, name: str, *, grace_s: int | None = None) -> None:
        """Delete the object, if it is there; `grace_s` are the seconds that a pod's processes have."""
        try:
            with self.asked() as client:
                client.delete(kind, name, namespace=self.namespace, grace_period=grace_s)
        except Missing:
            pass

    def listed(self, kind, *, labels: Mapping[str, str] | None = None, fields: Mapping[str, str] | None = None) -> list:
        with self.asked() as client:
            return list(client.list(kind, namespace=self.namespace, labels=labels, fields=fields))

    def warnings(self, pod) -> list:
        """Return the warnings of the cluster about a pod, the newest last."""
        from lightkube.resources.core_v1 import Event

        found = self.listed(Event, fields={"involvedObject.uid": pod.metadata.uid, "type": "Warning"})
        return sorted(found, key=lambda event: event.lastTimestamp or event.metadata.creationTimestamp)

    def keep_programs(self) -> str:
        """Make sure that the namespace has the programs of this version; return the name of their ConfigMap."""
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap

        name, content = _programs()
        if self.get(ConfigMap, name) is None:
            data = {path: b64encode(data).decode() for path, data in content.items()}
            self.create(ConfigMap(metadata=ObjectMeta(name=name), binaryData=data, immutable=True))
        return name


@lru_cache(maxsize=8)
def _client(context: str, _kubeconfig: str):
    """Return the client of a cluster; threads may share it."""
    from httpx2 import Timeout  # of the extra, as lightkube
    from lightkube import Client, KubeConfig

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # else it logs every request
    return Client(config=KubeConfig.from_env().get(context or None), timeout=Timeout(REQUEST_S))


@lru_cache(maxsize=1)
def _programs() -> tuple[str, dict[str, bytes]]:
    from workspaces.store.guest.client import bundle  # deferred: host processes import drivers and must start quickly

    content = {"keeper.pyz": _packed(PROGRAMS | init_modules()), "tree.pyz": bundle()}
    digest = hashlib.sha256(b"".join(content.values())).hexdigest()
    return f"handrail-programs-{digest[:12]}", content


def _packed(modules: Mapping[str, Path]) -> bytes:
    """Return an archive of sources, compressed: a ConfigMap takes 1 MiB."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as program:
        for name, source in modules.items():
            program.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), source.read_bytes(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _in_words(error) -> DriverError:
    said = error.status.message or str(error)
    if error.status.code == 404:
        return Missing(f"The cluster has no such object: {said}.")
    if error.status.code == 409:
        return Exists(f"The cluster has it already: {said}.")
    if error.status.code in (401, 403) and "exceeded quota" not in said:
        return DriverError(f"The cluster refuses it: {said}.")
    if error.status.code == 403:
        return QuotaUsedUp(f"The quota of the namespace is used up: {said}.")
    if error.status.code == 429 or (error.status.code or 500) >= 500:
        return BackendLost(SILENT.format(said))
    return DriverError(f"The cluster refuses it: {said}.")


def kubeconfig_is_there() -> bool:
    """Return whether there is a configuration to reach a cluster by: a file, or the account of this pod."""
    places = os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)
    account = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    return account.exists() or any(Path(place).expanduser().exists() for place in places)
