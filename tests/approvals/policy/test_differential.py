"""Commands that the policy lets run do what their verdict said: made at random, run for real in a box, and traced."""

from pathlib import Path

import pytest

from approvals.policy import classify
from bench.policy.differential import campaign, mutate, oracle, run

CORPUS = Path(__file__).with_name("corpus.jsonl")
CASES = 2_000


@pytest.fixture(scope="module")
def box(require):
    lack = run.lack()
    if lack:
        require("sandbox", lack)
    with run.box() as box:
        yield box


def test_random_commands_do_what_their_verdict_said(box):
    figures = campaign.hunt(box, range(CASES), mutate.commands_of(CORPUS))
    assert [(finding.command, finding.differences) for finding in figures.findings] == []
    assert (figures.cases, figures.allowed > CASES // 8) == (CASES, True)


@pytest.mark.parametrize(
    ("command", "difference"),
    [
        ("cat .env", "reads a secret"),
        ("cp .env copy", "shows a secret"),
        ('echo "$API_TOKEN"', "shows a secret"),
        ("cat < ../outside/data.txt", "reads outside the workspace"),
        ("ls ~", "reads outside the workspace"),
        ("touch new", "writes as low"),
        ("rm README.md", "writes as low"),
        ("(sleep 1; echo x > new) &", "writes as low"),
        ("echo x >> .git/config", "writes a protected path"),
        ("chmod +x .git/hooks/pre-commit", "writes a protected path"),
        ("touch ~/new", "writes outside the workspace"),
        ("rm .env", "writes a secret"),
        ("./run.sh", "runs a file of the workspace as low"),
        ("exec 3<>/dev/tcp/127.0.0.1/8099", "contacts a host"),
        ("curl -s http://127.0.0.1:8099/", "contacts a host"),
        ("kill -9 -1", "ends processes that it did not start"),
        ("sh -c id", "starts a program that was not named"),
    ],
)
def test_a_deed_that_was_not_said_is_found(box, command, difference):
    # The verdict is that of a command which only prints: low, and it names nothing else.
    verdict = classify("Bash", {"command": "echo run.sh id"}, policy=campaign.POLICY)
    texts = enumerate([command, "cat README.md"])
    (_, deed), (_, after) = box.run([{"number": at, "shell": "/bin/bash", "command": text} for at, text in texts])
    assert verdict.tier == "low"
    assert difference in {name for name, _ in oracle.findings(verdict, deed)}
    assert after.result["status"] == 0
