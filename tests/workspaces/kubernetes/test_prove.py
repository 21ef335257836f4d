"""`deploy/kubernetes/prove.sh` shows what a cluster does, and says of each row whether it holds."""

import os
import re
import subprocess

import pytest

from bench.kubernetes import programs
from tests.support import CHECKOUT


@pytest.mark.timeout(500)  # some thirty pods, one after the other
def test_it_prints_what_holds(kubernetes, busybox_image, agent_sandbox, tmp_path, tmp_path_factory):
    script = CHECKOUT / "deploy/kubernetes/prove.sh"
    done = subprocess.run(
        [script, "--image", busybox_image, "--namespace", f"prove-{os.getpid()}", "--drain"],
        env={
            "PATH": f"{programs.program('kubectl').parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(kubernetes.kubeconfig),
            "TMPDIR": str(tmp_path),
            "KUBECACHEDIR": str(tmp_path_factory.mktemp("cache")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    rows = {
        row[5:].split("  ")[0].strip(): row[:5].strip()
        for row in done.stdout.splitlines()
        if re.match(r"(yes|no|) +", row)
    }
    assert {row for row, holds in rows.items() if holds == "no"} == set(), done.stdout + done.stderr
    assert done.returncode == 0
    assert len(rows) >= 20
    for runtime in ("runc", "gvisor"):
        assert f"runtime class {runtime}: its kernel" in done.stdout
    assert not list(tmp_path.iterdir())


def test_without_an_image_it_says_how_it_is_called():
    done = subprocess.run([CHECKOUT / "deploy/kubernetes/prove.sh"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (64, "--image names no image with a shell\n")
