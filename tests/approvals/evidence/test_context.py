"""What the gate tells the policy of the world: symlinks, and that it could not look."""

import os
import signal

import pytest


@pytest.mark.parametrize("target", ["/etc", "../..", ".git"])
def test_a_write_through_a_link_that_leads_elsewhere_asks(desk, ask, target):
    key = desk.create()["key"]
    desk.run(key, f"ln -s {target} link && mkdir -p plain .git")
    through = ask(key, "", tool="Write", arguments={"file_path": "link/x", "content": "x"})
    assert through["status"] == "pending"
    plain = ask(key, "", tool="Write", arguments={"file_path": "plain/x", "content": "x"})
    assert plain["status"] == "approved"
    assert ask(key, "rm link/passwd")["status"] == "pending"
    assert ask(key, "cd link && rm passwd")["status"] == "pending"
    assert ask(key, "rm plain/passwd")["status"] == "approved"


def test_a_pattern_that_matches_a_link_asks(desk, ask):
    key = desk.create()["key"]
    desk.run(key, "mkdir d e && ln -s /etc/passwd d/p && touch e/p")
    assert ask(key, "cat d/*")["status"] == "pending"
    assert ask(key, "cat e/*")["status"] == "approved"


def test_a_link_that_goes_round_asks(desk, ask):
    key = desk.create()["key"]
    desk.run(key, "ln -s b a && ln -s a b")
    assert ask(key, "rm a/x")["status"] == "pending"


def test_without_a_runner_a_write_asks_and_a_card_says_why(product, desk, ask, person):
    key = desk.create()["key"]
    desk.run(key, "touch x")
    runner = product.part_pid("runner")
    os.kill(runner, signal.SIGSTOP)
    try:
        action = ask(key, "rm x", patient=False)
        assert action["status"] == "pending"
        assert action["reasons"][0].startswith("Needs approval: the runner does not answer")
        assert ask(key, "ls", patient=False)["status"] == "approved"
        said = person.evidence(action, patient=False)["findings"][0]["says"]
        assert said[0].startswith("Effect unknown until it runs. The runner did not answer in time")
    finally:
        os.kill(runner, signal.SIGCONT)
