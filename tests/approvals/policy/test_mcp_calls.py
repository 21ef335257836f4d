"""Titles, amounts and prospects of an undo of calls that we wrote for each known server by its published schema."""

import json
from collections import Counter
from pathlib import Path

import pytest

from approvals.policy import classify, default_policy, load_policy, mcp_servers
from approvals.policy.deeds import amount_of

POLICY = load_policy(default_policy())
CALLS = [json.loads(line) for line in Path(__file__).with_name("mcp_calls.jsonl").read_text().splitlines()]
UNKNOWN = "Handrail doesn't know what this tool does"


def name_of(call):
    return f"mcp__{call['server']}__{call['tool']}"


@pytest.mark.parametrize("call", CALLS, ids=[f"{number}-{name_of(call)}" for number, call in enumerate(CALLS)])
def test_a_known_call_has_its_title_its_amount_and_its_undo_and_asks_as_before(call):
    verdict = classify(name_of(call), call["input"], policy=POLICY)
    assert (verdict.title, verdict.undo) == (call["title"], call["undo"])
    assert amount_of(name_of(call), call["input"]) == call["amount"]
    assert verdict.tier == "high"
    assert UNKNOWN not in verdict.reasons[0]


def test_at_least_forty_servers_have_three_calls_each():
    found = Counter(mcp_servers.find(call["server"], call["tool"], call["input"]).service for call in CALLS)
    assert len([service for service, count in found.items() if count >= 3]) >= 40


NPX = {"origin": "user", "runs": "npx -y @modelcontextprotocol/server-github@2025.4.8", "sha256": "0" * 64}
ISSUE = {"owner": "acme", "repo": "shop", "issue_number": 4}


@pytest.mark.parametrize(
    ("server", "entries", "undo", "title"),
    [
        ("hub", [NPX], "yes", "Read issue 4 in acme/shop (hub)"),
        ("github", None, "unknown", "Read issue 4 in acme/shop (github)"),
        (
            "github",
            [NPX | {"runs": "node evil.js @modelcontextprotocol/server-github"}],
            "unknown",
            "get_issue: issue 4",
        ),
        ("github", [NPX | {"runs": "npx evil @modelcontextprotocol/server-github"}], "unknown", "get_issue: issue 4"),
        ("github", [NPX | {"origin": "project"}], "unknown", "get_issue: issue 4"),
        ("github", [NPX | {"runs": "https://evil.example/?api.githubcopilot.com"}], "unknown", "get_issue: issue 4"),
        ("hub", [NPX | {"runs": "https://api.githubcopilot.com/mcp/"}], "yes", "Read issue 4 in acme/shop (hub)"),
        ("work", None, "unknown", "get_issue: issue 4 in acme/shop (work)"),
    ],
)
def test_a_read_counts_as_one_only_where_the_persons_settings_start_that_server(server, entries, undo, title):
    context = {} if entries is None else {"mcp_servers": [{"name": server} | each for each in entries]}
    verdict = classify(f"mcp__{server}__get_issue", ISSUE, policy=POLICY, context=context)
    assert (verdict.tier, verdict.undo) == ("high", undo)
    assert verdict.title.startswith(title)


def test_a_reason_says_on_what_it_rests():
    asked = classify("mcp__github__get_issue", ISSUE, policy=POLICY)
    assert asked.reasons == ["Needs approval: if github is GitHub's server, get_issue of GitHub only reads."]
    asked = classify("mcp__hub__get_issue", ISSUE, policy=POLICY, context={"mcp_servers": [{"name": "hub"} | NPX]})
    assert asked.reasons == ["Needs approval: get_issue of GitHub only reads."]


def test_a_server_under_the_persons_own_name_is_known_by_its_tool_and_arguments():
    verdict = classify("mcp__work__create_issue", {"owner": "acme", "repo": "shop", "title": "x"}, policy=POLICY)
    assert (verdict.title, verdict.undo) == ('Create an issue "x" in acme/shop (work)', "unknown")
    assert mcp_servers.find("work", "create_issue", {"rocket": 1}) is None
