"""What is looked after in a cluster beside the Runs: pods that wait for one, and the ends of those in use."""

import asyncio
import functools
import logging
import os
import time
from collections.abc import Mapping

from ..base import BackendLost, DriverError, Probe, RunSpec
from ..sandbox.driver import UID
from . import claims
from .agent_sandbox import AgentSandboxes, Gone
from .cluster import QuotaUsedUp
from .leading import Leading
from .pods import NodeAway, Pods
from .warm_pools import WarmPools

EACH_S = 3600.0  # between two times at which the ends of all pods are moved ahead; they live for a day
COUNTED_S = 15.0  # how long a start is tried again while a quota may still count pods of a pool that have ended
NOT_WARM = "Pods cannot wait for workspaces (HANDRAIL_KUBERNETES_WARM) with HANDRAIL_KUBERNETES_SOURCE=pods."
HOW_WARM = "Set HANDRAIL_KUBERNETES_SOURCE=agent-sandbox where its CRDs are installed, or HANDRAIL_KUBERNETES_WARM=0."

logger = logging.getLogger("handrail.runner")


class LookedAfter(Leading):
    """The part of the driver that uses what its source of pods can do beyond making them (`AgentSandboxes`)."""

    _ends_moved_at = float("-inf")

    @functools.cached_property
    def warm_pools(self) -> WarmPools:
        number = int(self.options.get("warm") or 0)
        return WarmPools(self.home / "kubernetes" / "pools", claims.host_of(self.home), number)

    async def warm(self, spec: RunSpec, *, is_new: bool = True) -> bool:
        return await asyncio.to_thread(self._warm, spec, is_new=is_new)

    async def held_up(self) -> dict:
        await asyncio.to_thread(self.pods.listed)  # BackendLost if the API server is silent
        if self.pods.source.warm and time.monotonic() - self._ends_moved_at > EACH_S:
            await asyncio.to_thread(self._move_ends)
        return {}

    def _warm(self, spec: RunSpec, *, is_new: bool) -> bool:
        if not self.warm_pools.number or not self.pods.source.warm:
            return False
        pods = self.pods.within(self.namespaces.keep(spec.team))
        return self.warm_pools.want(spec, pods, inside(), is_new=is_new)

    def _pod_for(self, spec: RunSpec, given: Mapping[str, str]):
        """Return the Run's pod once it has an address: one that waited, or a new one. DriverError in words if not."""
        pods = self._pods_of(spec.run_id)
        if (waited := self.warm_pools.take(spec, pods, inside(), given)) is not None:
            return waited
        volume = claims.keep(pods.cluster, claims.host_of(self.home), spec) if spec.storage == "pvc" else ""
        return self._made(spec, pods, given, volume)

    def _made(self, spec: RunSpec, pods: Pods, given: Mapping[str, str], volume: str):
        """Make the Run's pod. Try again once if its node is away, and for COUNTED_S after a pool made room."""
        is_second, counted_until = False, None
        while True:
            try:
                return pods.make(spec, inside(), given, volume)
            except NodeAway as error:
                if is_second:
                    raise
                is_second = True
                logger.warning("the pod of run %s is made again: %s", spec.run_id, error)
                pods.take_away(spec.run_id, grace_s=0)  # no program has started in it: its keeper was never reached
            except QuotaUsedUp:
                if counted_until is None and self.warm_pools.give_way(pods):
                    counted_until = time.monotonic() + COUNTED_S
                if counted_until is None or time.monotonic() > counted_until:
                    raise
                pods.take_away(spec.run_id)
                time.sleep(0.3)

    def _why_not_warm(self) -> Probe | None:
        """Return what a probe says if pods are to wait and cannot; drop those that are to wait no more."""
        if self.warm_pools.number:
            return None if self.pods.source.warm else Probe(False, NOT_WARM, HOW_WARM)
        try:
            self.warm_pools.drop_all(lambda namespace: AgentSandboxes(self.cluster.within(namespace)))
        except DriverError as error:
            logger.warning("pods that waited are left for now: %s", error)
        return None

    def _move_ends(self) -> None:
        """Move the ends of the pods of this host's Runs ahead. One that is gone is found by who looks at its Run."""
        for record in self._records():
            known = self._known(record.run_id)
            if "uid" not in known:
                continue
            pods = self._pods_of(record.run_id)
            try:
                pods.source.keep(pods.name_of(record.run_id), uid=known["uid"])
            except (BackendLost, Gone) as error:
                logger.info("the end of run %s was not moved ahead: %s", record.run_id, error)
            except DriverError as error:
                logger.warning("the end of run %s was not moved ahead: %s", record.run_id, error)
        self._ends_moved_at = time.monotonic()


def inside() -> int:
    """Return the user id of the workspace's programs in their pod, which owns its files."""
    return UID if os.getuid() == 0 else os.getuid()
