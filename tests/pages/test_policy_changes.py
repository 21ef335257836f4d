"""The Policy pages over time: versions and the way back, the effect before saving, rules from a card."""

from urllib.parse import parse_qs, urlsplit

import pytest

from approvals.evaluation import policies
from approvals.models import Policy
from approvals.pages.policy import replays
from dashboard.people.access import caller_of
from tests.pages.conftest import PUSH, tight
from workspaces.models import Environment

FIRST, SECOND = 'mode = "commands"\n', 'mode = "everything"\nlow = ["Bash(ls)"]\n'


@pytest.fixture
def saved(team, lena):
    for text, comment in ((FIRST, "start <strict>"), (SECOND, "ask for all")):
        policies.save(text, caller=caller_of(lena), team=team, comment=comment)


def test_versions_are_listed_with_who_and_why(saved, vera, browser_of, read):
    text = read(browser_of(vera), "/policy/versions/")
    assert text.index("Version 2") < text.index("ask for all") < text.index("start &lt;strict&gt;")
    assert "lena" in text
    assert "Go back" not in text


def test_any_two_versions_are_compared(saved, vera, browser_of):
    client = browser_of(vera)
    newest = client.get("/policy/versions/")
    assert (newest.context["from_"], newest.context["to"], newest.context["difference"].additions) == (1, 2, 2)
    back = client.get("/policy/versions/?from=2&to=1").context["difference"]
    assert (back.additions, back.deletions) == (1, 2)
    assert client.get("/policy/versions/?from=2&to=7").status_code == 404
    assert client.get("/policy/versions/?from=x").status_code == 404


def test_going_back_shows_the_difference_and_saves_a_new_version(saved, team, lena, browser_of, read):
    client = browser_of(lena)
    text = read(client, "/policy/versions/1/")
    assert "Go back to version 1" in text
    assert 'name="base" value="2"' in text
    response = client.post("/policy/versions/1/back/", {"base": "2"}, follow=True)
    assert "Version 3 is now active: the text of version 1." in response.content.decode()
    assert (policies.active(team.pk).number, policies.active(team.pk).text) == (3, FIRST)
    assert policies.active(team.pk).comment == "Back to version 1"


def test_going_back_after_somebody_saved_changes_nothing(saved, team, lena, browser_of):
    response = browser_of(lena).post("/policy/versions/1/back/", {"base": "1"}, follow=True)
    assert "lena saved version 2 while you edited version 1. Nothing was saved." in response.content.decode()
    assert Policy.objects.count() == 2


def test_a_reviewer_does_not_go_back(saved, bob, browser_of):
    assert browser_of(bob).post("/policy/versions/1/back/", {"base": "2"}).status_code == 403


def test_a_version_of_an_environment_is_its_own(saved, team, lena, browser_of):
    web = Environment.objects.create(team=team, name="web", version=1)
    policies.save("# web\n", caller=caller_of(lena), team=team, environment=web)
    client = browser_of(lena)
    assert client.get("/policy/versions/1/?environment=web").context["version"].text == "# web\n"
    assert client.get("/policy/versions/2/?environment=web").status_code == 404


def test_the_effect_is_shown_and_nothing_is_saved(team, lena, ask, workspace, browser_of):
    action = ask({"command": "ls"}, workspace=workspace)
    data = {"text": 'high = ["Bash(ls)"]\nlow = ["Bash(ls)"]\n', "base": "1", "comment": "try", "effect": "1"}
    text = browser_of(lena).post("/policy/edit/", data | {"text": 'high = ["Bash(ls)"]\n'}).content.decode()
    assert "1 call more would need approval" in text
    assert f'<a href="/actions/{action.pk}/">A-{action.number}</a>' in text
    assert 'value="try"' in text
    assert policies.active(team.pk).number == 1


def test_an_invalid_text_has_no_effect_but_a_reason(team, lena, browser_of):
    policies.active(team.pk)
    page = browser_of(lena).post("/policy/edit/", {"text": "low = 1\n", "base": "1", "effect": "1"})
    assert page.context["form"].errors["text"] == ["low must be a list of rules."]
    assert "effect" not in page.context


def test_a_comment_is_kept_with_the_version(team, lena, browser_of):
    policies.active(team.pk)
    browser_of(lena).post("/policy/edit/", {"text": FIRST, "base": "1", "comment": "quieter nights"})
    assert (policies.active(team.pk).number, policies.active(team.pk).comment) == (2, "quieter nights")


