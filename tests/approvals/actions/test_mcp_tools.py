"""An MCP gate says which server a call is for and how its tool is described: the approval binds it, a change asks."""

import pytest

from approvals.actions import grants
from approvals.actions.mcp_tools import Served
from approvals.evaluation import policies
from approvals.evaluation.judge import content, current
from approvals.models import Action
from dashboard.models import Actor
from dashboard.problems import Problem

from ..conftest import ACTIONS

GITHUB = Served("npx -y github-server", "a" * 64, "1" * 64)
CHANGED = Served(GITHUB.runs, GITHUB.sha256, "2" * 64)
OTHER = Served("sh evil.sh", "b" * 64, "1" * 64)
TOOL = "mcp__github__get_issue"
SAYS = "Needs approval: its server describes this tool differently than when the tool was first used or last approved."


@pytest.fixture
def policy(team):
    """`policy(text)` makes it the team's."""
    return lambda text: policies.add(team.pk, text, actor=Actor.system("test"))


@pytest.fixture
def call(ask):
    return lambda served=GITHUB, **more: ask({"n": 1}, tool=TOOL, served=served, **more)


def test_the_server_and_the_definition_are_part_of_the_digest_and_on_the_card(call, client, bob):
    action, plain, changed = call(), call(None), call(CHANGED)
    assert len({action.digest, plain.digest, changed.digest}) == 3
    assert content(action)["files"] == [
        {"kind": "mcp-tool", "path": TOOL, "sha256": GITHUB.tool_sha256},
        {"kind": "mcp-server", "path": GITHUB.runs, "sha256": GITHUB.sha256},
    ]
    client.force_login(bob)
    page = client.get(f"/actions/{action.pk}/").content.decode()
    assert "npx -y github-server</code> MCP server, sha256 aaaaaaaaaaaa," in page
    assert f"{TOOL}</code> as its server describes it, sha256 111111111111." in page


def test_a_tool_that_changed_since_it_was_first_used_asks_until_a_person_approves_it(call, policy, decide, bob):
    policy(f'low = ["{TOOL}"]')
    assert [call().status, call().status] == ["approved", "approved"]
    asked = call(CHANGED)
    assert (asked.status, asked.undo, current(asked).reasons) == ("pending", "unknown", [SAYS])
    decide(asked, "deny", by=bob)
    again = call(CHANGED)
    assert again.status == "pending"
    decide(again, by=bob)
    assert [call(CHANGED).status, call().status] == ["approved", "pending"]


def test_an_approved_edit_accepts_the_definition_and_keeps_it_bound(call, policy, decide, bob):
    policy(f'low = ["{TOOL}"]')
    call()
    asked = call(CHANGED)
    before = content(asked)["files"]
    decide(asked, "edit", by=bob, arguments={"n": 2})
    asked.refresh_from_db()
    assert (asked.status, content(asked)["files"]) == ("approved", before)
    assert call(CHANGED).status == "approved"


def test_a_grant_does_not_cover_the_tool_once_it_changed(call, policy, person, bob):
    asked = call()
    scopes = grants.offers(asked)
    grants.approve_and_grant(
        asked, caller=person(bob), digest=asked.digest, covers="tool" if "tool" in scopes else "exact"
    )
    assert call().status == "approved"
    assert [call(CHANGED).status, call(OTHER).status, call(None).status] == ["pending", "pending", "pending"]


def test_a_ban_holds_for_a_tool_that_changed(call, policy):
    policy(f'low = ["{TOOL}"]')
    call()
    policy('forbidden = ["mcp__github__*"]')
    assert call(CHANGED).status == "denied"


def test_a_server_other_than_the_trusted_one_asks_and_the_gate_alone_does_not_open_a_rule(call, policy):
    trusted = f'[[trust.servers]]\nname = "github"\nruns = "{GITHUB.runs}"\nsha256 = "{GITHUB.sha256}"\n'
    policy(f'low = ["{TOOL}"]\n{trusted}')
    other, named = call(OTHER), call()
    assert other.status == "pending"
    assert "the server github is now sh evil.sh" in current(other).reasons[-1]
    # Only settings that Handrail reads itself say which server it is.
    assert (named.status, len(current(named).reasons)) == ("pending", 1)


def test_the_same_call_of_a_session_with_another_definition_is_another_action(call):
    assert call(session="s").pk == call(session="s").pk != call(CHANGED, session="s").pk


def test_over_the_api(client, agent_token):
    wish = {"tool": TOOL, "arguments": {}, "mcp": vars(GITHUB)}
    headers = {"Authorization": f"Bearer {agent_token}"}
    answer = client.post(ACTIONS, wish, content_type="application/json", headers=headers)
    assert answer.status_code == 201
    assert [file["kind"] for file in answer.json()["files"]] == ["mcp-tool", "mcp-server"]
    for wrong in (wish | {"tool": "Bash"}, wish | {"mcp": {"runs": "x"}}, wish | {"mcp": wish["mcp"] | {"x": 1}}):
        assert client.post(ACTIONS, wrong, content_type="application/json", headers=headers).status_code == 422
    assert Action.objects.count() == 1


def test_only_mcp_tools_have_a_server(ask):
    with pytest.raises(Problem):
        ask(served=GITHUB)


def test_connect_says_how_to_put_the_gate_before_a_server(client, bob):
    client.force_login(bob)
    page = client.get("/connect/?tab=mcp").content.decode()
    assert "mcp-gate" in page
    assert "handrail mcp-server" in page
