"""What a container keeps apart and lets a program use, and what becomes of it when its engine goes away."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from docker.errors import NotFound

from tests.support.engine import BUSYBOX, Client, Engine, lacks, make_busybox
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, Blocking, Running, lend_bundle, why_not
from workspaces.drivers.base import Build, DriverError, ImageMissing, Layer, Limits, get_driver
from workspaces.drivers.docker import dockerfile
from workspaces.drivers.init.spawn import SPARE_PROCESSES
from workspaces.drivers.init_client import InitClient

MIB = 1 << 20
ADDRESS = OPTIONS["docker"]["address"]


@pytest.fixture
def run(begin):
    return begin("docker")


@pytest.fixture
def engine():
    with Client(ADDRESS) as client:
        yield client


@pytest.fixture(scope="module")
def busybox(require):
    if why := why_not("docker", False):
        require("docker", why)
    return make_busybox(ADDRESS, env=["ENV TOOLS=/opt/tools", "ENV LD_PRELOAD=/opt/evil.so"])


def container_of(run) -> str:
    return run.driver.engine.name_of(run.spec.run_id)


def test_a_program_is_the_agent_in_its_workspace(run):
    output, _ = run.sh("id -u; id -g; id -un; hostname; pwd; echo $HOME; touch ~/kept /tmp/fresh && echo written")
    uid = str(run.spec.uid)
    assert output.split() == [uid, uid, "agent", "payments-fix", "/workspace", "/home/agent", "written"]
    assert (run.home / "kept").stat().st_uid == run.spec.uid


def test_no_right_is_left_and_the_root_is_read_only(run):
    wanted = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    status = dict(line.split(":\t") for line in run.sh("cat /proc/self/status")[0].splitlines() if ":\t" in line)
    assert [status[name] for name in wanted] == ["0" * 16] * 5 + ["1", "2"]
    for path in ("/x", "/usr/x", "/etc/passwd", "/.handrail/x", "/.handrail/run/x", "/.handrail/init.pyz"):
        assert run.sh(f"echo x 2>/dev/null >> {path}")[1] != 0, path


def test_there_is_no_network_but_its_own_loopback(run):
    assert run.sh("ls /sys/class/net")[0].split() == ["lo"]
    assert "127.0.0.1 handrail.internal" in run.sh("cat /etc/hosts")[0]


def test_the_init_cannot_be_read_or_used_by_the_workspace(run):
    for path in ("environ", "mem", "fd/0", "cwd/x"):
        assert run.sh(f"cat /proc/1/{path} 2>/dev/null")[1] != 0, path
    run.sh("kill -KILL 1; kill -TERM 1; kill -STOP 1")
    # Neither its socket nor the door through which it came is there to be reached.
    assert run.sh("find / -type s 2>/dev/null")[0] == ""
    assert run.do.alive(run.owner) is True


def test_an_image_without_python_and_bash_will_do(begin, busybox):
    run = begin("docker", image=busybox)
    assert run.owner.address.shell == "/bin/sh"
    assert run.sh("echo $TOOLS; ls /usr 2>/dev/null; echo on")[0] == "/opt/tools\non\n"


def test_the_init_takes_nothing_from_the_image(begin, busybox):
    run = begin("docker", image=busybox)
    if os.getuid() == 0:
        environ = Path(f"/proc/{run.owner.pid}/environ").read_bytes()
        assert b"LD_PRELOAD" not in environ
        mapped = Path(f"/proc/{run.owner.pid}/maps").read_text().split()
        assert {word.split("/")[1] for word in mapped if word.startswith("/")} == {".handrail"}


MARK_C = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void) { close(open("/workspace/mark", O_CREAT | O_WRONLY, 0666)); }
"""


