"""A program in the medium envelope: it works in the workspace, and what it must not touch holds."""

from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.envelope.held import Held
from workspaces.drivers.init_client import InitRefused
from workspaces.envelope.envelope import LOW, MEDIUM, Envelope
from workspaces.envelope.landlock import PORTS_ABI, SCOPES_ABI
from workspaces.envelope.ring import is_held

PREPARE = """
git init -q . && git config user.email a@example.org && git config user.name A && echo hello > note && git add note &&
git commit -qm first && mkdir -p .claude .github/workflows .config/git src &&
echo {} > .claude/settings.json && echo on: > .github/workflows/ci.yml && echo canary > .env && echo canary > src/id_rsa
"""


@pytest.fixture(params=["sandbox", "microvm"])
def held(request, begin, require):
    run = begin(request.param)
    assert run.sh(PREPARE)[1] == 0
    held = Held(run)
    if not is_held(held.abilities):
        require("mount views", f"{request.param} has {held.abilities}")
    return held


def test_a_medium_program_writes_workspace_scratch_and_caches(held):
    command = "mkdir -p a/b && echo x > a/b/c && mv a/b/c note && echo x > /tmp/t && echo x > ~/.cache/made && cat note"
    assert held.sh(command, MEDIUM) == ("x\n", 0)
    assert held.run.sh("cat note ~/.cache/made; test -e /tmp/t")[0] == "x\nx\n"


def test_git_never_commits_the_notice_over_a_masked_file(held):
    """What the index has stays, for all that the program can see; a masked file that git does not have is not added."""
    held.run.sh("git add -f .env && git commit -qm env && echo changed > .env")
    told, status = held.sh(
        "echo more >> note; git commit -qam x && git status --porcelain --untracked-files=no", MEDIUM
    )
    assert (told, status) == ("", 0)
    assert (
        held.run.sh("git show --format= --name-only HEAD; git show HEAD:.env; cat .env")[0] == "note\ncanary\nchanged\n"
    )
    told, status = held.sh("git add -f src/id_rsa 2>&1; git add .env note; git diff --cached --name-only", MEDIUM)
    assert "clean filter" in told
    assert held.run.sh("git diff --cached --name-only; git ls-files src")[0] == ""
    settings = "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=B git config user.name"
    assert held.sh(settings, MEDIUM)[0] == "B\n"


def test_tools_that_write_to_the_top_of_the_home_are_told_to_use_scratch(held):
    made = (
        'mkdir "$SPAWN_WRAP_SHIM_ROOT/.node-spawn-wrap-1" && ls -d /tmp/.node-spawn-wrap-1; mkdir ~/.node-spawn-wrap-1'
    )
    output, status = held.sh(f"{made} 2>&1", MEDIUM)
    assert (output.splitlines()[0], status) == ("/tmp/.node-spawn-wrap-1", 1)


def test_scratch_is_shared_by_held_programs_and_by_no_others(held):
    held.sh("echo kept > /tmp/t; echo kept > /dev/shm/s", MEDIUM)
    assert held.sh("cat /tmp/t /dev/shm/s", LOW) == ("kept\nkept\n", 0)
    held.run.sh("echo mine > /tmp/of-a-person")
    assert held.sh("cat /tmp/of-a-person /tmp/.handrail*/x 2>/dev/null", MEDIUM)[0] == ""


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/info/attributes",
        ".claude/settings.json",
        ".claude/new.json",
        ".github/workflows/ci.yml",
        ".env",
        "$HOME/.bashrc",
        "$HOME/.config/autostart/x",
        "/usr/local/bin/x",
    ],
)
def test_a_medium_program_cannot_write_files_that_take_effect_elsewhere(held, path):
    assert held.sh(f'echo x >> "{path}"', MEDIUM)[1] != 0
    assert held.sh(f'rm -f "{path}"; mkdir -p "$(dirname "{path}")"; cp note "{path}"', MEDIUM)[1] != 0


