"""`handrail-run` in a connected folder's box: a call runs there as it would have run here, and gets nothing more."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workspaces.drivers.runs import NOBODY, Running
from workspaces.drivers import handrail_run
from workspaces.drivers.base import DriverError
from workspaces.drivers.box import with_repository
from workspaces.drivers.init_client import InitClient
from workspaces.envelope.envelope import LOW, MEDIUM

PROGRAM = [sys.executable, "-I", "-S", handrail_run.__file__]
AS_USER = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


class Box:
    """A folder whose Run is in a box, and calls that run in it."""

    def __init__(self, ground: Path):
        self.run = Running("folder", ground, in_box=True)
        self.folder = self.run.tree
        self.socket = self.run.owner.address.socket
        if AS_USER:  # the folder's owner is the one who runs Handrail; only then calls can be held
            for path in (Path(self.socket).parent, self.socket):
                os.chown(path, NOBODY, NOBODY)

    def ticket(self, command: str, *, cwd=None, envelope=MEDIUM, seconds=60.0) -> str:
        ticket = secrets.token_hex(16)
        ring = {
            "envelope": with_repository(envelope.to_json(), self.folder),
            "workspace": str(self.folder),
            "home": "/nonexistent",
        }
        ring["shares_signals"] = True
        told = {"ticket": ticket, "cwd": str(cwd or self.folder), "ring": ring, "seconds": seconds}
        with InitClient(self.socket) as init:
            init.request("ticket", command=command, **told)
        return f"{self.socket}:{ticket}"

    def start(self, command: str, *, ticket=None, cwd=None, env=None, **how) -> subprocess.Popen:
        envelope = how.pop("envelope", MEDIUM)
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
        argv = [*PROGRAM, ticket or self.ticket(command, cwd=cwd, envelope=envelope), command]
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"} | (env or {})
        return subprocess.Popen(argv, cwd=cwd or self.folder, env=environment, text=True, **AS_USER, **how)

    def sh(self, command: str, *, given=None, **how) -> tuple[str, str, int]:
        """Output, errors and exit status of a call."""
        process = self.start(command, **how | ({"stdin": subprocess.PIPE} if given is not None else {}))
        out, err = process.communicate(given, timeout=20)
        return out, err, process.returncode


@pytest.fixture(scope="module")
def box(request, require):
    if AS_USER:
        request.getfixturevalue("ordinary_user")
        if shutil.which("bwrap") is None:
            require("bubblewrap", "root holds another user's folder with the system's own bwrap, which is missing")
    parent = "/home" if os.getuid() == 0 else Path.home()  # not /tmp, of which a box has its own
    ground = Path(tempfile.mkdtemp(prefix="handrail-box-", dir=parent))
    ground.chmod(0o755)
    (ground / "handrail").mkdir(mode=0o700)
    (ground / "run").mkdir(mode=0o700)
    made = Box(ground)
    yield made
    made.run.end()
    shutil.rmtree(ground, ignore_errors=True)


def test_output_errors_and_status_are_the_commands_own(box):
    assert box.sh("echo out; echo err >&2; exit 3") == ("out\n", "err\n", 3)
    assert box.sh("kill -9 $$")[2] == 128 + 9


def test_a_call_in_the_box_reads_its_standard_input(box):
    assert box.sh("tr a-z A-Z", given="hello\n")[0] == "HELLO\n"


def test_a_call_in_the_box_writes_the_folder_and_sees_the_hosts_programs(box):
    assert box.sh("pwd; echo made > made.txt; git --version") == (
        f"{box.folder}\n" + subprocess.run(["git", "--version"], capture_output=True, text=True).stdout,
        "",
        0,
    )
    assert (box.folder / "made.txt").read_text() == "made\n"


def test_a_signal_reaches_the_command_and_its_handler_decides(box):
    process = box.start("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, _err = process.communicate(timeout=20)
    assert (out, process.returncode) == ("caught\n", 7)


def test_a_killed_call_ends_in_the_box_too(box):
    process = box.start("echo ready; sleep 1234")
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while "sleep 1234" in box.run.commands():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_hundred_megabytes_arrive_whole(box):
    count = 0
    with box.start("head -c 200000000 /dev/zero") as process:
        while chunk := os.read(process.stdout.fileno(), 1 << 20):
            count += len(chunk)
    assert (process.returncode, count) == (0, 200_000_000)


def test_a_background_program_lives_on_and_the_next_call_reaches_it(box):
    serve = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & echo $!"
    pid = box.sh(serve)[0].strip()
    box.sh("echo page > index.html")
    out, err, status = box.sh("for i in $(seq 50); do curl -sf localhost:8123/index.html && exit; sleep 0.1; done")
    assert (out, err, status) == ("page\n", "", 0)
    assert box.sh(f"kill {pid}; sleep 0.3; curl -s localhost:8123")[2] == 7  # refused: it is gone


def test_a_job_ends_by_its_number(box):
    assert box.sh("sleep 60 & kill %1; wait %1; echo $?")[0] == "143\n"


def test_a_ticket_works_once_for_its_command_in_its_folder_and_in_time(box):
    ticket = box.ticket("echo once")
    assert box.sh("echo once", ticket=ticket)[0] == "once\n"
    assert "used before" in box.sh("echo once", ticket=ticket)[1]
    assert "another command" in box.sh("echo two", ticket=box.ticket("echo one"))[1]
    (box.folder / "sub").mkdir(exist_ok=True)
    assert "not" in box.sh("echo x", ticket=box.ticket("echo x"), cwd=box.folder / "sub")[1]
    assert "expired" in box.sh("echo x", ticket=box.ticket("echo x", seconds=0))[1]
    out, err, status = box.sh("echo x", ticket=f"{box.socket}:{'0' * 32}")
    assert (out, status) == ("", 126)
    assert "unknown" in err


def test_nothing_of_the_host_is_there_but_programs_and_the_folder(box):
    secret = box.run.ground / "secret.txt"
    secret.write_text("canary")
    secret.chmod(0o644)
    assert box.sh(f"cat {secret}")[2] == 1
    shown = box.sh("ls /home /run /root /srv 2>/dev/null; ls /tmp; id -u")[0]
    assert "cloudsdk" not in shown
    for path in (box.socket, box.run.ground / "handrail", "/run/user", "/run/docker.sock", "/var/run/dbus"):
        assert box.sh(f"test -e {path}")[2] == 1, path


def test_secrets_of_the_folder_are_masked_also_after_an_atomic_save(box):
    env = box.folder / ".env"
    env.write_text("KEY=canary\n")
    env.chmod(0o644)
    assert "canary" not in box.sh("cat .env")[0]
    (box.folder / ".env.new").write_text("KEY=canary two\n")
    (box.folder / ".env.new").rename(env)
    (box.folder / ".env.local").write_text("KEY=canary three\n")
    for path in (env, box.folder / ".env.local"):
        path.chmod(0o644)
    assert "canary" not in box.sh("cat .env .env.local")[0]


def test_low_writes_nothing_and_has_no_network(box):
    (box.folder / "kept.txt").write_text("kept")
    os.chown(box.folder / "kept.txt", box.run.spec.uid, -1)
    assert box.sh("echo new > kept.txt", envelope=LOW)[2] != 0
    assert (box.folder / "kept.txt").read_text() == "kept"
    assert box.sh("curl -s localhost:1", envelope=LOW)[2] != 0


def test_a_folder_below_tmp_cannot_have_a_box(ground):
    with pytest.raises(DriverError, match="cannot be held"):
        Running("folder", ground, in_box=True)


GIT = "git -c user.name=T -c user.email=t@example.org"


def at_home(command: str, cwd: Path):
    """Run a command of the folder's owner outside the box."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["bash", "-ec", command], cwd=cwd, env=environment, check=True, capture_output=True, **AS_USER)


