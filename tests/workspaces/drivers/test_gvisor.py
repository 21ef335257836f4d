"""A container in gVisor: its keeper, its files on this host, its one way out, and what becomes of it when parts end."""

import json
import os
import re
import shutil
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.engine import BUSYBOX, Engine, lacks, make_busybox
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, Blocking, Running, finish, lend_bundle
from workspaces.drivers.base import DriverError, Layer, Limits, get_driver
from workspaces.drivers.docker import bundle, runtimes
from workspaces.drivers.docker.engine import Engine as DockerEngine
from workspaces.drivers.docker.runtimes import KATA, Canaries, Runtime, choose, known
from workspaces.drivers.init_client import InitClient

MIB = 1 << 20
PYTHON = " ".join([*bundle.python(bundle.AT), "-I", "-S", "-c"])
ASK = """
import socket, sys
with socket.socket() as asked:
    asked.connect(("127.0.0.1", int(sys.argv[1])))
    asked.sendall(b"asked")
    print(asked.recv(100).decode(), end="")
"""
SERVE = """
import socket
with socket.create_server(("127.0.0.1", 4321)) as served:
    served.accept()[0].sendall(b"hello")
"""
KILL_RELAYS = "for p in /proc/[0-9]*; do grep -qs 'keeper.pyz.rel[a]y' $p/cmdline && kill -9 ${p#/proc/}; done; true"


@pytest.fixture(scope="module")
def engine(require, tmp_path_factory):
    """An engine of its own with Debian's gVisor, which a test may kill."""
    if why := lacks() or ("" if shutil.which("runsc") else "runsc cannot be found"):
        require("gvisor", why)
    program = tmp_path_factory.mktemp("runtimes") / "runsc"
    # It has no network but the loopback; what it would do to have one does not work on every kernel.
    program.write_text('#!/bin/sh\nexec runsc --network=none "$@"\n')
    program.chmod(0o755)
    broken = program.with_name("runsc-broken")
    broken.write_text(f'#!/bin/sh\necho "$@" >> {broken}.asked\nexit 1\n')
    broken.chmod(0o755)
    made = Engine({"runsc": program, "broken": broken})
    try:
        made.start()
        make_busybox(made.address)
        yield made
    finally:
        made.clean_up()


def new_ground() -> Path:
    path = Path(tempfile.mkdtemp(prefix="runs-"))
    path.chmod(0o755)
    for name in ("handrail", "run"):
        (path / name).mkdir(mode=0o700)
    lend_bundle(path / "handrail")
    return path


@pytest.fixture(scope="module")
def options(engine):
    before = OPTIONS["docker"]
    OPTIONS["docker"] = {"address": engine.address}
    yield OPTIONS["docker"]
    OPTIONS["docker"] = before


@pytest.fixture(scope="module")
def up(options):
    """`up()`: a Run of an environment with the runtime class runsc, ended after the module."""
    made, grounds = [], [new_ground()]

    def start(**fields) -> Running:
        how = {"image": BUSYBOX, "runtime_class": "runsc"} | fields
        made.append(Running("docker", grounds[0], **how))
        return made[-1]

    yield start
    for running in made:
        running.end()
    shutil.rmtree(grounds[0], ignore_errors=True)


@pytest.fixture(scope="module")
def run(up):
    """One Run for the tests that end nothing of it."""
    return up()


def test_the_class_of_the_environment_is_what_runs_it(run, engine):
    assert run.sh("uname -r; id -u")[0].split() == ["4.4.0", str(run.spec.uid)]
    with engine.client() as client:
        found = client.inspect_container(run.driver.engine.name_of(run.spec.run_id))
    assert (found["HostConfig"]["Runtime"], found["HostConfig"]["NetworkMode"]) == ("runsc", "none")
    assert found["HostConfig"]["PidsLimit"] in (None, 0)  # it would count threads of gVisor itself


def test_the_key_of_the_keeper_is_gone_before_a_program_runs(run):
    place = run.driver._folder(run.spec.run_id) / "once"
    assert ([*place.iterdir()], run.sh("ls -A /.handrail/once")) == ([], ("", 0))


def test_programs_write_nothing_to_this_host_beside_their_folders(run):
    """What they wrote there would be in HANDRAIL_HOME, and nobody's limit of disk."""
    said, _ = run.sh(
        "find / -xdev -writable -type d -not -path '/proc/*' 2> /dev/null; touch /.handrail/once/file 2>&1"
    )
    assert ("/.handrail" in said.partition("touch:")[0], "Read-only file system" in said) == (False, True)
    assert [*(run.driver._folder(run.spec.run_id) / "once").iterdir()] == []