def test_no_folder_around_a_protected_path_is_moved_away(held):
    for folder in (".git", ".claude", ".github", ".github/workflows"):
        assert held.sh(f"mv {folder} away 2>/dev/null", MEDIUM)[1] != 0, folder
    assert (
        held.run.sh("git status --short --untracked-files=no; cat .claude/settings.json .github/*/*")[0] == "{}\non:\n"
    )


def test_a_medium_program_reads_no_secret(held):
    output, _ = held.sh("cat .env src/id_rsa; grep -rs canary . || ln .env hard; cp .env copy; cat hard copy", MEDIUM)
    assert "canary" not in output.replace("grep -rs canary", "")
    held.run.sh("rm -f copy")


def test_a_secret_that_is_saved_anew_is_masked_for_the_next_program(held):
    held.run.sh("echo canary2 > fresh && mv fresh .env && echo canary2 > .env.production")
    assert "canary" not in held.sh("cat .env .env.production", MEDIUM)[0]


def test_a_path_that_the_envelope_names_is_readable(held):
    named = Envelope(read=("workspace", "toolchains", "/workspace/.env"), write=("scratch",))
    assert held.sh("cat .env", named) == ("canary\n", 0)
    assert "canary" not in held.sh("cat src/id_rsa", named)[0]


def test_a_named_path_opens_itself_and_nothing_beside_it(held):
    named = ("/workspace/.git/hooks/pre-push", "/workspace/new", "/home/agent/new")
    wider = MEDIUM.wider(Envelope(write=named))
    assert held.sh("echo x > .git/hooks/pre-push && echo x > new", wider)[1] == 0
    for path in (".git/config", ".claude/settings.json", "$HOME/new", "$HOME/.bashrc"):
        assert held.sh(f'echo x >> "{path}"', wider)[1] != 0, path


def test_git_and_builds_work(held):
    output, status = held.sh(
        "echo more >> note && git add note && git commit -qm second && git checkout -qb topic && git status --short && "
        "git log --oneline | wc -l && mkdir build && printf 'echo built' > build/run && sh build/run",
        MEDIUM,
    )
    assert status == 0, output
    assert output.split()[-2:] == ["2", "built"]


def test_a_medium_program_has_tcp_on_its_loopback_and_no_datagrams(held):
    code = """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        client = socket.create_connection(server.getsockname())
        server.accept()[0].sendall(b"reached")
        print(client.recv(20).decode())
        refused = [(2, 2, 0), (10, 2, 0), (2, 3, 1), (2, 1, 262), (16, 3, 12), (17, 3, 0), (40, 1, 0)]
        for family, kind, protocol in refused:
            try:
                socket.socket(family, kind, protocol)
                print("made", family, kind, protocol)
            except OSError:
                pass
    """
    assert held.python(code, MEDIUM) == ("reached\n", 0)


