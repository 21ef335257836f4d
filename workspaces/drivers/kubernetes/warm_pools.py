"""Pods that wait for a Run: a pool for each environment in use, which agent-sandbox keeps filled.

A pod of a pool is of the very spec that a Run like it would get, in the team's namespace, and knows nothing of any Run.
A start claims one and hands over what `pods.py` puts into a Run's Secret elsewhere (pod/waiting.py). Each host has
pools of its own. A pool that no start has asked for in a day goes by itself, also when its host is gone for good.

HOME/kubernetes/pools/NAME/pool.json     {namespace, environment, shape} of a pool that this host has made
HOME/kubernetes/pools/NAME/lead.pem      the certificate and key with which its pods are claimed
HOME/kubernetes/pools/NAME/keeper.crt    the certificate that its pods have before they are claimed
"""

import hashlib
import json
import logging
import shutil
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from ..base import BackendLost, DriverError, RunSpec
from . import certificates, template
from .agent_sandbox import AgentSandboxes
from .claims import HOST
from .pod_source import Wanted
from .pods import Pods

UNUSED_S = 24 * 3600.0  # after its last start, in which a pool goes
ANSWERS_S = 15.0  # in which a pod that was claimed takes what is handed over
LOOK_S = 0.05
FRAME = struct.Struct(">I")

logger = logging.getLogger("handrail.runner")


@dataclass(frozen=True)
class Pool:
    """A pool that this host has made. `shape` is a digest of what its pods are."""

    folder: Path
    namespace: str
    environment: str
    shape: str

    @property
    def name(self) -> str:
        return self.folder.name


