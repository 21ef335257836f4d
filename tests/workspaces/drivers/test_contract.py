"""What every driver of this host promises."""

import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from tests.support.waiting import until
from tests.workspaces.drivers.runs import RUNTIME_CLASSES, VARIANTS, Blocking, Running, driver_at, driver_of, finish
from workspaces.drivers.base import DriverError, RunRecord, RunSpec
from workspaces.drivers.init_client import InitClient, InitRefused

STARTS_IN = {"docker": 0.8, "gvisor": 2.0, "kubernetes": 2.0, "gvisor_pod": 3.0, "pod_of_host_users": 2.0}  # seconds


@pytest.fixture
def run(driver_name, begin) -> Running:
    return begin(driver_name)


@pytest.mark.also(*VARIANTS)
def test_a_program_works_in_the_tree(run):
    output, status = run.sh("echo hello > note; cat note; exit 3")
    assert (output, status) == ("hello\n", 3)
    assert (run.tree / "note").read_text() == "hello\n"
    assert (run.tree / "note").stat().st_uid == run.file_uid


def test_a_signal_that_ends_a_program_is_reported(run):
    assert run.sh("kill -SEGV $$") == ("", -signal.SIGSEGV)


def test_a_program_that_does_not_exist_is_refused_by_name(run):
    with InitClient(run.owner.address.socket) as init:
        with pytest.raises(InitRefused, match=r"^/nowhere/tool: No such file or directory$"):
            init.start(["/nowhere/tool"], env={}, cwd=run.owner.address.cwd, stdio="pipe")
        with pytest.raises(InitRefused, match=r"^/nowhere: No such file or directory$"):
            init.start(["/bin/true"], env={}, cwd="/nowhere", stdio="pipe")


def test_bytes_that_are_not_utf8_arrive_as_they_are(run):
    name = os.fsdecode(b"caf\xe9")
    with InitClient(run.owner.address.socket) as init:
        env = {"PATH": "/usr/bin:/bin", "NAME": name}
        started = init.start(
            ["/bin/sh", "-c", 'touch "$0"; [ "$0" = "$NAME" ]', name],
            env=env,
            cwd=run.owner.address.cwd,
            stdio="pipe",
        )
        assert finish(init, started) == ("", 0)
    assert run.names() == [b"caf\xe9"]


def test_the_environment_is_what_was_set_and_nothing_of_ours(driver_name, begin, monkeypatch):
    monkeypatch.setenv("HANDRAIL_CANARY", "secret")
    run = begin(driver_name, env={"PROJECT": "payments"})
    output, _ = run.sh("env", env={"STEP": "1"})
    found = dict(line.split("=", 1) for line in output.splitlines())
    assert (found.pop("PWD"), found.pop("STEP"), found["PROJECT"]) == (run.owner.address.cwd, "1", "payments")
    assert {key for key in found if key not in ("_", "SHLVL", "OLDPWD")} == set(run.owner.address.env)
    assert "secret" not in output
    if os.getuid() == 0:  # nobody else can read it at all
        environ = Path(f"/proc/{run.owner.pid}/environ").read_bytes().split(b"\0")
        # bwrap sets PWD; an engine sets the others.
        assert {entry.split(b"=")[0] for entry in environ} <= {b"", b"PWD", b"PATH", b"HOSTNAME", b"HOME", b"LC_ALL"}


def test_standard_output_can_be_opened_by_its_name(run):
    assert run.sh("echo one > /dev/stdout; echo two > /dev/stderr") == ("one\ntwo\n", 0)


@pytest.mark.lacks("elsewhere")
def test_no_program_runs_as_root(run):
    run.leave("exec sleep 60")
    pids = [run.owner.pid, *children(run.owner.pid)]
    assert [uids(pid) for pid in pids] == [[run.spec.uid] * 4] * 2


def test_root_is_refused(run):
    with pytest.raises(DriverError, match="never runs as root"):
        run.do.start(replace(run.spec, run_id="as-root", uid=0))
    assert [owner.run_id for owner in run.do.records()] == [run.spec.run_id]


