"""Two hosts with a bucket, of which one is lost: what it had written for all is read, and used, through the other."""

import shutil
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.leftovers import end_runs
from tests.support.two_hosts import Hosts, two_hosts
from tests.support.waiting import until
from workspaces.programs.kept_recordings import MARK

AGENT = "codex@1.2.3"
LONG_SILENT = (
    "from datetime import timedelta; from workspaces.models import Runner; from dashboard.database import clock; "
    "at = clock.now() - timedelta(minutes=5); "
    "Runner.objects.filter(host={host!r}).update(heartbeat_at=at, web_at=at, queue_at=at)"
)


@pytest.fixture(scope="module")
def hosts(s3, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost")
    with two_hosts(folder, HANDRAIL_BUCKET=s3.address("lost-host"), **s3.environ) as both:
        yield both


def commands_of(hosts: Hosts) -> list[dict]:
    return hosts.through_other.get("/workspaces/far/commands").json["commands"]


def folder_of(product, command: dict):
    code = f"from workspaces.models import Command; print(Command.objects.get(pk={command['id']!r}).operation_id)"
    [folder] = product.home.glob(f"workspaces/*/programs/{product.shell(code)}")
    return folder


def install_on(product):
    """Have the program of an agent on a host, as npm leaves it, and let the others have it."""
    folder = product.home / "agents" / "codex" / "1.2.3"
    (folder / "bin").mkdir(parents=True)
    (folder / "package").mkdir()
    (folder / "package" / "codex").write_text("#!/bin/sh\necho codex 1.2.3\n")
    (folder / "package" / "codex").chmod(0o755)
    (folder / "bin" / "codex").symlink_to("../package/codex")
    done = product.manage("agents", "install", AGENT)
    assert done.returncode == 0, done.stderr


@contextmanager
def following(desk, command: str):
    """Follow the output of a command; yield a dict that gets `body` when the output is over."""
    heard = {}

    address = f"{desk.product.url}/api/v1/commands/{command}/output?follow=1"
    request = Request(address, headers={"Authorization": f"Bearer {desk.token}"})

    def follow():
        with urlopen(request, timeout=240) as response:
            heard["begun"] = response.read(len(b"begun\n"))
            heard["body"] = response.read()

    thread = threading.Thread(target=follow)
    thread.start()
    until(lambda: "begun" in heard)
    yield heard
    thread.join(240)
    assert not thread.is_alive()


def test_recordings_and_agents_outlive_their_host(hosts, require):
    own, other = hosts.own, hosts.other
    [ended] = commands_of(hosts)
    until((folder_of(own, ended) / MARK).exists)
    install_on(own)
    hosts.through_own.post("/workspaces/far/snapshots/1/archive", expect=202)
    hosts.through_own.settled("far")
    packed = hosts.through_own.get("/workspaces/far/snapshots/1/archive").body
    running = hosts.through_own.post("/workspaces/far/commands", {"command": "echo begun; sleep 600"}).json
    until(lambda: hosts.through_other.get(f"/commands/{running['id']}/output").body == b"begun\n")

    with following(hosts.through_other, running["id"]) as heard:
        pids = [own.part_pid(part) for part in ("web", "runner", "queue")]
        own.process.kill()
        own.process.wait()
        for pid in pids:  # its parts end with the supervisor; not at once
            until(lambda pid=pid: not Path(f"/proc/{pid}").exists())
        end_runs(own.home, own.runtime)
        host = own.environment["HANDRAIL_HOST_NAME"]
        other.shell(LONG_SILENT.format(host=host))
        # Not lost yet: what had ended is read all the same.
        assert hosts.through_other.get(f"/commands/{ended['id']}/output").body == b"onetwo\n"
        assert "body" not in heard
        lost = other.manage("host", "lost", host)
        assert lost.returncode == 0, lost.stderr
    assert heard["begun"] == b"begun\n"
    assert heard["body"] == f"\r\n[{host} is lost, and with it what this printed from here on]\r\n".encode()

    detail = hosts.through_other.get(f"/commands/{running['id']}/output", expect=404).json["detail"]
    assert detail == f"What it printed was on {host} alone, and is lost."

    shutil.rmtree(own.home / "workspaces")
    assert hosts.through_other.settled("far")["place"]["host"] == other.environment["HANDRAIL_HOST_NAME"]
    assert hosts.through_other.get(f"/commands/{ended['id']}/output").body == b"onetwo\n"
    assert hosts.through_other.get("/workspaces/far/snapshots/1/archive").body == packed
    done = other.manage("agents", "install", AGENT)
    assert done.returncode == 0, done.stderr
    assert (other.home / "agents/codex/1.2.3/bin/codex").read_text() == "#!/bin/sh\necho codex 1.2.3\n"


def test_what_retention_deletes_is_gone_from_the_bucket(hosts, s3):
    desk, product = hosts.through_other, hosts.other
    desk.run("far", "echo short-lived")
    newest = commands_of(hosts)[0]
    folder = folder_of(product, newest)
    until((folder / MARK).exists)
    copies = s3.client(f"lost-host/files/recordings/{folder.parent.parent.name}")
    assert f"{folder.name}.tar" in [found.name for found in copies.ls("")]
    code = "from workspaces.services.retention.forgetting import forget; "
    product.shell(f"{code}forget({folder.parent.parent.name!r}, programs=[{folder.name!r}])")
    until(lambda: not folder.exists())
    desk.settled("far")
    assert f"{folder.name}.tar" not in [found.name for found in copies.ls("")]
    assert desk.get(f"/commands/{newest['id']}/output", expect=404).json["detail"].startswith("Its output was kept")
