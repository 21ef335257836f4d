"""`past` and `connect`: the report in a terminal, with whatever an agent wrote shown harmlessly."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from .conftest import Home

EVIL = "git push \x1b[2J\x1b]0;owned\x07 \u202eniam origin\r\nrm -rf / <script>alert(1)</script>"


@pytest.fixture
def left(product, tmp_path):
    """Transcripts in the home of the product's own user, about one folder."""
    folder = tmp_path / "calc"
    folder.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    home = Home.of(Path(product.environment["HOME"]))
    file = home.claude(
        home.claude_row("git push origin main", cwd=str(folder)),
        home.claude_row("ls", cwd=str(folder)),
        home.claude_row(EVIL, cwd=str(folder)),
        home.claude_row("curl https://me:hunter2@example.com/", cwd=str(folder)),
        b"\xff\xfe no json\n",
        name=f"-{tmp_path.name}/one.jsonl",
    )
    yield folder
    file.unlink()
    product.manage("disconnect", str(folder))


def test_the_report_says_what_would_have_asked(product, left):
    done = product.manage("past", str(left))
    assert done.returncode == 0, done.stderr
    assert "In your last 30 days 4 calls (Claude Code 4), in 1 active hour.\n" in done.stdout
    assert "This policy would have asked you 3 times: 75.0 in 100 calls, 3.0 in an active hour.\n" in done.stdout
    assert "git push origin main\n" in done.stdout
    assert " could not be read and were left out.\n" in done.stdout


def test_nothing_in_it_reaches_the_terminal_as_a_control_character_or_shows_a_password(product, left):
    for more in (["--whole"], ["--json"]):
        done = product.manage("past", str(left), *more)
        assert done.returncode == 0, done.stderr
        assert [char for char in done.stdout if not char.isprintable() and char != "\n"] == []
        assert "hunter2" not in done.stdout
        assert "curl https://…@example.com/" in done.stdout.replace("\\u2026", "…")


def test_the_json_is_the_whole_report(product, left):
    found = json.loads(product.manage("past", str(left), "--json").stdout)
    assert (found["calls"], found["asked"], found["folders"]) == (4, 3, [str(left)])
    assert json.loads(product.manage("past", str(left), "--json", "--days", "1").stdout)["calls"] in (0, 4)


def test_a_path_that_is_no_folder_is_refused(product, left):
    done = product.manage("past", str(left / "gone"))
    assert (done.returncode, "is not a folder" in done.stderr) == (1, True)


def connect(product, folder, answer: str, *more):
    """Run `connect` with a terminal as its input, and type the answer."""
    ours, theirs = os.openpty()
    os.write(ours, answer.encode() + b"\n")
    try:
        return product.manage("connect", "claude-code", str(folder), *more, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def is_connected(folder) -> bool:
    return (folder / ".claude/settings.local.json").exists()


def test_connect_shows_it_before_it_asks(product, left):
    done = connect(product, left, "n")
    assert "This policy would have asked you 3 times" in done.stdout
    assert (done.returncode, is_connected(left)) == (1, False)
    done = connect(product, left, "y")
    assert (done.returncode, is_connected(left)) == (0, True), done.stderr


def test_connect_neither_shows_nor_asks_with_yes_or_without_a_terminal(product, left):
    done = connect(product, left, "n", "--yes")
    assert (done.returncode, is_connected(left), "would have asked" in done.stdout) == (0, True, False), done.stderr
    product.manage("disconnect", str(left))
    done = product.manage("connect", "claude-code", str(left), stdin=subprocess.DEVNULL)
    assert (done.returncode, is_connected(left), "would have asked" in done.stdout) == (0, True, False), done.stderr
