"""The planned faults of a day in pods: keepers, bridges, nodes, cables and the API server of the cluster."""

import asyncio
import os
import signal

from bench.day import evidence
from bench.day.faults import Faults
from workspaces.drivers.kubernetes.pod_source import RUN

READY = "select id from workspaces_workspace where state = 'ready'"
NOTICED = 90.0  # seconds after the end of a fault of a node in which its pods may be out of reach or are found gone


class PodFaults(Faults):
    def _choose(self):
        super()._choose()
        self.cluster = self.day.pods.cluster
        self.kinds = [kind for kind in self.kinds if kind not in (self.kill_shim, self.kill_sandbox)]
        self.kinds += [self.kill_bridge, self.kill_keeper, self.delete_pod, self.kill_node, self.cut_node]
        self.kinds += [self.kill_api_server]

    async def work(self):
        """Begin once every agent has its workspace: one whose first pod goes with its node is never made."""
        while self.day.left > 25 and not await asyncio.to_thread(self._all_are_up):
            await asyncio.sleep(1)
        await super().work()

    def _all_are_up(self) -> bool:
        return len(evidence.rows_of(self.day, READY)) >= self.day.sizes[0]

    async def kill_bridge(self):
        """Kill what connects the runner with a pod; the pod goes on."""

        def kill():
            running = list(self._of_runs())
            if not running:
                return False
            os.kill(self.chance.choice(running), signal.SIGKILL)
            return True

        await self._make("kill a bridge", kill, outage=True, after=NOTICED)

    async def kill_keeper(self):
        """Kill the first process of a pod, and with it the pod and its files."""

        def kill():
            running = self.day.pods.keepers()
            if not running:
                return False
            os.kill(self.chance.choice(running), signal.SIGKILL)
            return True

        await self._make("kill a keeper", kill, after=NOTICED)

    async def delete_pod(self):
        """Delete a pod as an eviction does: its files are fetched within its grace."""

        def delete():
            _, found = self.cluster.api.ask(f"/api/v1/pods?labelSelector={RUN}")
            places = sorted((each["metadata"]["namespace"], each["metadata"]["name"]) for each in found["items"])
            if not places:
                return False
            namespace, name = self.chance.choice(places)
            self.cluster.api.ask(f"/api/v1/namespaces/{namespace}/pods/{name}", method="DELETE")
            return True

        await self._make("delete a pod", delete, after=NOTICED)

    async def kill_node(self):
        """Let a node lose its power, with all that runs on it, and start again later."""
        name = self.chance.choice(sorted(self.cluster.nodes))
        how = {"lasting": self.chance.uniform(5, 40), "after": NOTICED}
        await self._make(
            f"kill node {name}", lambda: self.cluster.power_off(name), lambda: self.cluster.power_on(name), **how
        )

    async def cut_node(self):
        name = self.chance.choice(sorted(self.cluster.nodes))
        how = {"lasting": self.chance.uniform(2, 30), "after": NOTICED}
        await self._make(f"cut node {name} off", lambda: self.cluster.cut(name), lambda: self.cluster.mend(name), **how)

    async def kill_api_server(self):
        def start():
            self.cluster.start("apiserver")

        how = {"lasting": self.chance.uniform(2, 15), "after": NOTICED}
        await self._make("kill the API server", lambda: self.cluster.kill("apiserver"), start, **how)