def test_without_loopback_it_reaches_the_proxy_alone(held):
    only_hosts = Envelope(read=("workspace", "toolchains"), write=("scratch",), network=("hosts",))
    if held.abilities["landlock"] < PORTS_ABI:
        with pytest.raises(InitRefused):
            held.sh("true", only_hosts)
        return
    code = """
        import errno, socket
        for port in (3128, 5432):
            try:
                socket.create_connection(("127.0.0.1", port))
            except OSError as error:
                print(port, errno.errorcode[error.errno])
        try:
            socket.create_server(("127.0.0.1", 8000))
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    assert held.python(code, only_hosts) == ("3128 ECONNREFUSED\n5432 EACCES\nEACCES\n", 0)


def test_what_escapes_are_made_of_is_refused(held):
    code = """
        import ctypes, errno, fcntl, os
        libc = ctypes.CDLL(None, use_errno=True)
        number = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
        calls = {"io_uring_setup": (425, 425), "ptrace": (101, 117), "process_vm_readv": (310, 270),
                 "keyctl": (250, 219), "unshare": (272, 97), "mount": (165, 40), "bpf": (321, 280),
                 "perf_event_open": (298, 241)}
        for name, numbers in calls.items():
            first = 0x10000000 if name == "unshare" else 0
            done = libc.syscall(numbers[number], first, 0, 0, 0, 0)
            print(name, done if done >= 0 else errno.errorcode[ctypes.get_errno()])
        if number == 0:
            print("x32", errno.errorcode[ctypes.get_errno()] if libc.syscall(0x40000000 + 39) < 0 else "works")
    """
    output, status = held.python(code, MEDIUM)
    assert status == 0
    said = dict(line.split() for line in output.splitlines())
    assert said.pop("io_uring_setup") == "ENOSYS"
    assert said.pop("x32", "ENOSYS") == "ENOSYS"
    assert set(said.values()) == {"EPERM"}


def test_a_medium_program_cannot_signal_trace_or_read_a_wider_one(held):
    victim = held.leave("SECRET=canary exec sleep 600", None)
    until(lambda: "sleep 600" in held.run.commands())
    output, _ = held.sh(f"cat /proc/{victim}/environ /proc/{victim}/maps /proc/{victim}/cwd/.env 2>&1", MEDIUM)
    assert "canary" not in output
    assert held.sh(f"echo 900 > /proc/{victim}/oom_score_adj", MEDIUM)[1] != 0
    if held.abilities["landlock"] >= SCOPES_ABI:
        assert held.sh(f"kill -KILL {victim}", MEDIUM)[1] != 0
        assert "sleep 600" in held.run.commands()


def test_a_medium_program_cannot_write_to_the_terminal_of_another(held):
    held.leave('python3 -c \'import pty; pty.spawn(["sleep", "600"])\'', None)
    until(lambda: held.run.sh("ls /dev/pts")[0].split()[:1] == ["0"])
    assert held.sh("echo x > /dev/pts/0", MEDIUM)[1] != 0
    code = "import fcntl, os; master, slave = os.openpty(); fcntl.ioctl(slave, 0x5412, b'x')"
    assert "PermissionError" in held.python(code, MEDIUM)[0]


def test_abstract_sockets_of_others_are_out_of_reach(held):
    if held.abilities["landlock"] < SCOPES_ABI:
        pytest.skip("this kernel cannot scope abstract sockets")
    server = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0wide'); s.listen(); s.accept()"
    held.leave(f'exec python3 -c "{server}"', None)
    until(lambda: "@wide" in held.run.sh("cat /proc/net/unix")[0])
    code = "import socket; socket.socket(socket.AF_UNIX).connect('\\0wide')"
    assert "PermissionError" in held.python(code, MEDIUM)[0]


def test_an_invalid_envelope_starts_nothing(held):
    with pytest.raises(InitRefused, match="envelope"):
        held.start("touch started", {"envelope": {"write": ["everything"]}})
    with pytest.raises(InitRefused, match="envelope"):
        held.start("touch started", {})
    assert held.run.sh("test -e started")[1] != 0


def test_a_secret_that_it_opened_is_named_and_one_that_it_only_listed_is_not(held):
    secret = [{"kind": "read", "what": "/workspace/.env"}]
    assert held.told("ls -l .env src/id_rsa; wc -c < .env", MEDIUM)[2] == secret
    assert held.told("stat .env src/id_rsa", MEDIUM)[2] == []
    names = [entry["what"] for entry in held.told("grep -r canary .", MEDIUM)[2]]
    assert sorted(names) == ["/workspace/.env", "/workspace/src/id_rsa"]


def test_a_secret_that_it_may_read_redacted_is_not_masked_and_cannot_be_written(held):
    envelope = replace(MEDIUM, redacted=("/workspace/.env",))
    assert held.told("cat .env", envelope) == ("canary\n", 0, [])
    assert held.sh("echo x >> .env || rm -f .env || mv .env away", envelope)[1] != 0
    assert "canary" not in held.sh("cat src/id_rsa", envelope)[0]