def test_programs_and_this_host_see_the_same_files_at_once(run):
    with InitClient(run.owner.address.socket) as init:
        reader = run.begin(init, "while :; do [ -e stop ] && exit; cat asked 2> /dev/null > answered; done")
        (run.tree / "asked").write_text("first, and longer\n")
        until(lambda: _text(run.tree / "answered") == "first, and longer\n")
        (run.tree / "asked").write_text("second\n")
        until(lambda: _text(run.tree / "answered") == "second\n")
        (run.tree / "new").write_text("renamed\n")
        os.rename(run.tree / "new", run.tree / "asked")  # as a restore does
        until(lambda: _text(run.tree / "answered") == "renamed\n")
        (run.tree / "stop").touch()
        assert finish(init, reader)[1] == 0
    for name in ("stop", "asked", "answered"):
        (run.tree / name).unlink()
    assert run.sh("ls -A")[0] == ""
    run.sh("mkdir a; echo text > a/file; mv a b; ln b/file b/hard; ln -s file b/soft; chmod 750 b; rm -f none")
    found = (run.tree / "b").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (run.spec.uid, 0o750)
    assert sorted(os.listdir(run.tree / "b")) == ["file", "hard", "soft"]
    assert ((run.tree / "b/hard").stat().st_nlink, os.readlink(run.tree / "b/soft")) == (2, "file")


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_its_way_out_is_the_runner_and_its_ports_are_reached(run):
    assert [line.split(":")[0].strip() for line in run.sh("tail -n +3 /proc/net/dev")[0].splitlines()] == ["lo"]
    proxy, internal = run.do.listeners(run.owner)
    with proxy, internal, InitClient(run.owner.address.socket) as init:
        for listener, port in ((proxy, 3128), (internal, 80)):
            program = run.begin(init, f"{PYTHON} '{ASK}' {port}")
            listener.settimeout(20)
            with listener.accept()[0] as connection:
                assert connection.recv(100) == b"asked"
                connection.sendall(b"answered")
            assert finish(init, program) == ("answered", 0)
        served = run.begin(init, f"{PYTHON} '{SERVE}'")
        until(lambda: any(":10E1" in table for table in run.driver.tcp_tables(run.owner)))
        with run.do.dial(run.owner, 4321) as connection:
            assert connection.recv(100) == b"hello"
        finish(init, served)
    with pytest.raises(ConnectionRefusedError):
        run.do.dial(run.owner, 4321)


def test_output_goes_on_where_its_connection_was_cut(run, engine):
    with InitClient(run.owner.address.socket) as init:
        counting = run.begin(init, "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; done; echo over", stdio="pty")
        output = os.read(counting.fd, 100)
        with engine.client() as client:
            name = run.driver.engine.name_of(run.spec.run_id)
            made = client.exec_create(name, ["/bin/sh", "-c", KILL_RELAYS + "; echo killed"], user="0:0")
            assert client.exec_start(made["Id"]) == b"killed\n"
        rest, status = finish(init, counting)
    assert (output.decode() + rest).split() == [*map(str, range(1, 3001)), "over"]
    assert status == 0


def test_a_connection_without_the_key_is_refused(run, engine):
    asked = json.dumps({"run": run.spec.run_id, "session": "x", "received": 0, "lead": ["1", 9], "key": "guessed"})
    relay = " ".join([*bundle.command(bundle.AT, "keeper.pyz"), "relay"])
    said, _ = run.sh(f"(echo '{asked}'; sleep 2) | {relay}")
    assert json.loads(said) == {"error": "it does not show this container's key"}
    assert run.sh("echo on") == ("on\n", 0)
    said, _ = run.sh(f"(head -c 60000 /dev/zero | tr '\\0' '['; echo; sleep 2) | {relay}")
    assert (said, run.sh("echo on")) == ("", ("on\n", 0))  # nested too deeply to be read


# What ends


def test_a_bridge_that_is_killed_ends_its_container(up, engine):
    run = up()
    with engine.client() as client:
        found = run.driver.engine.find(client, run.spec.run_id)
        os.kill(run.owner.pid, signal.SIGKILL)
        until(lambda: not run.again().alive(run.owner))
        until(lambda: not client.inspect_container(found["Id"])["State"]["Running"])
        run.driver.engine.kill(client, found)  # it has ended since it was found, which is no error
    assert run.again().end_reason(run.owner) == "crashed"


def test_gvisor_that_is_killed_ends_the_run_with_words(up):
    run = up()
    os.kill(run.driver._container(run.spec.run_id)["pid"], signal.SIGKILL)
    until(lambda: not run.again().alive(run.owner), 30)
    assert run.again().end_reason(run.owner) == "crashed"
    assert run.again().how_it_crashed(run.owner) == "The workspace's container was killed."


def test_what_takes_more_memory_than_it_may_ends_the_run(up):
    run = up(limits=Limits(memory=200 * MIB))
    assert "memory" in run.owner.limits
    run.leave(f"exec {PYTHON} 'kept = b\"x\" * (900 << 20)'")
    until(lambda: not run.again().alive(run.owner), 60)
    assert run.again().end_reason(run.owner) == "out_of_memory"


