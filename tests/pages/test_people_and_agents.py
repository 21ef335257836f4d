"""Team, agents, Connect, Policy, stop everything, Me: who may, refused, twice."""

import html
import json
import re
import sys

from approvals.agents import dialects
from approvals.agents.programs import SCRIPTED
from approvals.evaluation import policies
from approvals.models import Action, AgentSession, Policy, Status
from dashboard.database import clock
from dashboard.models import Agent, Event, Membership, Token
from dashboard.people.tokens import find_token, make_token
from tests.support import CHECKOUT

from .conftest import PUSH


def membership(user) -> Membership:
    return Membership.objects.get(user=user)


# Team ----------------------------------------------------------------------------------------------------------------


def test_only_an_admin_manages_people(lena, bob, browser_of, read):
    client = browser_of(lena)
    assert "Invite people" not in read(client, "/team/")
    assert client.post("/team/invite/", {"team": "payments", "people": "x", "role": "admin"}).status_code == 403
    for verb in ("role", "remove", "link"):
        assert client.post(f"/team/{membership(bob).pk}/{verb}/", {"role": "admin"}).status_code == 403
    assert membership(bob).role == "reviewer"


def test_a_role_changes_at_once(alice, bob, browser_of):
    browser_of(alice).post(f"/team/{membership(bob).pk}/role/", {"role": "viewer"})
    assert membership(bob).role == "viewer"
    assert Event.objects.get(verb="person.role_changed").data == {"was": "reviewer", "role": "viewer"}


def test_the_last_admin_stays(alice, browser_of):
    client = browser_of(alice)
    for verb in ("role", "remove"):
        response = client.post(f"/team/{membership(alice).pk}/{verb}/", {"role": "viewer"}, follow=True)
        assert "is the only admin of Payments" in response.content.decode()
    assert membership(alice).role == "admin"


# Agents --------------------------------------------------------------------------------------------------------------


def test_an_agent_is_added_with_a_token_shown_once(lena, browser_of, read):
    client = browser_of(lena)
    client.post("/agents/add/", {"team": "payments", "name": "Codex"})
    text = read(client, "/agents/")
    plain = text.split("<code>hr_", 1)[1].split("</code>", 1)[0]
    assert find_token(f"hr_{plain}").agent.name == "Codex"
    assert Agent.objects.get(name="Codex").owner == lena
    assert plain not in read(client, "/agents/")


def test_the_settings_of_an_editor_hold_the_new_token_once(lena, browser_of, team):
    client = browser_of(lena)
    shown = client.post("/connect/token/", {"team": team.slug, "name": "Zed", "tab": "acp"}, follow=True)
    plain = re.search(r"HANDRAIL_TOKEN&quot;: &quot;hr_([\w-]{20,})&quot;", shown.content.decode())[1]
    assert find_token(f"hr_{plain}").agent.name == "Zed"
    assert plain not in client.get("/connect/?tab=acp").content.decode()


def test_a_paused_agent_opens_nothing(agent, agent_token, lena, browser_of, api):
    client = browser_of(lena)
    assert api(agent_token).get("/api/v1/me").status_code == 200
    client.post(f"/agents/{agent.pk}/pause/")
    assert api(agent_token).get("/api/v1/me").status_code in (401, 403)
    client.post(f"/agents/{agent.pk}/pause/")
    assert Event.objects.filter(verb="agent.paused").count() == 1
    client.post(f"/agents/{agent.pk}/unpause/")
    assert api(agent_token).get("/api/v1/me").status_code == 200


def test_a_revoked_token_opens_nothing(agent, agent_token, lena, browser_of):
    token = Token.objects.get(agent=agent)
    client = browser_of(lena)
    client.post(f"/tokens/{token.pk}/revoke/")
    assert find_token(agent_token) is None
    response = client.post(f"/tokens/{token.pk}/revoke/", follow=True)
    assert f"Token {token.prefix}… is already revoked." in response.content.decode()


def test_a_reviewer_manages_no_agents(agent, agent_token, bob, browser_of):
    client, token = browser_of(bob), Token.objects.get(agent=agent)
    addresses = [f"/agents/{agent.pk}/{verb}/" for verb in ("pause", "unpause", "token")]
    for address in [*addresses, f"/tokens/{token.pk}/revoke/"]:
        assert client.post(address).status_code == 403
    assert client.post("/agents/add/", {"team": "payments", "name": "x"}).status_code == 403
    assert find_token(agent_token) is not None