def test_worktrees_and_submodules_inside_the_folder_work(box):
    made = box.folder / "repo"
    made.mkdir()
    os.chown(made, box.run.spec.uid, -1)
    commit = f"git add . && {GIT} commit -qm"
    at_home(f"git init -q -b main . && echo one > a && {commit} one", made)
    at_home(
        f"git clone -q . ../lib && git -c protocol.file.allow=always submodule --quiet add {box.folder}/lib sub", made
    )
    at_home(f"{commit} two", made)
    assert box.sh("git worktree add -q ../side -b side && git status --short", cwd=made) == ("", "", 0)
    for folder in (box.folder / "side", made / "sub", made):
        count = "git log --oneline | wc -l"
        before = int(box.sh(count, cwd=folder)[0])
        out, err, status = box.sh(
            f"echo x > new-{folder.name} && {commit} more && git status --short | grep new; {count}", cwd=folder
        )
        assert (int(out), err, status) == (before + 1, "", 0)


def test_a_worktree_reads_the_repository_it_belongs_to_and_no_other():
    ground = Path(tempfile.mkdtemp(prefix="handrail-box-", dir="/home" if os.getuid() == 0 else Path.home()))
    ground.chmod(0o755)
    for name, mode in (("handrail", 0o700), ("run", 0o700), ("main", 0o755), ("other", 0o755)):
        (ground / name).mkdir(mode=mode)
    made = Box(ground)
    made.run.end()
    main, other, elsewhere = ground / "main", ground / "other", ground / "elsewhere"
    for path in (main, other):
        os.chown(path, made.run.spec.uid, -1)
        at_home(f"git init -q -b main . && echo a > a && git add a && {GIT} commit -qm a", path)
    at_home("git branch side", main)
    own = main / ".git" / "worktrees" / "x"
    at_home(f"mkdir -p {own} && echo ../.. > {own}/commondir && echo ref: refs/heads/side > {own}/HEAD", main)
    at_home(f"echo {made.folder}/.git > {own}/gitdir && echo gitdir: {own} > {made.folder}/.git", main)
    at_home("git reset -q --hard", made.folder)
    config = (main / ".git" / "config").read_text()
    try:
        with up_again(made):
            assert made.sh("git status --short && git log --oneline | wc -l") == ("1\n", "", 0)
            assert "Read-only" in made.sh(f"echo x >> {main}/.git/config; {GIT} commit --allow-empty -qm b")[1]
            assert made.sh(f"ls {main}; ls -d {other}")[0] == ""
        assert (main / ".git" / "config").read_text() == config
        strange = other / ".git" / "worktrees" / "x"
        at_home(f"mkdir -p {strange} && echo {elsewhere}/.git > {strange}/gitdir", other)
        at_home(f"echo gitdir: {strange} > .git", made.folder)
        with up_again(made):
            assert made.sh(f"ls -d {other} {main}")[2] != 0
    finally:
        shutil.rmtree(ground, ignore_errors=True)


@contextmanager
def up_again(box: Box):
    """One more Run of the box's folder, as it is now."""
    with box.run.again_up() as run:
        box.socket = run.owner.address.socket
        for path in (Path(box.socket).parent, box.socket) if AS_USER else ():
            os.chown(path, NOBODY, NOBODY)
        yield
