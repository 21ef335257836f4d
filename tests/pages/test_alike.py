"""Many requests that are alike are answered together: shown whole, exceptions ticked out, each bound to its digest."""

import re

import pytest

from approvals.models import Action, Decision
from dashboard.models import Agent
from dashboard.tokens import make_token

from .conftest import FORCE, make_workspace


@pytest.fixture
def pushes(ask, workspace):
    """Five pushes of one agent, and something else."""
    found = [ask({"command": f"git push origin topic-{number}"}, workspace=workspace) for number in range(5)]
    ask({"command": "curl https://example.org/x"}, workspace=workspace)
    return found


def address(action) -> str:
    return f"/waiting/alike/{action.pk}/"


def picked(*actions) -> dict:
    return {"action": [f"{action.pk}:{action.digest}" for action in actions]}


def statuses(actions) -> list[str]:
    return [Action.objects.get(pk=action.pk).status for action in actions]


def test_approvals_offers_the_group_by_what_they_do(pushes, bob, browser_of, read):
    text = read(browser_of(bob), "/waiting/")
    assert "5 alike: git push" in text
    assert "alike: curl" not in text
    assert f'href="{address(pushes[0])}"' in text


def test_two_are_no_group(ask, bob, browser_of, read):
    for number in range(2):
        ask({"command": f"git push origin topic-{number}"})
    assert "alike:" not in read(browser_of(bob), "/waiting/")


def test_the_group_shows_each_call_whole_and_ticked(pushes, bob, browser_of, read):
    text = read(browser_of(bob), address(pushes[2]))
    assert "5 × git push" in text
    for action in pushes:
        assert f"git push origin topic-{pushes.index(action)}" in text
        assert f'value="{action.pk}:{action.digest}" checked' in re.sub(r"\s+", " ", text)
    assert "curl" not in text


def test_an_exception_is_ticked_out_and_the_rest_is_approved_after_a_confirmation(pushes, bob, browser_of):
    client, wanted = browser_of(bob), picked(*pushes[:2], *pushes[3:])
    asked = client.post(address(pushes[0]), wanted | {"step": "approve"}).content.decode()
    assert "Approve 4" in re.sub(r"\s+", " ", asked)
    assert "in repo-task-1" in asked
    assert "4 of them can&#x27;t be undone" in asked
    assert "1 keeps waiting" in re.sub(r"\s+", " ", asked)
    assert set(statuses(pushes)) == {"pending"}
    client.post(address(pushes[0]), wanted | {"verdict": "approve"})
    assert statuses(pushes) == ["approved", "approved", "pending", "approved", "approved"]
    assert Decision.objects.filter(user=bob, verdict="approve").count() == 4


def test_a_denial_tells_all_of_them_the_same(pushes, bob, browser_of):
    client = browser_of(bob)
    client.post(address(pushes[0]), picked(*pushes) | {"verdict": "deny", "comment": "Open pull requests instead."})
    assert set(statuses(pushes)) == {"denied"}
    assert set(Decision.objects.values_list("comment", flat=True)) == {"Open pull requests instead."}


def test_what_was_answered_or_changed_meanwhile_is_left_and_said(pushes, decide, alice, bob, browser_of):
    client, stale = browser_of(bob), picked(*pushes)
    decide(pushes[0], "deny", by=alice)
    stale["action"][1] = f"{pushes[1].pk}:{'0' * 64}"
    shown = client.post(address(pushes[0]), stale | {"verdict": "approve"}, follow=True).content.decode()
    assert statuses(pushes) == ["denied", "pending", "approved", "approved", "approved"]
    assert "Approved: 3 requests." in shown
    assert "2 had changed or ended meanwhile. They were not answered." in shown


def test_nothing_ticked_answers_nothing(pushes, bob, browser_of):
    shown = browser_of(bob).post(address(pushes[0]), {"step": "approve"}).content.decode()
    assert "Tick at least one request." in shown
    assert "Confirm: approve" not in shown
    assert set(statuses(pushes)) == {"pending"}


def test_a_call_that_is_too_long_to_show_is_decided_on_its_card(ask, bob, browser_of, read):
    short = [ask({"command": f"git push origin topic-{number}"}) for number in range(3)]
    long = ask({"command": "git push origin " + "x" * 3000})
    client = browser_of(bob)
    text = re.sub(r"\s+", " ", read(client, address(short[0])))
    assert f'value="{long.pk}:{long.digest}" disabled' in text
    assert "x" * 3000 not in text
    client.post(address(short[0]), picked(*short, long) | {"verdict": "approve"})
    assert statuses([*short, long]) == ["approved", "approved", "approved", "pending"]


def test_what_needs_two_people_is_in_no_group(ask, bob, browser_of, read):
    critical = [ask(FORCE | {"command": f"{FORCE['command']} && echo {number}"}) for number in range(4)]
    assert "alike:" not in read(browser_of(bob), "/waiting/")
    browser_of(bob).post(address(critical[0]), picked(*critical) | {"verdict": "approve"})
    assert set(statuses(critical)) == {"pending"}


def test_another_agents_requests_and_other_folders_are_not_alike(ask, pushes, team, bob, browser_of, read, other_agent):
    theirs = [ask({"command": f"git push origin z{n}"}, token=other_agent) for n in range(3)]
    for number in range(3):
        ask({"file_path": f"docs/{number}.md", "content": "x"}, tool="Write")
        ask({"file_path": f"src/{number}.md", "content": "x"}, tool="Write")
    text = read(browser_of(bob), "/waiting/")
    assert "5 alike: git push" in text
    assert "3 alike: git push" in text
    assert "git push origin z0" not in read(browser_of(bob), address(pushes[0]))
    browser_of(bob).post(address(pushes[0]), picked(*pushes, *theirs) | {"verdict": "approve"})
    assert set(statuses(theirs)) == {"pending"}


@pytest.fixture
def other_agent(team):
    agent = Agent.objects.create(team=team, name="codex-2")
    return make_token(team, agent=agent)


def test_who_may_not_decide_is_offered_nothing_and_changes_nothing(pushes, vera, mallory, browser_of, read):
    assert "alike:" not in read(browser_of(vera), "/waiting/")
    browser_of(vera).post(address(pushes[0]), picked(*pushes) | {"verdict": "approve"})
    assert browser_of(mallory).get(address(pushes[0])).status_code == 404
    assert browser_of(mallory).post(address(pushes[0]), picked(*pushes) | {"verdict": "approve"}).status_code == 404
    assert set(statuses(pushes)) == {"pending"}


def test_hidden_characters_of_a_call_are_shown(ask, team, agent, bob, browser_of, read):
    workspace = make_workspace(team, agent, "repo-task-9")
    found = [ask({"command": f"git push origin a\u202eb{n}"}, workspace=workspace) for n in range(3)]
    text = read(browser_of(bob), address(found[0]))
    assert "\u202e" not in text
