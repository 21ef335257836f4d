"""Title, evidence and chip of real shapes of commands, against what a person wrote down as right for each."""

from pathlib import Path

import pytest

from approvals.policy import Policy, classify

GATHERED = ("push", "remote", "install", "network", "delete", "write")


def rows():
    """(command, title, undo, evidence) of each entry of commands.txt."""
    lines = [line for line in (Path(__file__).parent / "commands.txt").read_text().splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("#")]
    rights = ([part.strip() for part in right.rsplit("|", 2)] for right in lines[1::2])
    return [(command.removeprefix("$ "), *right) for command, right in zip(lines[::2], rights, strict=True)]


def test_the_corpus_is_whole():
    assert len({command for command, *_ in rows()}) >= 200


@pytest.mark.parametrize(("command", "title", "undo", "evidence"), rows())
def test_the_evidence_of_each_command_is_right(command, title, undo, evidence):
    verdict = classify("Bash", {"command": command}, policy=Policy())
    parts = [f"{e['what']}: {', '.join(e['names'])}".strip() for e in verdict.commands if e["what"] in GATHERED]
    assert (verdict.title, verdict.undo, "; ".join(parts)) == (title, undo, evidence)