def test_the_page_says_how_often_rules_decided_and_which_never_do(team, lena, ask, browser_of, read):
    text = 'critical = ["Bash(git push *)"]\nhigh = ["Bash(git push origin *)", "Bash(npm test)"]\n'
    policies.save(text, caller=caller_of(lena), team=team)
    ask(PUSH)
    page = tight(read(browser_of(lena), "/policy/"))
    assert '<code class="exact">Bash(git push *)</code><small class="row-meta">decided 1 call in 30 days' in page
    assert page.count("no call in 30 days") == 2
    assert page.count("never decides") == 1
    assert "<code>Bash(git push *)</code>in critical takes all of its calls first" in page


def test_a_card_leads_to_the_editor_with_a_rule_for_each_list(team, lena, ask, workspace, browser_of):
    action = ask(PUSH, workspace=workspace)
    client = browser_of(lena)
    assert f"/actions/{action.pk}/rule/" in client.get(f"/actions/{action.pk}/").content.decode()
    lists = client.get(f"/actions/{action.pk}/rule/").context["lists"]
    offered = {each["tier"]: [offer.proposal.rule for offer in each["offers"]] for each in lists}
    exact, alike = "Bash(git push origin main)", "Bash(git push *)"
    assert offered == {"low": [alike], "high": [exact, alike], "forbidden": [exact, alike]}
    url = next(each for each in lists if each["tier"] == "forbidden")["offers"][1].url
    assert parse_qs(urlsplit(url).query) == {
        "team": ["payments"],
        "add": [alike],
        "to": ["forbidden"],
        "card": [str(action.number)],
    }
    form = client.get(url).context["form"]
    assert 'forbidden = [\n  "Bash(git push *)",\n]' in form["text"].value()
    assert form["comment"].value() == f"A rule of A-{action.number} in forbidden"
    assert policies.active(team.pk).number == 1


def test_the_rule_goes_to_the_policy_that_judged_the_card(team, lena, ask, workspace, browser_of):
    policies.save(FIRST, caller=caller_of(lena), team=team, environment=workspace.environment)
    action = ask(PUSH, workspace=workspace)
    page = browser_of(lena).get(f"/actions/{action.pk}/rule/")
    assert page.context["scope"].name == "default"
    assert "environment=default" in page.context["lists"][0]["offers"][0].url


def test_a_decided_card_and_one_of_another_tool_offer_rules(team, lena, ask, workspace, browser_of):
    edit = ask({"file_path": "/workspace/src/app.py", "content": "x"}, tool="Write", workspace=workspace)
    lists = browser_of(lena).get(f"/actions/{edit.pk}/rule/").context["lists"]
    offered = {each["tier"]: [offer.proposal.rule for offer in each["offers"]] for each in lists}
    assert offered["high"] == ["Edit(/src/app.py)", "Edit(/src/**)"]


def test_only_who_writes_the_policy_makes_rules(ask, bob, browser_of):
    action = ask(PUSH)
    client = browser_of(bob)
    assert client.get(f"/actions/{action.pk}/rule/").status_code == 403
    assert "Make a rule of the policy" not in client.get(f"/actions/{action.pk}/").content.decode()


def test_a_long_effect_is_shown_while_it_goes_on(team, lena, bob, mallory, ask, workspace, browser_of, monkeypatch):
    for name in ("a", "b", "c"):
        ask({"command": f"git push origin {name}"}, workspace=workspace)
    monkeypatch.setattr(replays, "FIRST", 0)
    client = browser_of(lena)
    data = {"text": 'forbidden = ["Bash(git push *)"]\n', "base": "1", "effect": "1"}
    page = client.post("/policy/edit/", data)
    assert "0 of 3 calls compared so far, the newest first." in page.content.decode()
    address = f"/policy/effect/{page.context['key']}/"
    assert f'hx-get="{address}"' in page.content.decode()
    assert browser_of(bob).get(address).status_code == 403
    assert browser_of(mallory).get(address).status_code == 404
    monkeypatch.setattr(replays, "STEP", 60)
    shown = client.get(address).content.decode()
    assert "3 calls would be forbidden" in shown
    assert "hx-get=" not in shown.split('id="effect"')[1].split("</section>")[0]
