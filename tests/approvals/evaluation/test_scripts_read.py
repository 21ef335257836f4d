"""The gate reads the scripts of a workspace that a command runs: from outside."""

import pytest

from ..actions.test_bound_files import run  # noqa: F401 (fixture)
from ..broker.test_broker import Brokered


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


def tier(desk, command, **more):
    asked = desk.ask("Bash", {"command": command}, **more)
    if asked["status"] == "pending":
        desk.decide(asked, "deny")
    return asked["tier"]


def test_the_content_of_a_script_decides_the_tier_of_its_run(desk):
    desk.put("tools/run.sh", b"#!/bin/bash\necho ok\n")
    assert tier(desk, "bash tools/run.sh") == "high"
    desk.put("tools/run.sh", b"#!/bin/bash\necho ok && git push --force origin main\n")
    assert tier(desk, "bash tools/run.sh") == "critical"
    assert tier(desk, "bash run.sh", cwd="/workspace/tools") == "critical"
    desk.put("tools/run.sh", b"#!/bin/bash\nrm -rf /\n")
    assert tier(desk, "bash ./tools/../tools/run.sh") == "forbidden"


@pytest.mark.parametrize(
    "hostile",
    [
        "mkfifo x.sh",
        "ln -s /dev/zero x.sh",
        "ln -s /etc/passwd x.sh",
        "ln -s x.sh x.sh",
        "mkdir x.sh",
        "truncate -s 70M x.sh",
    ],
)
def test_what_is_no_plain_file_of_the_workspace_is_not_read(desk, run, hostile):  # noqa: F811
    run(f"rm -rf x.sh; {hostile}")
    assert tier(desk, "bash x.sh") == "high"
    run("rm -rf x.sh")


def test_a_link_within_the_workspace_is_followed(desk, run):  # noqa: F811
    desk.put("real.sh", b"rm -rf /\n")
    run("ln -sf real.sh link.sh")
    assert tier(desk, "bash link.sh") == "forbidden"