class WarmPools:
    """The pools of this host: `number` pods wait in each."""

    def __init__(self, home: Path, host: str, number: int):
        self.home, self.host, self.number = home, host, number

    def take(self, spec: RunSpec, pods: Pods, uid: int, given: Mapping[str, str]):
        """Return a pod that waited for a Run like this and is now this Run's own; None if it has to start cold."""
        pool = self._pool_of(spec, pods, uid)
        if pool is None or pool.shape != self._shape(spec, pods, uid) or not pods.source.waiting(pool.name)[0]:
            return None
        try:
            pod = pods.claim(spec, pool.name)
            hand_over((pod.status.podIP, template.KEEPER_PORT), pool.folder, given)
            return pod
        except BackendLost:
            raise
        except (DriverError, OSError) as error:  # it may be half a Run's own: nobody gets it any more
            logger.warning(
                "run %s starts cold, a pod of the pool %s was not handed over: %s", spec.run_id, pool.name, error
            )
            pods.take_away(spec.run_id)
            return None

    def want(self, spec: RunSpec, pods: Pods, uid: int, *, is_new: bool) -> bool:
        """Keep the pool for starts like this; True if it was made, or made anew, just now.

        `is_new`: it takes the place of the environment's former pool. Otherwise a pool is only kept, not made.
        """
        if not self.number or spec.storage == "pvc" or spec.phase != "agent":
            return False
        pool, shape = self._pool_of(spec, pods, uid), self._shape(spec, pods, uid)
        if pool is not None and pool.shape == shape and pods.source.keep_pool(pool.name, self.number, UNUSED_S):
            return False
        if not is_new:
            return False
        if pool is not None:
            self.drop(pool, pods.source)
        self._drop_unknown(pods)
        self._make(spec, pods, uid, shape)
        return True

    def give_way(self, pods: Pods) -> bool:
        """Drop the pools of this host among these pods, and wait until they have gone; False if there are none."""
        pools = [pool for pool in self._pools() if pool.namespace == pods.cluster.namespace and pods.source.warm]
        for pool in pools:
            logger.warning("the pods of %s make room: the quota of %s is used up", pool.name, pool.namespace)
            waiting = pods.source.waiting(pool.name)[1]
            self.drop(pool, pods.source)
            pods.await_end(waiting)
        return bool(pools)

    def drop_all(self, source_in) -> None:
        """Drop every pool of this host; `source_in(namespace)` is the source of its pods there."""
        for pool in self._pools():
            self.drop(pool, source_in(pool.namespace))

    def drop(self, pool: Pool, source: AgentSandboxes) -> None:
        source.drop_pool(pool.name)
        shutil.rmtree(pool.folder, ignore_errors=True)

    # What is known here

    def _pools(self) -> list[Pool]:
        places = sorted(self.home.glob("*/pool.json"))
        return [Pool(place.parent, **json.loads(place.read_text())) for place in places]

    def _pool_of(self, spec: RunSpec, pods: Pods, uid: int) -> Pool | None:
        """Return the pool of the spec's environment in the namespace of these pods."""
        where = (pods.cluster.namespace, spec.environment)
        found = [pool for pool in self._pools() if (pool.namespace, pool.environment) == where]
        return found[0] if found and spec.storage != "pvc" and pods.source.warm else None

    def _shape(self, spec: RunSpec, pods: Pods, uid: int) -> str:
        made = [self._spec(spec, pods, uid, secret=""), template.given_to_pool(spec, uid, ("", ""), "")]
        return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()

    def _spec(self, spec: RunSpec, pods: Pods, uid: int, *, secret: str) -> dict:
        return template.pool_spec(spec, secret=secret, **pods.how_made(spec, uid))

    # Making

    def _make(self, spec: RunSpec, pods: Pods, uid: int, shape: str) -> None:
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import Secret

        keeper, (certificate, key) = certificates.pair("pods that wait"), certificates.pair("who claims them")
        mark = hashlib.sha256(keeper[0].encode()).hexdigest()[:8]  # one of the same shape may be on its way out
        name, labels = f"hr-pool-{self.host[:8]}-{mark}", {HOST: self.host}
        pool = Pool(self.home / name, pods.cluster.namespace, spec.environment, shape)
        pool.folder.mkdir(mode=0o700, parents=True)
        replace_file(pool.folder / "lead.pem", (certificate + key).encode())
        replace_file(pool.folder / "keeper.crt", keeper[0].encode())
        about = {"namespace": pool.namespace, "environment": pool.environment, "shape": shape}
        replace_file(pool.folder / "pool.json", json.dumps(about).encode())
        owner = pods.source.anchor(name, UNUSED_S, labels)
        metadata = ObjectMeta.from_dict({"name": name, "labels": labels, "ownerReferences": [owner]})
        given = template.given_to_pool(spec, uid, keeper, certificate)
        pods.cluster.create(Secret(metadata=metadata, stringData=given, immutable=True))
        wanted = Wanted(name, labels, self._spec(spec, pods, uid, secret=name), secret=name)
        pods.source.want_pool(name, wanted, self.number, owner=owner)

    def _drop_unknown(self, pods: Pods) -> None:
        """Drop pools that this host made before it lost its folder."""
        known = {pool.name for pool in self._pools()}
        for name in pods.source.pools({HOST: self.host}):
            if name not in known:
                pods.source.drop_pool(name)


def hand_over(address: tuple[str, int], folder: Path, given: Mapping[str, str]) -> None:
    """Give a pod that was claimed what is its Run's; OSError if it does not take it."""
    content = json.dumps(given).encode()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the one certificate that is taken is the pool's
    context.load_verify_locations(folder / "keeper.crt")
    context.load_cert_chain(folder / "lead.pem")
    with _connected(address) as sock:
        sock.settimeout(ANSWERS_S)
        with context.wrap_socket(sock) as link:
            link.sendall(FRAME.pack(len(content)) + content)
            if link.recv(64) != b"taken\n":
                raise ConnectionResetError("it did not say that it has taken what is the Run's")


def _connected(address: tuple[str, int]) -> socket.socket:
    """Return a connection, also if the pod begins to listen only in a moment."""
    deadline = time.monotonic() + ANSWERS_S
    while True:
        try:
            return socket.create_connection(address, timeout=ANSWERS_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_S)
