"""What a sandbox keeps apart, and what it lets a program use."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from tests.support.waiting import until
from tests.workspaces.drivers.runs import Blocking
from workspaces.drivers import launch
from workspaces.drivers.base import Limits, RunSpec, get_driver
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.sandbox.driver import find_bwrap

MIB = 1 << 20


@pytest.fixture
def run(begin):
    return begin("sandbox")


def test_this_host_is_found_able(ground, begin):
    begin("sandbox")
    probe = Blocking(get_driver("sandbox", ground / "handrail", ground / "run")).probe()
    assert (probe.available, probe.reason, probe.what_to_do) == (True, "", "")
    assert os.listdir(ground / "handrail") == ["runs"]


def test_a_program_is_the_agent_in_its_workspace(run):
    output, _ = run.sh("id -u; id -un; hostname; pwd; echo $HOME; touch ~/kept /tmp/fresh && echo written")
    assert output.split() == ["1000", "agent", "payments-fix", "/workspace", "/home/agent", "written"]
    assert (run.home / "kept").exists()


def test_other_processes_cannot_be_seen(run):
    pids = run.sh("ls /proc")[0].split()
    inside = {int(name) for name in pids if name.isdigit()}
    assert 1 in inside
    assert max(inside) < 20


def test_the_hosts_files_are_not_there(run):
    (run.ground / "handrail" / "secret").write_text("secret")
    listing = run.sh("ls /; ls /home; ls /etc")[0].split()
    assert {"root", "var", "boot", "mnt", "srv"} & set(listing) == {"var"}
    assert {"shadow", "machine-id", "ssh", "hostname.new"} & set(listing) == set()
    assert run.sh("ls -A /home /var /run")[0].split() == ["/home:", "agent", "/run:", "/var:", "run", "tmp"]
    assert run.sh(f"cat {run.ground}/handrail/secret 2>/dev/null")[1] == 1


def test_the_system_is_read_only(run):
    for path in ("/usr/x", "/etc/x", "/x", "/etc/passwd", "/usr/bin/env", "/proc/sys/kernel/hostname"):
        assert run.sh(f"echo x 2>/dev/null >> {path}")[1] != 0, path


def test_there_is_no_network_but_its_own_loopback(run):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0handrail-test-{os.getpid()}")
        abstract.listen()
        probe = f"""
            import socket
            addresses = ("127.0.0.1", {listener.getsockname()[1]}), "\\0handrail-test-{os.getpid()}"
            for family, address in zip((socket.AF_INET, socket.AF_UNIX), addresses):
                try:
                    socket.socket(family).connect(address)
                    print("connected")
                except ConnectionRefusedError:
                    print("refused")
            try:
                socket.create_connection(("192.0.2.1", 80), timeout=2)
            except OSError as error:
                print(error.strerror)
            server = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(server.getsockname())
            print([name for _, name in socket.if_nameindex()])
        """
        assert run_python(run, probe) == "refused\nrefused\nNetwork is unreachable\n['lo']\n"


def test_no_right_is_left_and_none_can_be_gained(run):
    wanted = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
    status = dict(line.split(":\t") for line in run.sh("cat /proc/self/status")[0].splitlines() if ":\t" in line)
    assert [status[name] for name in wanted] == ["0" * 16] * 5 + ["1"]
    assert run.sh("unshare --user true 2>/dev/null")[1] != 0
    assert run.sh("unshare --mount true 2>/dev/null")[1] != 0


def test_the_init_cannot_be_read_traced_or_killed(run):
    for path in ("environ", "mem", "fd/0", "cwd/x", "root/x"):
        assert run.sh(f"cat /proc/1/{path} 2>/dev/null")[1] != 0, path
    assert run.sh("ls /proc/1/fd 2>/dev/null")[1] != 0
    for number in ("KILL", "TERM", "INT", "HUP", "STOP", "QUIT", "USR1", "SEGV"):
        run.sh(f"kill -{number} 1")
    probe = """
        import ctypes
        print(ctypes.CDLL(None, use_errno=True).ptrace(16, 1, 0, 0), ctypes.get_errno())
    """
    assert run_python(run, probe) == "-1 1\n"
    assert run.do.alive(run.owner) is True


def test_the_init_holds_nothing_of_the_host_but_its_lock_its_log_and_its_socket(run):
    folder = f"/proc/{run.owner.pid}/fd"
    found = {os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder)}
    own = run.ground / "handrail" / "runs" / run.spec.run_id
    assert {path for path in found if path.startswith("/")} == {"/dev/null", f"{own}/log", f"{own}/lock"}


def test_a_program_starts_with_three_descriptors(run):
    assert run.sh("ls /proc/$$/fd")[0].split() == ["0", "1", "2"]


def test_the_inits_socket_refuses_programs_of_the_workspace(begin, ground):
    # As if somebody had put the runtime folder where the workspace sees it.
    run = begin("sandbox")
    driver = Blocking(get_driver("sandbox", ground / "handrail", run.tree))
    owner = driver.start(RunSpec("inside-out", "1", "k", run.tree, run.home, uid=run.spec.uid))
    os.chown(owner.address.socket, run.spec.uid, -1)
    probe = """
        import socket
        caller = socket.socket(socket.AF_UNIX)
        caller.connect("/workspace/inside-out")
        print(caller.recv(100))
    """
    with InitClient(owner.address.socket) as init:
        started = init.start(["python3", "-c", textwrap.dedent(probe)], env=owner.address.env, cwd="/", stdio="pipe")
        with open(started.fd) as output:
            assert output.read() == "b''\n"
    driver.stop(owner, grace_s=0.0)
    driver.clear(owner)


def test_nothing_can_be_typed_into_another_terminal(run):
    with InitClient(run.owner.address.socket) as init:
        victim = run.begin(init, "tty > victim; read line; echo $line > typed", stdio="pty")
        path = until(lambda: (run.tree / "victim").exists() and (run.tree / "victim").read_text().strip())
        probe = f"""
            import fcntl, os, termios
            fd = os.open("{path}", os.O_RDWR)
            for request, argument in ((termios.TIOCSTI, b"x"), (termios.TIOCSCTTY, 1)):
                try:
                    fcntl.ioctl(fd, request, argument)
                    print("typed")
                except OSError as error:
                    print("refused")
        """
        assert run_python(run, probe) == "refused\nrefused\n"
        os.close(victim.fd)
    assert not (run.tree / "typed").exists()


def test_the_host_name_is_made_of_the_key(begin, ground):
    run = begin("sandbox")
    spec = RunSpec("odd-name", "1", "-ü/..fix_it " + "x" * 90, run.tree, run.home, uid=run.spec.uid)
    owner = run.do.start(spec)
    with InitClient(owner.address.socket) as init:
        started = init.start(["hostname"], env=owner.address.env, cwd="/", stdio="pipe")
        with open(started.fd) as output:
            assert output.read() == "fix-it-" + "x" * 56 + "\n"
    run.do.stop(owner, grace_s=0.0)
    run.do.clear(owner)


def test_two_workspaces_cannot_touch_each_other(begin):
    first, second = begin("sandbox"), begin("sandbox")
    first.sh("echo mine > /workspace/note; echo mine > /tmp/note")
    assert second.sh("cat /workspace/note /tmp/note 2>/dev/null")[0] == ""
    if os.getuid() == 0:
        assert first.spec.uid != second.spec.uid


def test_a_tree_made_by_root_becomes_the_workspaces_own(begin):
    run = begin("sandbox")
    folder = run.tree / "deep" / "er"
    folder.mkdir(parents=True)
    (folder / "file").write_text("x")
    (folder / "link").symlink_to("/etc/passwd")
    os.chown(run.tree, os.getuid(), -1)
    run.do.prepare(run.spec)
    assert {os.lstat(path).st_uid for path in (run.tree, folder, folder / "file", folder / "link")} == {run.spec.uid}
    assert os.stat("/etc/passwd").st_uid == 0


def test_memory_over_the_limit_ends_the_program_and_is_counted(limited):
    run = limited("memory", Limits(memory=100 * MIB))
    assert run.do.alive(run.owner) is True
    status = run.sh("exec python3 -c 'x = bytearray(300 << 20)'")[1]
    assert status == -signal.SIGKILL
    assert run.sh("echo the run goes on") == ("the run goes on\n", 0)


def test_a_run_that_died_of_memory_says_so(limited):
    run = limited("memory", Limits(memory=100 * MIB))
    run.sh("exec python3 -c 'x = bytearray(300 << 20)'")
    os.kill(run.owner.pid, signal.SIGKILL)
    until(lambda: not run.do.alive(run.owner))
    assert run.do.end_reason(run.owner) == "out_of_memory"


def test_programs_yield_to_handrail_and_are_the_first_to_be_killed_when_memory_runs_out(run):
    # Both are written after the program has started, by the init.
    wait = "for i in $(seq 500); do [ $(cat /proc/self/oom_score_adj) = 300 ] && break; sleep 0.01; done; "
    assert run.sh(wait + "cat /proc/self/oom_score_adj; nice")[0].split() == ["300", "10"]
    if Path("/proc/sys/kernel/sched_autogroup_enabled").exists():
        # The kernel takes one change each 100 ms, from all programs of the host together.
        wait = "for i in $(seq 500); do grep -q 'nice 10$' /proc/self/autogroup && echo set && break; sleep 0.01; done"
        assert run.sh(wait)[0].split() == ["set"]


def test_a_program_that_forks_without_end_meets_the_limit_and_the_run_goes_on(begin):
    run = begin("sandbox", limits=Limits(pids=40))
    assert "pids" in run.owner.limits
    bomb = """
        import os, time
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(60)
            except BlockingIOError:
                open("full", "w")
                time.sleep(60)
    """
    with InitClient(run.owner.address.socket) as init:
        argv = ["python3", "-c", textwrap.dedent(bomb)]
        started = init.start(argv, env=run.owner.address.env, cwd="/workspace", stdio="pipe")
        os.close(started.fd)
        until((run.tree / "full").exists)
        assert 20 < len(run.commands()) < 40
        # A shell can still be started, to end them; it starts no other program.
        said = run.sh("exec bash -c 'id; true' 2>&1")[0]
        assert said.splitlines()[0].endswith("fork: retry: Resource temporarily unavailable")
        init.request("end", pid=started.pid, grace_s=0.1)
        until(lambda: run.commands() == [])
    assert run.sh("echo through; id -u") == ("through\n1000\n", 0)


def test_a_sandbox_has_a_limit_on_processes_that_its_programs_cannot_raise(run):
    asked = "exec bash -c 'ulimit -Su; ulimit -Hu; ulimit -u 2049 2>/dev/null || ulimit -u'"
    assert run.sh(asked)[0].split() == ["2048"] * 3
    for group in run.owner.cgroups:
        if (limit := Path(group, "pids.max")).exists():
            assert limit.read_text() == "2064\n"


def test_processes_of_another_sandbox_do_not_count(begin, ground):
    full = begin("sandbox", limits=Limits(pids=30))
    assert "Resource temporarily unavailable" in full.sh("exec bash -c 'for n in {1..40}; do sleep 9 & done' 2>&1")[0]
    other = begin("sandbox", limits=Limits(pids=30), uid=full.spec.uid)
    assert other.sh("for n in 1 2 3; do true | id -u; done") == ("1000\n" * 3, 0)


def test_a_fork_bomb_that_ignores_the_polite_signal_is_ended_with_all_its_children(begin):
    run = begin("sandbox", limits=Limits(pids=100))
    bomb = "trap '' TERM; bomb() { bomb | bomb & }; bomb; while :; do :; done"
    with InitClient(run.owner.address.socket) as init:
        started = run.begin(init, f'exec bash -c "{bomb}" 2>/dev/null')
        until(lambda: len(run.commands()) > 50)
        init.request("end", pid=started.pid, grace_s=0.1)
        until(lambda: run.commands() == [])
    assert run.sh("true | id -u") == ("1000\n", 0)


def test_many_callers_at_once_get_their_own_answers(run):
    results = {}

    def call(number: int) -> None:
        results[number] = run.sh(f"echo {number}; exit {number}")

    threads = [threading.Thread(target=call, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: (f"{number}\n", number) for number in range(20)}


def test_the_launcher_does_nothing_for_a_runner_that_is_gone(run):
    outcome = subprocess.run([sys.executable, "-I", "-S", launch.__file__], input=b"", capture_output=True)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (1, b"", b"")


def run_python(run, program: str) -> str:
    with InitClient(run.owner.address.socket) as init:
        env, cwd = run.owner.address.env, run.owner.address.cwd
        started = init.start(["python3", "-c", textwrap.dedent(program)], env=env, cwd=cwd, stdio="pipe")
        with open(started.fd) as output:
            return output.read()


def test_where_user_namespaces_are_refused_the_probe_says_so_and_what_to_do(begin, ground, request):
    begin("sandbox")
    # A real refusal: inside a sandbox that allows no further ones.
    refusing = [find_bwrap().path, "--unshare-user", "--disable-userns", "--dev-bind", "/", "/"]
    script = """if True:
        import asyncio, sys
        from pathlib import Path
        from workspaces.drivers.base import get_driver
        probe = asyncio.run(get_driver("sandbox", Path(sys.argv[1]), Path(sys.argv[1])).probe())
        print(probe.available, probe.reason, "|", probe.what_to_do)
    """
    home = ground / "refused"
    home.mkdir()
    user = request.getfixturevalue("ordinary_user") if os.getuid() == 0 else os.getuid()
    os.chown(home, user, -1)
    outcome = subprocess.run(
        [*refusing, sys.executable, "-B", "-c", script, str(home)],
        user=user,
        extra_groups=[] if os.getuid() == 0 else None,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert outcome.stdout.startswith("False User namespaces are not allowed here. | On a host: "), outcome
    assert list(home.iterdir()) == []
