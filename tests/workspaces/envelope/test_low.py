"""A program in the low envelope, in every driver that can hold one: it reads the workspace and changes nothing."""

import pytest

from tests.workspaces.envelope.held import Held
from workspaces.envelope.envelope import LOW
from workspaces.envelope.ring import is_held


@pytest.fixture(params=["sandbox", "docker", "microvm"])
def held(request, begin, require):
    run = begin(request.param)
    run.sh(
        "mkdir -p src/.aws .git; echo hello > note; echo code > src/main.py; ln -s note link;"
        "for f in .env src/.env.local src/server.key src/.aws/credentials; do echo canary > $f; done"
    )
    held = Held(run)
    if not is_held(held.abilities) and held.abilities["landlock"] < 3:
        require("landlock", f"{request.param} has {held.abilities}")
    return held


def test_a_low_program_reads_the_workspace_and_runs_programs(held):
    assert held.sh("cat note link src/main.py; ls | tr '\\n' ' '; echo $((1 + 1))", LOW) == (
        "hello\nhello\ncode\nlink note src 2\n",
        0,
    )


def test_a_low_program_reads_no_secret(held):
    output, _ = held.sh("cat .env src/.env.local src/server.key src/.aws/* 2>&1; grep -r canary . 2>&1", LOW)
    assert "canary" not in [line.rpartition(":")[2] for line in output.splitlines()]
    assert held.run.sh("cat .env src/.env.local")[0] == "canary\ncanary\n"


def test_a_low_program_writes_nothing_but_scratch(held):
    refused = ("echo x > new", "echo x >> note", "rm note", "mv note other", "mkdir d", "ln note hard")
    for command in (*refused, "truncate -s 0 note", "echo x > $HOME/file", "echo x > /workspace/.git/config"):
        assert held.sh(f"{{ {command}; }} 2>/dev/null", LOW)[1] != 0, command
    assert held.run.sh("cat note; ls")[0] == "hello\nlink\nnote\nsrc\n"
    assert held.sh('cd "${TMPDIR:-/tmp}" && echo kept > file && cat file', LOW) == ("kept\n", 0)


def test_a_low_program_has_no_sockets(held):
    code = """
        import socket
        for family, kind in ((2, 1), (2, 2), (10, 1), (10, 2), (1, 1), (1, 2), (16, 3), (17, 3), (40, 1)):
            try:
                socket.socket(family, kind)
                print("made", family, kind)
            except OSError:
                pass
        one, other = socket.socketpair()
        one.send(b"pairs work")
        print(other.recv(20).decode())
    """
    assert held.python(code, LOW) == ("pairs work\n", 0)


def test_each_refusal_is_reported(held):
    code = "import socket\ntry: socket.socket(2, 2)\nexcept PermissionError as error: print(error.strerror)"
    output, status, blocked = held.told(f"python3 -c '{code}'", LOW)
    assert (output, status) == ("Permission denied\n", 0)
    assert blocked == [{"kind": "socket", "what": "IPv4 UDP"}]


def test_children_of_a_low_program_are_held_too(held):
    _, status = held.sh("sh -c 'setsid sh -c \"echo x > new\"' 2>/dev/null", LOW)
    assert status != 0
    assert held.run.sh("test -e new")[1] != 0


def test_exit_status_signals_and_output_are_untouched(held):
    assert held.sh("printf out; printf err >&2; exit 7", LOW) == ("outerr", 7)
    assert held.sh("kill -TERM $$", LOW) == ("", -15)


def test_a_terminal_stays_one(held):
    output, status = held.sh("test -t 0 && test -t 1 && stty size && echo typed > /dev/tty", LOW, stdio="pty")
    assert (output.split(), status) == (["24", "80", "typed"], 0)