def test_a_run_id_that_is_a_path_is_refused(run):
    with pytest.raises(DriverError, match="cannot be the name of a Run"):
        run.do.start(replace(run.spec, run_id="../elsewhere"))


def test_a_folder_that_does_not_exist_is_refused(run):
    with pytest.raises(DriverError, match="does not exist"):
        run.do.start(replace(run.spec, run_id="nowhere", workspace=run.ground / "nowhere"))


# Files of the system, where /etc is the driver's to make

SYSTEM_FILES = {"claude-code/managed-settings.json": b"ours\n"}
TAKING_THEM_AWAY = (
    "echo theirs > managed-settings.json",
    "chmod 666 managed-settings.json",
    "rm -f managed-settings.json",
    "mv managed-settings.json old",
    "echo theirs > /tmp/theirs && mv -f /tmp/theirs managed-settings.json",
    "ln -sf /tmp/theirs managed-settings.json",
    "mkdir managed-settings.d",
    "mv /etc/claude-code /etc/old",
    "rm -rf /etc/claude-code",
    "mount -t tmpfs none /etc/claude-code",
    "umount /etc/claude-code",
)


@pytest.mark.needs("network")
def test_programs_can_only_read_the_files_of_the_system(driver_name, begin):
    run = begin(driver_name, system_files=SYSTEM_FILES)
    look = "cd /etc/claude-code && ls -A && cat managed-settings.json"
    assert run.sh(look) == ("managed-settings.json\nours\n", 0)
    for attempt in TAKING_THEM_AWAY:
        assert run.sh(f"cd /etc/claude-code; ({attempt}) 2> /dev/null")[1] != 0, attempt
    assert run.sh(look) == ("managed-settings.json\nours\n", 0)
    run.do.stop(run.owner, grace_s=0.0)
    with run.again_up() as again:
        assert again.sh(look) == ("managed-settings.json\nours\n", 0)


@pytest.mark.needs("shows_manifest")
@pytest.mark.also("gvisor")
def test_programs_can_only_read_the_manifest(driver_name, begin):
    run = begin(driver_name, manifest=b"first, longer\n")
    look = "cat .handrail/manifest.json; find .handrail/manifest.json -printf '%U\\n'"
    assert run.sh(look) == (f"first, longer\n{run.sh('id -u')[0]}", 0)
    for attempt in (
        "echo x >> manifest.json",
        "rm -f manifest.json",
        "mv manifest.json other",
        "chmod 666 manifest.json",
    ):
        assert run.sh(f"cd .handrail; ({attempt}) 2> /dev/null")[1] != 0, attempt
    run.driver.show_manifest(run.spec.run_id, b"second\n")
    assert run.sh("cat .handrail/manifest.json") == ("second\n", 0)
    assert run.sh("mkdir d; echo notes > .handrail/notes; cat .handrail/notes") == ("notes\n", 0)
    run.do.stop(run.owner, grace_s=0.0)
    with run.again_up() as again:
        assert again.sh("cat .handrail/manifest.json") == ("first, longer\n", 0)


@pytest.mark.needs("shows_manifest")
@pytest.mark.lacks("files_need_run")
def test_nothing_of_the_manifest_is_in_the_tree(driver_name, begin):
    run = begin(driver_name, manifest=b"shown\n")
    run.driver.show_manifest(run.spec.run_id, b"second\n")
    run.do.stop(run.owner, grace_s=0.0)
    assert (run.tree / ".handrail/manifest.json").read_bytes() == b""


@pytest.mark.needs("shows_manifest")
def test_no_manifest_is_shown_over_a_file_of_the_trees_own(driver_name, begin):
    run = begin(driver_name)
    assert run.sh("mkdir .handrail; echo mine > .handrail/manifest.json")[1] == 0
    run.do.stop(run.owner, grace_s=0.0)
    run.spec = replace(run.spec, manifest=b"ours\n")
    with run.again_up() as again:
        assert again.sh("cat .handrail/manifest.json") == ("mine\n", 0)