def test_a_persons_token_is_not_revoked_as_an_agents(alice, bob, team, browser_of):
    make_token(team, user=bob)
    assert browser_of(alice).post(f"/tokens/{Token.objects.get(user=bob).pk}/revoke/").status_code == 404


# Connect -------------------------------------------------------------------------------------------------------------


def test_connect_has_settings_that_never_fail_open(alice, browser_of, read):
    text = read(browser_of(alice), "/connect/")
    shown = text.split(".claude/settings.json</span>", 1)[1].split("HANDRAIL_TOKEN</code> is set")[0]
    parts = re.findall(r'<pre><code class="exact">(.*?)</code></pre>', shown, re.DOTALL)
    hooks = json.loads(html.unescape("".join(parts)))["hooks"]
    told = {"PostToolUse", "PostToolUseFailure", "PermissionRequest", "UserPromptSubmit", "Notification"}
    told |= {"SubagentStop", "Stop", "SessionEnd"}
    assert set(hooks) == {"PreToolUse", "Elicitation", *told}
    assert {hooks[event][0]["hooks"][0]["onFailure"] for event in told} == {"continue"}
    gate = hooks["PreToolUse"][0]["hooks"][0]
    assert hooks["PreToolUse"][0]["matcher"] == "*"
    assert gate["statusMessage"].endswith("/waiting/")
    assert (gate["type"], gate["onFailure"], gate["timeout"]) == ("http", "block", 86400)
    assert gate["url"].endswith("/hooks/claude-code")
    assert gate["headers"] == {"Authorization": "Bearer $HANDRAIL_TOKEN"}
    assert gate["allowedEnvVars"] == ["HANDRAIL_TOKEN"]


def test_connect_has_lines_for_any_agent(alice, browser_of, read):
    text = read(browser_of(alice), "/connect/?tab=http")
    assert "/api/v1/actions/ID/consume" in text
    assert browser_of(alice).get("/connect/?tab=nothing").status_code == 404


def test_connect_says_of_each_agent_how_to_connect_it_and_what_its_gate_cannot_do(alice, browser_of, read):
    for dialect in dialects.ALL[1:]:
        text = html.unescape(read(browser_of(alice), f"/connect/?tab={dialect.name}"))
        assert f"{sys.executable} {CHECKOUT}/manage.py connect {dialect.name} /path/to/your/folder" in text
        line = f"{sys.executable} {CHECKOUT}/manage.py prove {dialect.name} /path/to/your/folder"
        assert (line in text) == (dialect.name in SCRIPTED)  # Cursor asks its maker's models alone
        assert f"~/{dialect.settings_file}" in text
        assert [str(limit) for limit in dialect.limits if str(limit) not in text] == []


def test_each_tab_of_connect_tells_of_calls_of_its_own_kind_of_agent(team, other_team, alice, browser_of, read):
    def heard(name, team, dialect=""):
        agent = Agent.objects.create(team=team, name=name, last_seen_at=clock.now())
        if dialect:
            AgentSession.objects.create(
                team=team, agent=agent, dialect=dialect, native_id=name, started_at=clock.now(), last_at=clock.now()
            )

    heard("gemini", team)
    heard("of-a-box", team, "claude-code")
    heard("of-ci", team, "codex")
    heard("nightly-program", team)
    heard("codex", other_team)
    Agent.objects.create(team=team, name="qwen")
    told = {}
    for tab in ("claude-code", "codex", "gemini", "qwen", "python", "aap", "http"):
        text = read(browser_of(alice), f"/connect/?tab={tab}")
        shown = text.split('id="heard"', 1)[1].split("</section>", 1)[0]
        told[tab] = re.findall(r"([\w-]+) last seen", shown)
        assert told[tab] or "has arrived yet. This turns green" in shown
    program = ["nightly-program"]
    assert told == {"claude-code": ["of-a-box"], "codex": ["of-ci"], "gemini": ["gemini"], "qwen": [],
                    "python": program, "aap": program, "http": program}  # fmt: skip


def test_a_test_action_is_a_card_that_runs_nothing(agent, alice, browser_of):
    response = browser_of(alice).post("/connect/test/", {"agent": str(agent.pk)})
    action = Action.objects.get()
    assert (action.status, action.mode, action.tool) == (Status.PENDING, "gate", "HandrailTest")
    assert response.headers["Location"] == f"/actions/{action.pk}/"


