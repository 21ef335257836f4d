"""Description, owner, ticket and labels of a workspace: changed on its page and by the API, shown where it is named."""

import json

import pytest

from dashboard.models import Event, Membership, Team
from dashboard.people.tokens import make_token

from .conftest import PUSH

HERE = "/w/payments/repo-task-1/"
ADDRESS = "/api/v1/workspaces/repo-task-1"
ASKED = {"description": "Moves  to Stripe\n", "owner": "bob", "ticket": "PAY-41", "labels": "area: pay\n\nrisk:high"}
KEPT = {"description": "Moves to Stripe", "owner": "bob", "ticket": "PAY-41", "labels": {"area": "pay", "risk": "high"}}


@pytest.fixture
def patch(client):
    def send(body, token):
        answer = client.patch(
            ADDRESS, json.dumps(body), content_type="application/json", headers={"Authorization": f"Bearer {token}"}
        )
        return answer.status_code, answer.json()

    return send


def kept(workspace) -> dict:
    workspace.refresh_from_db()
    owner = workspace.owner and workspace.owner.username
    fields = {name: getattr(workspace, name) for name in ("description", "ticket", "labels")}
    return fields | {"owner": owner}


def test_a_lead_changes_them_on_the_page(workspace, lena, bob, browser_of, read):
    assert "Edit details" in read(browser_of(lena), HERE)
    assert browser_of(lena).post(f"{HERE}details/", ASKED).headers["Location"] == HERE
    assert kept(workspace) == KEPT
    assert {(row.name, row.value) for row in workspace.label_rows.all()} == {("area", "pay"), ("risk", "high")}
    assert Event.objects.get(verb="workspace.described").data == KEPT


def test_a_field_that_was_not_changed_is_left_as_it_is_now(workspace, lena, bob, browser_of):
    """Lena opened the page before Bob set the ticket; the form shows it empty and she changes the description."""
    browser_of(lena).post(f"{HERE}details/", ASKED)
    browser_of(lena).post(f"{HERE}details/", ASKED | {"description": "Done"})
    assert Event.objects.filter(verb="workspace.described").latest("seq").data == {"description": "Done"}
    browser_of(lena).post(f"{HERE}details/", ASKED | {"description": "Done"})
    assert Event.objects.filter(verb="workspace.described").count() == 2


def test_the_api_sets_what_is_named_and_leaves_the_rest(workspace, lena, bob, token_of, patch):
    status, shown = patch(KEPT, token_of(lena))
    assert (status, {name: shown[name] for name in KEPT}) == (200, KEPT)
    status, shown = patch({"owner": "", "ticket": ""}, token_of(lena))
    assert {name: shown[name] for name in KEPT} == KEPT | {"owner": None, "ticket": ""}
    patch({}, token_of(lena))
    assert Event.objects.filter(verb="workspace.described").count() == 2


@pytest.mark.parametrize(
    "body",
    [
        {"owner": "mallory"},
        {"owner": "nobody"},
        {"ticket": "PAY 41"},
        {"ticket": "../../admin"},
        {"ticket": "javascript:alert(1)"},
        {"labels": {"with space": "x"}},
        {"labels": {"a:b": "x"}},
        {"labels": {"a": "x" * 201}},
        {"description": "x" * 501},
        {"state": "ready"},
        {"description": "kept?", "agents": ["nobody"]},
    ],
)
def test_bad_values_change_nothing(workspace, lena, mallory, token_of, patch, body):
    before = kept(workspace)
    status, problem = patch(body, token_of(lena))
    assert (status, bool(problem["detail"]), kept(workspace)) == (422, True, before)
    assert not Event.objects.exists()


def test_a_bad_value_is_told_on_the_page(workspace, lena, browser_of):
    for fields in ({"ticket": "a b"}, {"labels": "no colon"}, {"owner": "nobody"}):
        answer = browser_of(lena).post(f"{HERE}details/", fields)
        assert (answer.status_code, 'role="alert"' in answer.content.decode()) == (200, True)
    assert kept(workspace)["ticket"] == ""


def test_an_agent_describes_its_own_and_chooses_no_owner(workspace, bob, agent_token, other_agent_token, patch):
    assert patch({"description": "Half done", "labels": {"area": "pay"}}, agent_token)[0] == 200
    assert patch({"owner": "bob"}, agent_token)[0] == 403
    assert patch({"description": "mine"}, other_agent_token)[0] == 404
    assert kept(workspace) == {"description": "Half done", "ticket": "", "labels": {"area": "pay"}, "owner": None}


def test_a_viewer_cannot_change_the_details(workspace, bob, mallory, token_of, patch, browser_of, read):
    assert "Edit details" not in read(browser_of(bob), HERE)
    assert browser_of(bob).post(f"{HERE}details/", ASKED).status_code == 403
    assert browser_of(mallory).post(f"{HERE}details/", ASKED).status_code == 404
    assert patch({"ticket": "X-1"}, token_of(bob))[0] == 403
    assert patch({"ticket": "X-1"}, token_of(mallory))[0] == 404
    assert kept(workspace)["ticket"] == ""


