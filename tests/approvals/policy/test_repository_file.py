"""A policy file of a repository: the stricter of it and the team's policy, unless it is adopted."""

import pytest

from approvals.policy import classify, load_policy
from approvals.policy.repository_file import judging, strictest

TEAM = """
low = ["Bash(git push origin dev)"]
forbidden = ["Bash(npm publish *)"]

[floor]
high = ["Bash(make deploy)"]
"""


def judged(command: str, file: str, *, adopted: bool = False):
    """(tier, whether the file made it stricter) of a command."""
    policies = judging(load_policy(TEAM), load_policy(file), adopted=adopted)
    found = strictest([classify("Bash", {"command": command}, policy=each) for each in policies])
    return found.tier, found.by_file


def test_a_rule_of_the_file_tightens():
    assert judged("git push origin dev", 'critical = ["Bash(git push *)"]') == ("critical", True)


def test_what_the_file_does_not_name_is_as_the_team_says():
    file = 'critical = ["Bash(terraform *)"]'
    assert judged("git push origin dev", file) == ("low", False)
    assert judged("git push origin main", file) == ("high", False)


def test_a_rule_of_the_file_loosens_nothing():
    assert judged("git push origin main", 'low = ["Bash(git push *)"]') == ("high", False)
    assert judged("make deploy", 'low = ["Bash(make deploy)"]') == ("high", False)


def test_a_mode_of_the_file_is_its_whole_answer():
    file = 'mode = "everything"\nlow = ["Bash(pytest -q)"]'
    assert judged("git push origin dev", file) == ("high", True)
    assert judged("pytest -q", file) == ("medium", False)  # both let it run


def test_conditions_of_the_file_hold_with_its_own_targets():
    file = '[targets]\nlive = ["branch:dev"]\n[[when]]\ntarget = "live"\ncritical = ["writes"]'
    assert judged("git push origin dev", file) == ("critical", True)


@pytest.mark.parametrize("mode", ["", 'mode = "irreversible"\n'])
def test_an_adopted_file_loosens_within_the_floor(mode):
    assert judged("git push origin main", mode + 'low = ["Bash(git push *)"]', adopted=True) == ("low", False)
    assert judged("make deploy", mode + 'low = ["Bash(make deploy)"]', adopted=True) == ("high", False)
    assert judged("npm publish x", mode + 'low = ["Bash(npm publish *)"]', adopted=True) == ("forbidden", False)


def test_what_a_file_trusts_counts_for_nothing():
    file = '[trust]\nplaces = ["/srv/shared"]'
    for adopted in (False, True):
        assert judged("cat /srv/shared/x", file, adopted=adopted)[0] == judged("cat /srv/shared/x", "")[0] == "high"


@pytest.mark.parametrize("adopted", [False, True])
def test_a_file_cannot_open_itself_to_agents(adopted):
    file = 'low = ["Edit(.handrail/**)", "Bash(tee *)"]'
    assert judged("echo x | tee .handrail/policy.toml", file, adopted=adopted)[0] == "high"
