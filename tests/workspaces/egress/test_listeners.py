"""Listening sockets inside a Run's network, made from outside; with root, without it, and in containers."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.support import CHECKOUT
from tests.workspaces.drivers.runs import begin, ground
from workspaces.drivers.processes import start_time
from workspaces.egress.listeners import HANDRAIL_PORT, PROXY_PORT, NoListeners, Opener

__all__ = ["begin", "ground"]  # fixtures


@pytest.fixture
def opener():
    made = Opener()
    yield made
    made.close()


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_programs_reach_them_and_nobody_else_can_take_their_place(begin, opener, driver):
    run = begin(driver)
    outward, inward = opener.listen(run.owner.pid, run.owner.start_time)
    try:
        for listener, port in ((outward, PROXY_PORT), (inward, HANDRAIL_PORT)):
            assert listener.getsockname() == ("127.0.0.1", port)
            run.leave(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3 > said-{port}; mv said-{port} done-{port}'")
            listener.settimeout(10)
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(b"from outside")
            said, _ = run.sh(f"for n in $(seq 100); do cat done-{port} 2>/dev/null && break; sleep 0.1; done")
            assert said == "from outside"
        # Not on this host: the port is there and nowhere else.
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", PROXY_PORT), timeout=2)
        said, _ = run.sh("python3 -c \"import socket; socket.socket().bind(('127.0.0.1', 81))\" 2>&1")
        assert "Permission denied" in said  # low ports stay closed to programs
        with pytest.raises(NoListeners, match="in use"):
            opener.listen(run.owner.pid, run.owner.start_time)
    finally:
        outward.close()
        inward.close()
    for again in opener.listen(run.owner.pid, run.owner.start_time):
        again.close()


def test_neither_this_hosts_network_nor_another_process_is_entered(opener):
    mine = os.getpid()
    with pytest.raises(NoListeners, match="shares this host's network"):
        opener.listen(mine, start_time(mine))
    with pytest.raises(NoListeners, match="first process is gone"):
        opener.listen(mine, start_time(mine) + 1)
    with pytest.raises(NoListeners, match="first process is gone"):
        opener.listen(2**22 - 1, 1)


def test_the_helper_is_started_again_when_it_was_killed(begin, opener):
    run = begin("sandbox")
    for listener in opener.listen(run.owner.pid, run.owner.start_time):
        listener.close()
    opener._process.kill()
    opener._process.wait()
    with pytest.raises(NoListeners, match="failed"):
        opener.listen(run.owner.pid, run.owner.start_time)
    for listener in opener.listen(run.owner.pid, run.owner.start_time):
        listener.close()


AS_USER = """
import asyncio, json, os, pathlib, sys, tempfile
from workspaces.drivers.base import RunSpec, get_driver
from workspaces.egress.listeners import Opener
ground = pathlib.Path(tempfile.mkdtemp(prefix="runs-"))
for name in ("handrail", "run", "tree", "home"):
    (ground / name).mkdir()
driver = get_driver("sandbox", ground / "handrail", ground / "run")
probe = asyncio.run(driver.probe())
if not probe.available:
    sys.exit(print(json.dumps({"lacks": probe.reason})))
spec = RunSpec(run_id="r1", workspace_id="1", key="k", workspace=ground / "tree", home=ground / "home")
owner = asyncio.run(driver.start(spec))
try:
    opener = Opener()
    made = opener.listen(owner.pid, owner.start_time)
    print(json.dumps({"uid": os.getuid(), "ports": [one.getsockname()[1] for one in made]}))
    opener.close()
finally:
    asyncio.run(driver.stop(owner, grace_s=0.0))
    asyncio.run(driver.clear(owner))
"""


def test_an_ordinary_user_makes_them_as_well(ordinary_user, require):
    """Port 80 too, and although bubblewrap puts the programs one user namespace deeper than their network."""
    done = subprocess.run(
        [sys.executable, "-c", AS_USER],
        cwd=CHECKOUT,
        user=ordinary_user,
        group=ordinary_user,
        extra_groups=[],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if "lacks" in told:
        require("sandbox", told["lacks"])
    assert told == {"uid": ordinary_user, "ports": [PROXY_PORT, HANDRAIL_PORT]}
