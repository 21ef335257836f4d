"""The real controller of kubernetes-sigs/agent-sandbox on the tests' cluster.

Its module cannot be had from a Go proxy, so a built program is taken from beside the checkout, where there is one:
`../shared/engines/kubernetes/agent-sandbox`.
"""

import json
import lzma
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bench.kubernetes.cluster import Cluster
from tests.support import CHECKOUT
from tests.support.waiting import until

PLACE = Path(
    os.environ.get("HANDRAIL_TEST_AGENT_SANDBOX") or CHECKOUT.parent / "shared/engines/kubernetes/agent-sandbox"
)
GROUPS = ("agents.x-k8s.io", "extensions.agents.x-k8s.io")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Controller:
    """A running controller, which a test may kill and start again."""

    def __init__(self, cluster: Cluster, folder: Path):
        self.cluster, self.folder = cluster, folder
        self.program = folder / "agent-sandbox-controller"
        self.program.write_bytes(lzma.decompress((PLACE / "agent-sandbox-controller.xz").read_bytes()))
        self.program.chmod(0o755)
        self.process: subprocess.Popen | None = None
        crds = json.loads((PLACE / "crds.json").read_text())["items"]
        self.kinds = {crd["spec"]["names"]["kind"] for crd in crds}
        for crd in crds:
            status, answer = cluster.api.ask(CRDS, crd)
            assert status in (201, 409), answer
        until(self._serves_all_kinds)

    def _serves_all_kinds(self) -> bool:
        answers = [self.cluster.api.ask(f"/apis/{group}/v1beta1") for group in GROUPS]
        served = {each["kind"] for status, answer in answers if status == 200 for each in answer["resources"]}
        return self.kinds <= served

    def start(self) -> None:
        flags = ["--extensions", "--leader-elect=false", "--enable-webhook=false", "--metrics-bind-address=0"]
        flags += ["--health-probe-bind-address=0"]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, *flags],
                env=os.environ | {"KUBECONFIG": str(self.cluster.kubeconfig)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        time.sleep(0.2)
        assert self.process.poll() is None, (self.folder / "log").read_text()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="session")
def agent_sandbox(kubernetes, tmp_path_factory, require):
    if not (PLACE / "agent-sandbox-controller.xz").exists():
        require("agent-sandbox", f"its controller is not in {PLACE}")
    controller = Controller(kubernetes, tmp_path_factory.mktemp("controller"))
    controller.start()
    yield controller
    controller.kill()