@pytest.fixture(scope="module")
def preloading(require, tmp_path_factory):
    """An image whose /etc/ld.so.preload names a library that leaves a mark wherever it is loaded."""
    if why := why_not("docker", False):
        require("docker", why)
    if (compiler := shutil.which("cc")) is None:
        require("docker", "there is no C compiler to make a library with")
    folder = tmp_path_factory.mktemp("mark")
    (folder / "mark.c").write_text(MARK_C)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "mark.so", folder / "mark.c"], check=True)
    files = {"etc/ld.so.preload": b"/opt/mark.so\n", "opt/mark.so": (folder / "mark.so").read_bytes()}
    return make_busybox(ADDRESS, files=files, name="handrail/test:preload")


@pytest.mark.parametrize("phase", ["agent", "setup"])
def test_a_library_that_the_image_preloads_is_not_in_the_init(begin, preloading, phase):
    run = begin("docker", image=preloading, phase=phase)
    assert run.sh("ls /workspace; cat /etc/ld.so.preload; ls /opt") == ("mark.so\n", 0)
    if os.getuid() == 0:
        mapped = Path(f"/proc/{run.owner.pid}/maps").read_text()
        assert "mark.so" not in mapped


def test_a_set_up_writes_no_list_of_libraries_for_the_next_start(begin, preloading):
    run = begin("docker", image=preloading, phase="setup")
    for script in (
        "echo /opt/mark.so > /etc/ld.so.preload",
        "rm -f /etc/ld.so.preload",
        "mv /etc/ld.so.preload /etc/x",
    ):
        assert run.sh(f"{script} 2>/dev/null")[1] != 0, script
    assert run.sh("cat /etc/ld.so.preload") == ("", 0)


SYSTEM_FILES = {"claude-code/managed-settings.json": b"ours\n"}


def test_settings_of_the_system_that_the_image_brings_give_way_to_ours(begin, busybox):
    theirs = {
        "etc/claude-code/managed-settings.json": b"theirs\n",
        "etc/claude-code/managed-settings.d/more.json": b"theirs\n",
    }
    image = make_busybox(ADDRESS, files=theirs, name="handrail/test:managed")
    run = begin("docker", image=image, system_files=SYSTEM_FILES)
    assert run.sh("cd /etc/claude-code && ls -A && cat managed-settings.json") == ("managed-settings.json\nours\n", 0)