def test_details_stand_on_the_header_the_list_and_the_card(team, workspace, lena, bob, browser_of, read, ask):
    Team.objects.update(ticket_url="https://tracker.example/browse/{ticket}")
    browser_of(lena).post(f"{HERE}details/", ASKED)
    action = ask(PUSH, workspace=workspace)
    link = '<a href="https://tracker.example/browse/PAY-41" rel="noopener noreferrer external">PAY-41</a>'
    for address in (HERE, "/workspaces/"):
        text = read(browser_of(lena), address)
        assert "Moves to Stripe" in text
        assert 'href="/workspaces/?label=risk:high"' in text
    for address in (HERE, "/workspaces/", f"/actions/{action.pk}/"):
        text = read(browser_of(lena), address)
        assert link in text, address
        assert 'Owner: <a href="/workspaces/?owner=bob">bob</a>' in text, address


def test_without_an_address_a_ticket_is_text(workspace, lena, bob, browser_of, read):
    browser_of(lena).post(f"{HERE}details/", ASKED)
    text = read(browser_of(lena), HERE)
    assert "PAY-41" in text
    assert "external" not in text


def test_hidden_characters_of_an_agent_are_marked(workspace, agent_token, lena, patch, browser_of, read):
    patch({"description": "ok\u202egpj", "labels": {"a": "b\u200bc"}}, agent_token)
    for address in (HERE, "/workspaces/"):
        text = read(browser_of(lena), address)
        assert "\u202e" not in text
        assert "\u200b" not in text


def test_a_lead_sets_the_address_of_tickets(team, lena, bob, browser_of, read):
    answer = browser_of(lena).post("/team/tickets/", {"team": "payments", "address": "https://t.example/{ticket}"})
    assert answer.status_code == 302
    assert Team.objects.get().ticket_url == "https://t.example/{ticket}"
    assert Event.objects.get().data == {"address": "https://t.example/{ticket}"}
    assert "https://t.example/{ticket}" in read(browser_of(lena), "/team/")
    assert "Save address" not in read(browser_of(bob), "/team/")
    assert browser_of(bob).post("/team/tickets/", {"team": "payments", "address": ""}).status_code == 403


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert({ticket})",
        "data:text/html,{ticket}",
        "//t.example/{ticket}",
        "https://{ticket}.example/",
        "https://t.example/",
        "https://t.example/{ticket}/{ticket}",
        "https://me:word@t.example/{ticket}",
        "https://t.example/{ticket} x",
        'https://t.example/"{ticket}',
        "https://[t.example/{ticket}",
        "https:///{ticket}",
        "https://t.example/{ticket}" + "x" * 300,
    ],
)
def test_an_address_that_is_not_safe_is_refused(team, lena, browser_of, address):
    browser_of(lena).post("/team/tickets/", {"team": "payments", "address": address})
    assert (Team.objects.get().ticket_url, Event.objects.count()) == ("", 0)


def test_the_owner_is_who_made_it_or_whose_agent_did(team, agent, lena, alice, client, api, token_of):
    agent.owner = alice
    agent.save()
    body = {"content_type": "application/json"}
    made = api(token_of(lena)).post("/api/v1/workspaces", json.dumps({"key": "of-lena"}), **body)
    assert (made.status_code, made.json()["owner"]) == (201, "lena")
    made = api(make_token(team, agent=agent)).post("/api/v1/workspaces", json.dumps({"key": "of-agent"}), **body)
    assert (made.status_code, made.json()["owner"]) == (201, "alice")
    Membership.objects.filter(user=alice).delete()
    made = api(make_token(team, agent=agent)).post("/api/v1/workspaces", json.dumps({"key": "left"}), **body)
    assert (made.status_code, made.json()["owner"]) == (201, None)


def test_the_page_says_which_submodules_of_the_source_are_not_filled(browser_of, read, lena, workspace):
    rows = [{"path": "lib/a", "url": "../a", "sha": "ab" * 20, "reason": ""}]
    rows.append({"path": "lib/<b>", "url": "../b", "sha": "cd" * 20, "reason": "Can't resolve git.example.org."})
    workspace.source = {"git": "https://git.example.org/shop", "sha": "ef" * 20, "submodules": rows}
    workspace.save()
    page = read(browser_of(lena), HERE)
    assert "2 submodules" in page
    assert "1 not filled" in page
    assert "<code>lib/&lt;b&gt;</code>" in page
    assert "Can&#x27;t resolve git.example.org." in page


def test_the_page_says_which_files_of_git_lfs_stay_pointers(browser_of, read, lena, workspace):
    left = [{"path": "<a>.bin", "reason": "git.example.org does not have its content."}]
    lfs = {"files": 3, "bytes": 12, "left": left, "more": 7}
    workspace.source = {"git": "https://git.example.org/shop", "sha": "ef" * 20, "lfs": lfs}
    workspace.save()
    page = read(browser_of(lena), HERE)
    assert "3 files of git-lfs" in page
    assert "8 stay pointers" in page
    assert "<code>&lt;a&gt;.bin</code>" in page
    assert "git.example.org does not have its content." in page
    assert "their contents are not pushed" in page
