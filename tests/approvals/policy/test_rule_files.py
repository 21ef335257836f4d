"""Rules of agents' own settings, line by line: taken as what they say, left out with the reason, and written back."""

import json

import pytest

from approvals.policy import PolicyError, read_policy
from approvals.policy.rule_files import read_rules, written

SETTINGS = {
    "permissions": {
        "allow": ["Bash(npm test)", "Bash(git *)", "Edit(src/**)", "Bash(a && b)", 5],
        "ask": ["Bash(git push *)"],
        "deny": ["Read(secrets/**)"],
        "defaultMode": "acceptEdits",
    }
}
CODEX = """
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt", justification="x")
prefix_rule(pattern=["make", "test"], decision="allow")
prefix_rule(pattern=["rm"], decision="forbidden")
prefix_rule(pattern=["bash"], decision="allow")
host_executable(name="git")
prefix_rule(pattern=[PROGRAM], decision="allow")
"""


def test_claude_codes_permissions_are_taken_line_by_line():
    found = read_rules("claude", json.dumps(SETTINGS))
    assert found.taken == [
        ["low", "Bash(npm test)"],
        ["low", "Edit(src/**)"],
        ["high", "Bash(git push *)"],
        ["forbidden", "Read(secrets/**)"],
    ]
    whys = dict(found.left_out)
    assert "covers reading, pushing and rewriting alike" in whys["allow: Bash(git *)"]
    assert "can never match" in whys["allow: Bash(a && b)"]
    assert "A rule must be text" in whys["allow: 5"]
    assert whys['defaultMode: "acceptEdits"'] == "a policy has no setting for it"


def test_codex_rules_are_read_and_not_run():
    found = read_rules("codex", CODEX)
    assert found.taken == [
        ["high", "Bash(git push *)"],
        ["high", "Bash(git fetch *)"],
        ["low", "Bash(make test *)"],
        ["forbidden", "Bash(rm *)"],
    ]
    assert [why.split(" ")[0] for _, why in found.left_out] == ["Bash(bash", "only", "its"]


@pytest.mark.parametrize(("agent", "text"), [("claude", "{"), ("claude", "[]"), ("codex", "prefix_rule(")])
def test_what_cannot_be_read_is_refused_with_a_sentence(agent, text):
    with pytest.raises(PolicyError):
        read_rules(agent, text)


def test_a_policy_is_written_as_settings_and_read_back():
    text = 'high = ["Bash(git push *)"]\nlow = ["Bash(npm test)", "Bash(make *)"]\nforbidden = ["Read(x/**)"]\n'
    policy = read_policy(text + '[[when]]\nagent = "a"\nhigh = ["calls"]\n')
    settings, found = written("claude", policy)
    assert sorted(map(tuple, read_rules("claude", settings).taken)) == sorted(map(tuple, found.taken))
    assert found.left_out == [["calls, where agent a in high", "its conditions cannot be written there"]]


def test_codex_gets_prefixes_alone():
    policy = read_policy('high = ["Bash(git push *)"]\nlow = ["Bash(npm test)", "Bash(make *)", "Edit(src/**)"]\n')
    rules, found = written("codex", policy)
    assert rules == (
        'prefix_rule(pattern=["git", "push"], decision="prompt")\nprefix_rule(pattern=["make"], decision="allow")\n'
    )
    assert [line for line, _ in found.left_out] == ["Bash(npm test) in low", "Edit(src/**) in low"]


@pytest.mark.django_db
def test_over_the_api_a_lead_reads_and_a_reviewer_exports(post, api, token_of, lena, bob):
    body = {"agent": "claude", "text": json.dumps(SETTINGS)}
    status, told = post(token_of(lena), "/api/v1/policies/import", body)
    assert (status, len(told["taken"]), len(told["left_out"])) == (200, 4, 4)
    assert post(token_of(bob), "/api/v1/policies/import", body)[0] == 403
    assert post(token_of(lena), "/api/v1/policies/import", body | {"text": "{"})[0] == 422
    answer = api(token_of(bob)).get("/api/v1/policies/export?to=claude")
    told = answer.json()
    assert (answer.status_code, json.loads(told["text"])) == (
        200,
        {"permissions": {"allow": [], "ask": [], "deny": []}},
    )