def test_an_image_that_leads_settings_of_the_system_into_the_agents_home_is_refused(begin, busybox, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {busybox}\nRUN ln -s /home/agent/a/b /etc/claude-code\n")
    run = begin("docker", image=busybox)
    image = run.do.build_image(Build(tmp_path), "linked")
    with pytest.raises(DriverError, match="/etc/claude-code must not be a link"):
        begin("docker", image=image, system_files=SYSTEM_FILES)


def test_nothing_is_fetched_for_an_image_that_is_not_here(run):
    with pytest.raises(ImageMissing, match="no image 'handrail/nowhere:1' on this Docker engine, and Handrail pulls"):
        run.do.find_image("handrail/nowhere:1")


def test_the_digest_is_in_the_record(run, engine):
    assert run.owner.image == engine.inspect_container(container_of(run))["Image"] == run.spec.image


def test_memory_over_the_limit_ends_the_program_and_the_run_goes_on(begin):
    run = begin("docker", limits=Limits(memory=64 * MIB, cpus=1.5, pids=50))
    assert run.owner.limits == {"memory", "cpus", "pids"}
    assert run.sh("exec python3 -c 'x = bytearray(200 << 20)'")[1] == -signal.SIGKILL
    assert run.sh("echo on") == ("on\n", 0)
    os.kill(run.owner.pid, signal.SIGKILL)
    until(lambda: not run.do.alive(run.owner))
    assert run.do.end_reason(run.owner) == "out_of_memory"


def test_a_container_has_a_limit_on_processes_that_nobody_asked_for(run, engine):
    assert run.owner.limits == {"pids"}
    asked = "exec bash -c 'ulimit -Su; ulimit -Hu; ulimit -u 2049 2>/dev/null || ulimit -u'"
    assert run.sh(asked)[0].split() == ["2048"] * 3
    # The init has the rest, to start something that ends the others.
    assert engine.inspect_container(container_of(run))["HostConfig"]["PidsLimit"] == 2048 + SPARE_PROCESSES


def test_after_a_fork_bomb_a_command_starts_and_can_end_all_others(begin):
    run = begin("docker", limits=Limits(pids=60))
    with InitClient(run.owner.address.socket) as init:
        run.begin(init, "exec bash -c 'b() { b | b & }; b; exec sleep 60' 2>/dev/null")
        until(lambda: len(run.commands()) > 40)
    assert run.sh("exec bash -c 'echo inside; kill -KILL -1; echo on'")[0].split()[0] == "inside"
    until(lambda: run.commands() == [])
    assert run.sh("true | id -u") == (f"{run.spec.uid}\n", 0)


def test_a_container_removed_behind_our_back_says_so(run, engine):
    engine.remove_container(container_of(run), force=True)
    until(lambda: not run.again().alive(run.owner))
    assert run.again().end_reason(run.owner) == "removed"


def test_a_container_that_somebody_paused_can_be_stopped(run, engine):
    engine.pause(container_of(run))
    assert run.do.alive(run.owner) is True
    run.do.stop(run.owner, grace_s=0.0)
    assert run.do.alive(run.owner) is False


def test_a_container_that_only_has_our_name_is_left_alone(run, engine, busybox):
    name = run.driver.engine.name_of("taken")
    engine.create_container(busybox, name=name, command=["true"])
    try:
        with pytest.raises(DriverError, match="is not Handrail's; it is left alone"):
            run.do.start(replace(run.spec, run_id="taken"))
        assert engine.inspect_container(name)["State"]["Status"] == "created"
    finally:
        engine.remove_container(name)


def test_a_container_of_ours_that_no_record_knows_is_swept(run, engine):
    (run.ground / "handrail" / "runs" / run.spec.run_id).rename(run.ground / "handrail" / "aside")
    assert run.driver.sweep() == [container_of(run)]
    assert engine.containers(all=True, filters={"name": container_of(run)}) == []


def test_what_a_set_up_installs_is_a_layer_and_its_files_are_the_workspaces(begin, ground):
    setup = begin("docker", phase="setup", env={"PROJECT": "payments"})
    assert setup.sh("id -u; echo tool > /opt/tool; mkdir deep; echo x > deep/made; chmod u+s deep/made")[0] == "0\n"
    assert setup.sh("exec env", env={"TOKEN": "planted-secret"})[1] == 0
    setup.do.stop(setup.owner)
    made = setup.tree / "deep" / "made"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (made, made.parent)} == {(setup.spec.uid,) * 2}
    assert made.stat().st_mode & 0o7000 == 0
    shown = {}
    layer = Layer(f"test-{os.getpid()}", touched_workspace=False)
    kept = setup.do.keep_layer(setup.owner, layer, inspect=lambda path, file: shown.update({path: file.read()}))
    try:
        assert shown["/opt/tool"] == b"tool\n"
        assert setup.do.find_layer(layer.name) == kept
        run = begin("docker", image=kept.digest)
        assert run.sh("cat /opt/tool; id -u")[0] == f"tool\n{run.spec.uid}\n"
        with Client(ADDRESS) as client:
            config = str(client.inspect_image(kept.digest)) + str(client.history(kept.digest))
        assert ("planted-secret" in config, "PROJECT" in config) == (False, False)
        # It goes once it is old, nobody names it and nothing runs on it.
        name = f"handrail/setup:{run.driver.engine.tag_of(layer.name)}"
        assert run.do.collect({layer.name}, older_than_s=0) == run.do.collect({kept.digest}, older_than_s=0) == []
        assert run.do.collect(set(), older_than_s=0) == []
        run.end()
        setup.end()
        assert run.do.collect(set(), older_than_s=3600) == []
        assert run.do.collect(set(), older_than_s=-60) == [name]
        assert setup.do.find_layer(layer.name) is None
    finally:
        with Client(ADDRESS) as client, suppress(NotFound):
            client.remove_image(kept.digest, force=True)