def test_a_line_is_green_once_the_agent_has_called(agent, agent_token, alice, browser_of, read, api):
    client = browser_of(alice)
    assert "No agent has connected yet." in read(client, "/connect/?tab=http")
    api(agent_token).get("/api/v1/me")
    assert "claude last seen" in read(client, "/connect/?tab=http")


def test_a_test_as_a_foreign_or_unknown_agent_is_not_found(other_agent, alice, browser_of):
    for pk in (other_agent.pk, "x", ""):
        assert browser_of(alice).post("/connect/test/", {"agent": str(pk)}).status_code == 404
    assert not Action.objects.exists()


# Policy --------------------------------------------------------------------------------------------------------------


def test_the_policy_is_said_in_a_sentence(bob, browser_of, read):
    assert "People are asked before anything that can&#x27;t be undone; everything else runs and is logged." in read(
        browser_of(bob), "/policy/"
    )


def test_a_command_is_tried_without_asking_anybody(bob, browser_of, read):
    text = read(browser_of(bob), "/policy/?try=git+push+origin+main")
    assert "Needs approval:" in text
    assert not Action.objects.exists()


def test_a_policy_whose_tests_fail_is_not_saved(lena, team, browser_of):
    client = browser_of(lena)
    active = policies.active(team.pk)
    wrong = active.text.replace('tier = "forbidden"', 'tier = "low"', 1)
    response = client.post("/policy/edit/", {"text": wrong, "base": "1"})
    assert "fails" in response.content.decode()
    assert policies.active(team.pk) == active


def test_a_policy_whose_tests_hold_is_in_force_at_once(lena, team, browser_of):
    active = policies.active(team.pk)
    text = active.text.replace('mode = "irreversible"', 'mode = "everything"')
    # The tests of the default policy say what its own mode does with commands.
    text = text.split("[[tests]]")[0]
    data = {"text": text.replace("\n", "\r\n"), "base": "1"}
    response = browser_of(lena).post("/policy/edit/", data, follow=True)
    assert "Version 2 is now active." in response.content.decode()
    assert Policy.objects.get(active=True).text == text


def test_a_reviewer_reads_the_policy_and_writes_none(bob, browser_of, read):
    client = browser_of(bob)
    assert "/policy/edit/" not in read(client, "/policy/")
    assert client.post("/policy/edit/", {"text": "mode = 'irreversible'"}).status_code == 403


# Stop everything, Me -------------------------------------------------------------------------------------------------


def test_stop_everything_asks_first_then_withdraws_and_is_lifted(ask, bob, lena, browser_of, read, team):
    action = ask(PUSH)
    client = browser_of(bob)
    text = read(client, "/stop/")
    assert "Stop everything in Payments?" in text
    assert "This ends 1 request now" in text
    assert "Everything is stopped in Payments." not in read(client, "/")
    client.post("/stop/", {"team": "payments"})
    action.refresh_from_db()
    team.refresh_from_db()
    assert (action.status, team.stopped_by) == (Status.CANCELLED, bob)
    assert "Stopped by bob" in read(client, "/stop/")
    for page in ("/", "/workspaces/", "/log/"):
        assert "Everything is stopped in Payments." in read(client, page)
    assert "Everything is already stopped." in client.post("/stop/", {"team": "payments"}, follow=True).content.decode()
    assert client.post("/stop/lift/", {"team": "payments"}).status_code == 403
    browser_of(lena).post("/stop/lift/", {"team": "payments"})
    team.refresh_from_db()
    assert team.stopped_at is None
    assert "Everything is stopped" not in read(client, "/")


def test_the_theme_is_kept_in_a_cookie(vera, browser_of, read):
    client = browser_of(vera)
    client.post("/me/theme/", {"theme": "dark"})
    assert 'data-theme="dark"' in read(client, "/me/")
    client.post("/me/theme/", {"theme": "<script>"})
    assert 'data-theme="dark"' in read(client, "/me/")
    client.post("/me/theme/", {"theme": ""})
    assert "data-theme=" not in read(client, "/me/").split("<head>")[0]


def test_a_paused_agent_hears_who_paused_it(agent, agent_token, lena, browser_of, client):
    address = f"/agents/{agent.pk}"
    browser_of(lena).post(f"{address}/pause/")
    headers = {"Authorization": f"Bearer {agent_token}"}
    told = client.get("/api/v1/me", headers=headers)
    assert (told.status_code, told.json()["code"]) == (403, "paused")
    assert told.json()["detail"].startswith("Paused by lena at ")
    browser_of(lena).post(f"{address}/unpause/")
    assert client.get("/api/v1/me", headers=headers).status_code == 200