def test_a_setup_leaves_what_it_installed_and_files_of_the_workspaces_user(up):
    setup = up(phase="setup")
    assert setup.sh("id -u; mkdir -p /opt; echo tool > /opt/tool; echo made > made")[0] == "0\n"
    setup.do.stop(setup.owner)
    assert (setup.tree / "made").stat().st_uid == setup.spec.uid
    kept = setup.do.keep_layer(setup.owner, Layer(f"gvisor-{os.getpid()}", touched_workspace=True))
    run = up(image=kept.digest)
    assert run.sh("cat /opt/tool; id -u")[0] == f"tool\n{run.spec.uid}\n"


def test_an_engine_that_is_killed_and_back_leaves_a_reason(up, engine):
    run = up()
    engine.stop(signal.SIGKILL)
    assert run.again().alive(run.owner) is True  # its bridge lives, and waits for the engine
    engine.start()
    until(lambda: not run.again().alive(run.owner), 60)
    assert run.again().end_reason(run.owner) == "crashed"


# What is said of it


def test_the_probe_says_what_a_canary_found(options, engine):
    ground = new_ground()
    try:
        driver = get_driver("docker", ground / "handrail", ground / "run", options)
        probe = Blocking(driver).probe()
        assert (probe.available, probe.isolation) == (True, "container")
        found = probe.classes["runsc"]
        assert (found["isolation"], found["limits"], found["layers"]) == ("container-gvisor", ["cpus", "memory"], True)
        assert (found["envelope"]["landlock"], found["envelope"]["mount_view"]) == (0, False)
        assert sorted(probe.classes) == ["runc", "runsc"]  # one that does not work is none
        assert "The runtime runsc: container-gvisor, no limit on processes." in probe.notes
        [broken] = [note for note in probe.notes if note.startswith("The runtime broken cannot be used: ")]
        assert re.search(r"\. Handrail tries again at \d\d:\d\d UTC\.$", broken)
        usual = Blocking(get_driver("docker", ground / "handrail", ground / "run", options | {"runtime": "runsc"}))
        assert (usual.probe().isolation, usual.probe().envelope) == ("container-gvisor", found["envelope"])
        with engine.client() as client:
            assert client.containers(all=True, filters={"label": "handrail.canary"}) == []
    finally:
        shutil.rmtree(ground)


def test_a_runtime_that_does_not_work_is_tried_after_longer_and_longer_times(engine, tmp_path, monkeypatch):
    with engine.client() as client:
        info = client.info()
    at, broken = [time.time()], known(info)["broken"]
    asked = Path(f"{json.loads(broken.about)['path']}.asked")
    monkeypatch.setattr(runtimes, "time", SimpleNamespace(time=lambda: at[0]))
    lend_bundle(tmp_path)

    def attempts(runtime=broken) -> int:
        before = asked.read_text().count(" create ") if asked.exists() else 0
        found = Canaries(DockerEngine(engine.address, tmp_path / "docker"), tmp_path / "docker").facts(runtime, info)
        assert "could not be started" in found["why"]
        return asked.read_text().count(" create ") - before

    assert (attempts(), attempts()) == (1, 0)
    for minutes in (2, 4, 8, 16, 32, 64, 128, 256, 360, 360):
        at[0] += minutes * 60 - 1
        assert attempts() == 0
        at[0] += 1
        assert attempts() == 1
    changed = replace(broken, about=broken.about.replace("{", '{"changed": 1, '))
    assert (attempts(changed), attempts(changed)) == (1, 0)
    at[0] += 120
    assert attempts(changed) == 1


def test_an_environment_names_gvisor_or_the_usual_runtime():
    info = {"Runtimes": {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}, "runsc": {"path": "/bin/runsc"}}}
    assert [choose(info, None, name).name for name in ("", "runc", "runsc")] == ["runc", "runc", "runsc"]
    assert choose(info, "nvidia", "nvidia").name == "nvidia"
    for usual, named in ((None, "nvidia"), ("runsc", "runc"), ("runsc", "nvidia")):
        with pytest.raises(DriverError, match=f"{named} shares this machine's kernel"):
            choose(info, usual, named)


def test_a_class_that_the_engine_does_not_have_is_refused_in_words(run):
    with pytest.raises(DriverError, match=r"This engine has no runtime 'nowhere'; it has .*runsc"):
        run.do.start(replace(run.spec, run_id="nowhere", runtime_class="nowhere"))
    assert [owner.run_id for owner in run.do.records() if owner.run_id == "nowhere"] == []


def test_a_runtime_is_recognized_by_its_program():
    info = {
        "DefaultRuntime": "safe",
        "Runtimes": {"safe": {"path": "/usr/bin/runsc"}, "kata": {"runtimeType": "io.containerd.kata.v2"}, "runc": {}},
    }
    assert {name: found.kind for name, found in known(info).items()} == {"safe": "runsc", "kata": KATA, "runc": ""}
    assert choose(info, None).name == "safe"
    assert choose({}, None) == Runtime("runc")
    with pytest.raises(DriverError, match="Kata Containers runs programs on a kernel of its own"):
        choose(info, "kata")