def test_a_layer_that_somebody_else_made_under_this_name_is_not_taken(run, engine):
    tag = run.driver.engine.tag_of("foreign")
    engine.tag(run.spec.image, "handrail/setup", tag)
    assert run.do.find_layer("foreign") is None
    engine.remove_image(f"handrail/setup:{tag}")


def test_an_image_is_built_from_a_folder_without_network(run, busybox, tmp_path):
    (tmp_path / "tool").write_text("built\n")
    (tmp_path / "Dockerfile").write_text(f"FROM {busybox}\nCOPY tool /opt/tool\nRUN ls /sys/class/net > /opt/net\n")
    image = run.do.build_image(Build(tmp_path), "test")
    built = replace(run.spec, run_id="built", image=image)
    owner = run.do.start(built)
    run.do.stop(owner, grace_s=0.0)
    run.do.clear(owner)
    (tmp_path / "Dockerfile").write_text("FROM handrail/nowhere:1\n")
    with pytest.raises(ImageMissing):
        run.do.build_image(Build(tmp_path), "test")
    (tmp_path / "Dockerfile").write_text(f"FROM {busybox}\nRUN exit 3\n")
    with pytest.raises(DriverError, match="could not be built"):
        run.do.build_image(Build(tmp_path), "test")


def test_a_build_takes_another_dockerfile_with_arguments_and_a_target(run, busybox, engine, tmp_path):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "dev").write_text(
        "ARG BASE=handrail/nowhere:1\nFROM $BASE AS dev\nARG WHO\nLABEL who=$WHO\nFROM handrail/nowhere:1 AS prod\n"
    )
    build = Build(tmp_path, "docker/dev", {"BASE": busybox, "WHO": "tester"}, "dev")
    image = run.do.build_image(build, "args")
    assert engine.inspect_image(image)["Config"]["Labels"]["who"] == "tester"
    with pytest.raises(DriverError, match="has no stage named test"):
        run.do.build_image(replace(build, target="test"), "args")
    with pytest.raises(DriverError, match="There is no file"):
        run.do.build_image(replace(build, dockerfile="../dev"), "args")


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM a:1\nRUN x", ["a:1"]),
        ("# FROM b\nfrom \\\n  a:1 as one\nFROM one\nCOPY --from=c:2 /x /y\nCOPY --from=one /x /y", ["a:1", "c:2"]),
        ("FROM --platform=linux/amd64 a\nFROM scratch\nCOPY --from=0 /x /y", ["a"]),
        ("ARG B=a\nFROM $B", ["a"]),
        ("ARG B\nFROM ${B:-a}:1", ["a:1"]),
        ("ARG B\nFROM $B", "write out the image"),
        ("FROM a\nARG B=b\nFROM $B", "write out the image"),
        ("FROM a\nADD https://example.org/x /y", "needs a network"),
    ],
)
def test_what_a_build_needs_is_read_before_it_is_begun(tmp_path, text, bases):
    (tmp_path / "Dockerfile").write_text(text)
    if isinstance(bases, list):
        assert dockerfile.bases(Build(tmp_path)) == bases
    else:
        with pytest.raises(DriverError, match=bases):
            dockerfile.bases(Build(tmp_path))


# An engine that goes away


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory) -> dict[str, Path]:
    """Programs that an engine takes for other runtimes: each writes down what it is asked, and lets runc do it."""
    folder = tmp_path_factory.mktemp("runtimes")
    made = {name: folder / name for name in ("told", "kata")}
    for program in made.values():
        program.write_text(f'#!/bin/sh\necho "$@" >> {program}.asked\nexec runc "$@"\n')
        program.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def own_engine(require, runtimes):
    if why := lacks():
        require("engine", why)
    engine = Engine(runtimes)
    try:
        engine.start()
        make_busybox(engine.address)
        yield engine
    finally:
        engine.clean_up()