# What happens twice


def test_starting_a_run_twice_gives_the_same_run(run):
    again = run.again().start(run.spec)
    assert again == run.owner


def test_a_run_that_has_ended_does_not_start_again(run):
    run.do.stop(run.owner, grace_s=0.0)
    with pytest.raises(DriverError, match="has ended"):
        run.again().start(run.spec)


def test_stopping_and_clearing_twice_is_no_error(run):
    for _ in range(2):
        run.do.stop(run.owner, grace_s=0.0)
    for _ in range(2):
        run.do.clear(run.owner)
    assert run.do.records() == []


# A new runner


def test_a_new_runner_finds_the_run_and_its_programs(run):
    run.leave("exec sleep 61")
    [owner] = run.again().records()
    assert owner == run.owner
    assert run.again().alive(owner) is True
    until(lambda: [process.argv for process in run.again().processes(owner)] == [("sleep", "61")])


@pytest.mark.also(*VARIANTS)
def test_a_run_outlives_the_runner_that_started_it(run):
    script = textwrap.dedent("""
        import asyncio, os, signal, sys
        from tests.workspaces.drivers.test_contract import spec_of
        spec, driver = spec_of(*sys.argv[1:])
        asyncio.run(driver.start(spec))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    runner = subprocess.run([sys.executable, "-c", script, *arguments_of(run, "orphan")])
    assert runner.returncode == -signal.SIGKILL
    owner = next(owner for owner in run.again().records() if owner.run_id == "orphan")
    assert run.again().alive(owner) is True
    run.again().stop(owner, grace_s=0.0)
    run.again().clear(owner)


def test_a_runner_killed_while_it_starts_a_run_leaves_a_true_record(run):
    script = textwrap.dedent("""
        import asyncio, sys
        from tests.workspaces.drivers.test_contract import spec_of
        spec, driver = spec_of(*sys.argv[1:])
        print("now", flush=True)
        asyncio.run(driver.start(spec))
        print("done", flush=True)
        input()
    """)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for number in range(6):
        run_id = f"killed-{number}"
        with subprocess.Popen(
            [sys.executable, "-c", script, *arguments_of(run, run_id)], stdout=subprocess.PIPE, stdin=subprocess.PIPE
        ) as runner:
            runner.stdout.readline()
            # Up to the time that a start takes: any of its steps may be hit.
            time.sleep(chance.uniform(0, STARTS_IN.get(run.name, 0.12)))
            runner.kill()
        found = [owner for owner in run.again().records() if owner.run_id == run_id]
        for owner in found:
            # Either it came up whole, or it is going down by itself: never something in between that stays.
            if until(lambda owner=owner: settled(run, owner), 30) == "alive":
                run.again().stop(owner, grace_s=0.0)
            assert run.again().alive(owner) is False
            run.again().clear(owner)
        assert processes_holding(run.ground / "handrail" / "runs" / run_id / "lock") == []


def test_a_run_of_another_boot_is_gone_and_one_of_another_host_unclear(run):
    assert run.do.alive(replace(run.owner, boot_id="before")) is False
    assert run.do.end_reason(replace(run.owner, boot_id="before")) == "host_restarted"
    with pytest.raises(DriverError, match="belongs to the host elsewhere"):
        run.do.alive(replace(run.owner, host="elsewhere"))


def test_a_record_survives_as_json(run):
    assert RunRecord.from_json(run.owner.to_json()) == run.owner


# Programs


def test_zombies_are_reaped(run):
    run.sh("for i in 1 2 3 4 5; do (sleep 0.05 & exec true) & done; wait")
    until(lambda: run.do.processes(run.owner) == [])
    assert [pid for pid in children(run.owner.pid) if state(pid) == "Z"] == []


def test_what_a_command_leaves_behind_stays_and_is_listed(run):
    run.sh("sleep 62 > /dev/null 2>&1 &")
    until(lambda: run.commands() == ["sleep 62"])


def test_a_leftover_may_go_on_writing_where_nobody_reads(run):
    with InitClient(run.owner.address.socket) as init:
        run.begin(init, "(while sleep 0.1; do echo still here || exit; done; touch died) & exec true")
        until(lambda: (init.read_exits(), init.exits)[1])
        # The connection closes here, with the pipe.
    time.sleep(0.5)
    assert not (run.tree / "died").exists()
    assert len(run.commands()) > 0


def test_open_files_of_the_tree_are_named(run):
    run.leave("exec 9> held; exec sleep 63")
    [process] = until(lambda: [p for p in run.do.processes(run.owner, open_files=True) if p.argv == ("sleep", "63")])
    assert process.open == (f"{run.owner.address.cwd}/held",)
    assert process.cwd == run.owner.address.cwd


@pytest.mark.also(*VARIANTS)
def test_a_client_that_dies_ends_what_it_started_and_nothing_else(run):
    run.leave("exec sleep 64")
    with InitClient(run.owner.address.socket) as init:
        run.begin(init, "sleep 65 & sleep 66")
        until(lambda: len(run.commands()) == 4)
    until(lambda: run.commands() == ["sleep 64"])


def test_ending_a_program_takes_its_children_even_if_they_refuse(run):
    with InitClient(run.owner.address.socket) as init:
        started = run.begin(init, "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & while :; do sleep 1; done")
        until(lambda: len(run.commands()) >= 3)
        init.request("end", pid=started.pid, grace_s=0.2)
        assert finish(init, started)[1] == -signal.SIGKILL
    until(lambda: run.commands() == [])


@pytest.mark.also("gvisor")
def test_a_terminal_is_one_and_resizes(run):
    with InitClient(run.owner.address.socket) as init:
        started = run.begin(init, "tty > name; stty size; ps -o tty= -p $$ > /dev/null", stdio="pty", cols=132, rows=43)
        assert finish(init, started)[0] == "43 132\r\n"
    assert (run.tree / "name").read_text().startswith("/dev/pts/")


@pytest.mark.also("gvisor")
def test_descriptors_can_be_handed_in(run):
    read_end, write_end = os.pipe()
    with open(os.devnull) as null, InitClient(run.owner.address.socket) as init:
        env, cwd = dict(run.owner.address.env), run.owner.address.cwd
        fds = [null.fileno(), write_end, write_end]
        answer = init.request("start", argv=["/bin/echo", "hi"], env=env, cwd=cwd, stdio="given", fds=fds)
        os.close(write_end)
        with open(read_end) as output:
            assert (output.read(), answer["fds"]) == ("hi\n", 0)


def test_nonsense_on_the_socket_harms_nobody(run):
    for request in ({"op": "no such"}, {"op": "start"}, {"op": "signal", "pid": "x"}, {"op": "end"}):
        with InitClient(run.owner.address.socket) as init, pytest.raises(InitRefused):
            init.request(**request)
    with InitClient(run.owner.address.socket) as init:
        init._sock.sendall(b"\xff\xff\xff\xff" * 100)
    with InitClient(run.owner.address.socket) as init:
        init._sock.sendall(b"\x00\x00\x00\x04\xff\xff\xff\xff")
    with InitClient(run.owner.address.socket) as init:
        init._sock.sendall(b"\x00\x00\x00\x02[]")
    assert run.sh("echo fine") == ("fine\n", 0)


# The end


def test_stop_asks_first(run):
    run.leave("trap 'echo asked > asked; exit' TERM; sleep 600 & echo up > up; wait")
    until((run.tree / "up").exists)
    run.do.stop(run.owner)
    assert (run.tree / "asked").read_text() == "asked\n"
    assert run.do.alive(run.owner) is False
    assert run.do.end_reason(run.owner) == "stopped"


def test_stop_kills_what_refuses(run):
    run.leave("trap '' TERM; while :; do sleep 1; done")
    until(lambda: len(run.commands()) == 2)
    before = children(run.owner.pid)
    run.do.stop(run.owner, grace_s=0.2)
    assert {state(pid) for pid in before} <= {None, "Z"}  # dead; the host's own init may not have reaped it yet


@pytest.mark.lacks("elsewhere")
def test_an_init_that_is_killed_takes_its_programs_along(run):
    run.leave("exec sleep 67")
    [program] = until(lambda: children(run.owner.pid))
    os.kill(run.owner.pid, signal.SIGKILL)
    until(lambda: not run.do.alive(run.owner))
    until(lambda: state(program) is None)
    assert run.do.end_reason(run.owner) == "crashed"


@pytest.mark.lacks("elsewhere")
def test_what_is_left_of_a_run_whose_init_was_killed_is_swept(run):
    run.leave("sleep 69; true")
    [shell] = until(lambda: children(run.owner.pid))
    # Programs of a guest are none of this host; its machine is.
    programs = [shell, *([] if run.driver.capabilities.files_need_run else until(lambda: children(shell)))]
    os.kill(run.owner.pid, signal.SIGKILL)
    until(lambda: not run.do.alive(run.owner))
    run.do.stop(run.owner)
    until(lambda: {state(pid) for pid in programs} <= {None, "Z"})


def test_an_init_that_hangs_is_killed(run):
    os.kill(run.owner.pid, signal.SIGSTOP)
    run.do.stop(run.owner, grace_s=0.0)
    assert run.do.alive(run.owner) is False


def test_a_run_that_is_alive_is_not_cleared(run):
    with pytest.raises(DriverError, match="stop it first"):
        run.do.clear(run.owner)
    assert run.sh("echo here") == ("here\n", 0)


@pytest.mark.also("gvisor")
def test_clear_leaves_nothing_but_the_tree(run):
    run.do.stop(run.owner, grace_s=0.0)
    run.do.clear(run.owner)
    left = [*(run.ground / "handrail" / "runs").iterdir(), *(run.ground / "run").iterdir()]
    assert left == []
    assert [os.path.exists(group) for group in run.owner.cgroups] == [False] * len(run.owner.cgroups)


def test_a_copy_of_its_home_clears_nothing_of_the_original(run):
    run.leave("exec sleep 70")
    copied = run.ground / "copied"
    subprocess.run(["cp", "-a", run.driver.home, copied], check=True)
    other = Blocking(driver_at(run.name, copied, run.ground / "run-of-copy"))
    for owner in other.records():  # as a runner does with what is over
        if not other.alive(owner):
            other.clear(owner)
    if run.driver.name == "docker":
        assert other.driver.sweep() == []
    assert run.sh("echo on") == ("on\n", 0)
    until(lambda: "sleep 70" in run.commands())


def test_the_files_can_be_read_when_its_programs_have_ended(run):
    run.sh("echo kept > file")
    run.leave("exec sleep 71")
    run.do.end_programs(run.owner, grace_s=0.0)
    with run.driver.tree(run.owner).files() as files, closing(files.open(b"file")) as file:
        assert file.pread(100, 0) == b"kept\n"
    assert run.do.alive(run.owner) is run.driver.capabilities.files_need_run
    run.do.stop(run.owner)
    at_rest = run.driver.tree_at_rest(run.spec.workspace)
    assert (at_rest is None) is run.driver.capabilities.files_need_run
    if at_rest is not None:
        with at_rest.files() as files:
            assert b"file" in dict(files.entries(b""))


def test_a_tree_says_whose_new_files_are(run):
    own = None if run.driver.capabilities.files_need_run else (200, 200)
    assert (run.driver.file_owner(200), run.driver.file_owner(None)) == (own, None)


@pytest.mark.also("gvisor")
def test_its_listening_sockets_are_those_of_its_network(run):
    assert all("local_address" in table for table in run.driver.tcp_tables(run.owner))
    assert bool(run.driver.tcp_tables(run.owner)) is run.driver.capabilities.network


# Freezing, where a driver can


@pytest.mark.lacks("freeze")
def test_freeze_is_refused_where_it_is_not_promised(run):
    assert run.driver.capabilities.freeze is False
    with pytest.raises(DriverError, match="cannot be frozen"):
        run.do.freeze(run.owner)


@pytest.mark.needs("freeze")
def test_nothing_moves_while_frozen_and_all_goes_on_after(run):
    # Forks all the time, in several processes.
    for number in range(4):
        run.leave(f"while :; do (echo x >> ticks-{number}); done")
    ticks = [run.tree / f"ticks-{number}" for number in range(4)]
    until(lambda: all(tick.exists() for tick in ticks))
    for _ in range(5):
        run.do.freeze(run.owner)
        assert run.again().frozen(run.owner) is True
        assert {process.state for process in run.do.processes(run.owner)} == {"T"}
        before = [tick.stat().st_size for tick in ticks]
        time.sleep(0.1)
        assert [tick.stat().st_size for tick in ticks] == before
        run.again().thaw(run.owner)
        until(lambda before=before: all(tick.stat().st_size > size for tick, size in zip(ticks, before, strict=True)))
    assert run.do.frozen(run.owner) is False


@pytest.mark.needs("freeze")
def test_a_frozen_run_starts_nothing(run):
    run.do.freeze(run.owner)
    with InitClient(run.owner.address.socket) as init, pytest.raises(InitRefused, match=r"^frozen$"):
        run.begin(init, "echo")
    run.do.thaw(run.owner)
    assert run.sh("echo on") == ("on\n", 0)


@pytest.mark.needs("freeze")
@pytest.mark.also("gvisor")
def test_what_was_stopped_before_stays_stopped_after(run):
    run.leave("kill -STOP $$; touch woken")
    until(lambda: [process.state for process in run.do.processes(run.owner)] == ["T"])
    run.do.freeze(run.owner)
    run.do.thaw(run.owner)
    time.sleep(0.1)
    assert [process.state for process in run.do.processes(run.owner)] == ["T"]
    assert not (run.tree / "woken").exists()


@pytest.mark.needs("freeze")
def test_a_frozen_run_can_be_stopped(run):
    run.leave("exec sleep 68")
    run.do.freeze(run.owner)
    run.do.stop(run.owner)
    assert run.do.alive(run.owner) is False


# As somebody else


def test_all_of_this_holds_for_an_ordinary_user(ground, ordinary_user):
    ground.chmod(0o777)
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k", "not ordinary_user"],
        user=ordinary_user,
        group=ordinary_user,
        extra_groups=[],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(ground), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(ground)},
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert int(re.search(r"(\d+) passed", outcome.stdout).group(1)) > 50, outcome.stdout  # of those it can have


def spec_of(name, ground, run_id, tree, home, uid, image):
    places = (Path(tree), Path(home) if home else None)
    runtime_class = RUNTIME_CLASSES.get(name, "")
    spec = RunSpec(run_id, "1", "key", *places, uid=int(uid), image=image or None, runtime_class=runtime_class)
    return spec, driver_of(name, Path(ground))


def arguments_of(run, run_id):
    """For `spec_of` in another process: another Run of the workspace, or of one more where a disk has one user."""
    spec = run.spec
    if run.driver.capabilities.files_need_run:
        folders = [run.ground / f"{name}-{run_id}" for name in ("tree", "home")]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        spec = replace(spec, workspace=folders[0], home=folders[1])
        run.do.prepare(spec)
    folders = [str(spec.workspace), str(spec.home or "")]
    return [run.name, str(run.ground), run_id, *folders, str(spec.uid), spec.image or ""]


def settled(run, owner):
    if not run.again().alive(owner):
        return "gone"
    try:
        with InitClient(owner.address.socket, timeout_s=0.5):
            return "alive"
    except DriverError:
        return ""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def uids(pid: int) -> list[int]:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Uid:"))
    return [int(field) for field in line.split()[1:]]


def state(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def processes_holding(path: Path) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            if any(os.readlink(folder / fd) == str(path) for fd in os.listdir(folder)):
                found.append(int(folder.parent.name))
        except OSError:
            continue
    return found
