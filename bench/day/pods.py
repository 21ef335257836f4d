"""The ground of a day in pods: a cluster of its own, an environment on it, and the files of pods at the day's end."""

import contextlib
import os
from pathlib import Path

from bench.kubernetes import image, programs
from bench.kubernetes.cluster import Cluster

NAMESPACE, ENVIRONMENT = "day", "pods"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
MEMORY = 512 << 20  # bytes of a workspace: all of them have to fit one node while the other is away
SETTLES_S = 240.0
AT_REST = ("stopped", "paused")


class PodGround:
    """A cluster of two nodes with the image of HANDRAIL_TEST_KUBERNETES_IMAGE, or with one that is made for the day."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.cluster = Cluster(f"day-{os.getpid()}")

    def up(self) -> dict[str, str]:
        """Start it, and return the variables with which a product finds it."""
        programs.build(say=lambda words: None)
        self.cluster.up()
        self.cluster.create("/api/v1/namespaces", "Namespace", NAMESPACE, labels=RESTRICTED)
        self.cluster.load_image(self._archive())
        os.environ["KUBECONFIG"] = str(self.cluster.kubeconfig)
        return {"HANDRAIL_KUBERNETES": NAMESPACE}

    def _archive(self) -> Path:
        if given := os.environ.get("HANDRAIL_TEST_KUBERNETES_IMAGE"):
            return Path(given)
        image.base(self.folder / "base.tar", image.SMALL)
        return self.folder / "base.tar"

    def make_environment(self, product, lead: str):
        wish = {"name": ENVIRONMENT, "driver": "kubernetes", "limits": {"memory_bytes": MEMORY}}
        made = product.post("/api/v1/environments", lead, wish)
        if made.status != 201:
            raise RuntimeError(f"no environment of pods: {made.text}")

    def bring_files_back(self, product, lead: str, keys: list[str]):
        """Stop every workspace, so that its files come back to the host, and each that is at rest after a resume.

        What a workspace has lost is noted in the log at its next resume.
        """
        for key in keys:
            path = f"/api/v1/workspaces/{key}"
            if product.settled(path, lead, within=SETTLES_S)["state"] in AT_REST:
                product.post(f"{path}/resume", lead)
                product.settled(path, lead, within=SETTLES_S)
            product.post(f"{path}/stop", lead)
        for key in keys:
            product.settled(f"/api/v1/workspaces/{key}", lead, within=SETTLES_S)

    def close(self):
        if self.cluster.folder.exists():
            with contextlib.suppress(FileNotFoundError):  # its parts may have been killed and started since
                self.cluster = Cluster.load(self.cluster.name)
            self.cluster.down()

    def keepers(self) -> list[int]:
        """Return the first processes of the pods of workspaces, as this machine counts them."""
        found = []
        for node in self.cluster.nodes.values():
            for pid in node.pids():
                with contextlib.suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    found += [pid] if b"keep" in words and any(word.endswith(b"keeper.pyz") for word in words) else []
        return found


def losses(found) -> dict[str, list[tuple[float, float]]]:
    """Return {workspace id: spans} in which what was written went with a pod or its node, as the log says.

    Each span begins with the snapshot that came back, and ends when its files were found to be gone.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    for event in found.of("events", verb="workspace.files_lost"):
        number = event["data"]["snapshot"]
        [kept] = found.of("snapshots", workspace_id=event["workspace_id"], number=number)
        span = (kept["created_at"].timestamp(), event["at"].timestamp())
        spans.setdefault(event["workspace_id"], []).append(span)
    return spans


def went_at(spans: list[tuple[float, float]], at: float) -> bool:
    """Return whether what was there at this time may have gone with a pod."""
    return any(begin - 1 <= at <= end for begin, end in spans)