@pytest.fixture
def own(own_engine, ground, monkeypatch):
    """A Run on an engine that the test may kill."""
    monkeypatch.setitem(OPTIONS, "docker", {"address": own_engine.address})
    lend_bundle(ground / "handrail")
    running = Running("docker", ground, image=BUSYBOX)
    yield running
    if own_engine.process is None:
        own_engine.start()
    running.end()


def test_an_engine_that_is_killed_takes_no_program_along(own, own_engine):
    own.leave("exec sleep 70")
    own_engine.stop(signal.SIGKILL)
    assert own.again().alive(own.owner) is True
    assert own.sh("echo on") == ("on\n", 0)
    own.do.freeze(own.owner)
    own.do.thaw(own.owner)
    with pytest.raises(DriverError, match="does not answer"):
        own.do.start(replace(own.spec, run_id="second"))
    own.do.stop(own.owner, grace_s=0.0)
    # Its programs are ended; that its container is gone nobody can say, so nothing is forgotten.
    with pytest.raises(DriverError, match="does not answer"):
        own.again().alive(own.owner)
    with pytest.raises(DriverError, match="does not answer"):
        own.again().clear(own.owner)
    assert [owner.run_id for owner in own.again().records()] == [own.spec.run_id]
    own_engine.start()
    assert own.again().alive(own.owner) is False
    assert own.again().end_reason(own.owner) == "stopped"


def test_an_engine_that_ends_its_containers_leaves_a_reason(own, own_engine):
    own_engine.stop()
    with pytest.raises(DriverError, match="does not answer"):
        own.again().alive(own.owner)
    with pytest.raises(DriverError, match="does not answer"):
        own.again().end_reason(own.owner)
    assert own.tree.is_dir()
    own_engine.start()
    assert own.again().alive(own.owner) is False
    assert own.again().end_reason(own.owner) == "crashed"


def test_without_an_engine_the_probe_says_so_and_what_to_do(ground):
    probe = Blocking(get_driver("docker", ground, ground, {"address": f"unix://{ground}/nobody"})).probe()
    assert (probe.available, probe.limits) == (False, frozenset())
    assert probe.reason == f"The Docker engine at unix://{ground}/nobody does not answer (No such file or directory)."
    assert "HANDRAIL_DOCKER_HOST" in probe.what_to_do


def test_a_runtime_that_the_engine_does_not_have_is_named(ground, run):
    options = OPTIONS["docker"] | {"runtime": "nowhere"}
    probe = Blocking(get_driver("docker", ground / "handrail", ground / "run", options)).probe()
    assert probe.available is False
    assert probe.reason.startswith("This engine has no runtime 'nowhere'; it has ")


def test_a_runtime_that_is_set_starts_every_container(own, own_engine, runtimes, ground, monkeypatch):
    asked = Path(f"{runtimes['told']}.asked")
    assert not asked.exists()  # the Run of `own` was started by the engine's own runtime
    monkeypatch.setitem(OPTIONS, "docker", {"address": own_engine.address, "runtime": "told"})
    other = Running("docker", ground, image=BUSYBOX)
    try:
        probe = other.do.probe()
        assert (probe.available, ", runtime told." in probe.notes[0]) == (True, True)
        assert other.sh("echo on") == ("on\n", 0)
        with own_engine.client() as client:
            [created] = [line for line in asked.read_text().splitlines() if " create " in f" {line} "]
            assert client.inspect_container(container_of(other))["Id"] in created
    finally:
        other.end()


def test_a_runtime_with_a_machine_of_its_own_is_refused_before_anything_is_made(own, own_engine, runtimes, ground):
    options = {"address": own_engine.address, "runtime": "kata"}
    probe = Blocking(get_driver("docker", ground / "handrail", ground / "run", options)).probe()
    assert probe.available is False
    assert probe.reason.startswith("Kata Containers runs programs on a kernel of its own")
    assert "microvm" in probe.what_to_do
    assert not Path(f"{runtimes['kata']}.asked").exists()
