"""The examples of docs/client.md run as they stand."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from handrail_client.command_line import parser
from tests.support import CHECKOUT

PAGE = (CHECKOUT / "docs" / "client.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
LINES = [line for kind, text in BLOCKS if not kind for line in text.splitlines() if line.startswith("handrail ")]


@pytest.fixture
def run(environment, tmp_path):
    """`run(program)`: in a folder with a program `git` that only notes pushes; push of the client asks the real one."""
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text(f'#!/bin/sh\n[ "$1" = push ] || exec {shutil.which("git")} "$@"\necho "$@" >> {tmp_path}/pushed\n')
    git.chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "app.py").write_text("print(1)\n")
    path = {"PATH": f"{tmp_path}/bin:{environment['PATH']}"}

    def start(program: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "-c", program], env=environment | path, cwd=tmp_path / "work",
                              capture_output=True, text=True, timeout=120)  # fmt: skip

    return start


def test_a_block_and_a_question_in_two_processes(run, person, name, beside, tmp_path):
    first = beside(run, PROGRAMS[0])
    person.decides(person.sees(name), "approve")
    assert first.result(60).stdout == ""
    asked = run(PROGRAMS[1])
    assert asked.stdout.startswith("waits at http"), asked.stderr
    waiting = person.sees(name)
    person.decides(waiting, "approve")
    assert run(PROGRAMS[2]).returncode == 0
    assert (tmp_path / "pushed").read_text() == "push origin main\n" * 2
    assert person.status(waiting) == "succeeded"


def test_workspaces_files_snapshots_and_sessions(run):
    done = run(PROGRAMS[3])
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["app.py", "0", "[[1]]", "[]"]


@pytest.mark.parametrize("line", LINES)
def test_each_line_is_one_that_the_command_line_takes(line):
    assert parser().parse_args(shlex.split(line)[1:]).run
