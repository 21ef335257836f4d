"""An agent's page: whose it is, where it may work, and its day."""

import re
from datetime import timedelta

from django.utils import timezone

from approvals.actions import questions_to_agents
from approvals.models import Action
from approvals.sessions import messages, prompts
from dashboard.database import clock
from dashboard.models import Actor, Agent, Event
from dashboard.people.access import caller_of
from workspaces.models import Contact

from .conftest import LIST, PUSH, make_command


def test_its_head_says_whose_it_is_and_where_it_may_work(agent, workspace, alice, bob, browser_of, read):
    type(agent).objects.update(owner=alice, last_seen_at=clock.now())
    text = read(browser_of(bob), f"/agents/{agent.pk}/")
    assert "Owned by alice" in text
    assert 'href="/w/payments/repo-task-1/">repo-task-1</a>' in text
    assert f'href="/agents/#agent-{agent.pk}"' in text


def test_the_day_of_an_agent_has_calls_answers_commands_hosts_and_messages(
    agent, workspace, ask, decide, bob, browser_of, read
):
    ask(LIST, workspace=workspace)
    pushed = ask(PUSH, workspace=workspace, session="s1")
    prompts.save(agent, "s1", "Ship the cart, please.")
    questions_to_agents.ask(pushed, caller=caller_of(bob), text="Is the branch rebased?")
    decide(pushed, "deny", by=bob, comment="no")
    messages.send(agent, session="", caller=caller_of(bob), text="Prices are in cents.")
    Action.objects.filter(tool="Bash").update(consumed_at=clock.now())
    command = make_command(workspace, "make report")
    record(command, agent)
    now = clock.now()
    Contact.objects.create(
        workspace=workspace, phase="agent", host="evil.example.net", port=443, method="CONNECT", allowed=False,
        why="not an allowed host", first_at=now, last_at=now,
    )  # fmt: skip
    text = read(browser_of(bob), f"/agents/{agent.pk}/")
    for words in ("Ship the cart, please.", "Is the branch rebased?", "Prices are in cents.", "evil.example.net:443"):
        assert words in text
    assert f'href="/w/payments/repo-task-1/commands/{command.pk}/"' in text
    assert f'id="action-{pushed.pk}"' in text
    assert "<b>2</b> requests" in text
    assert "<b>1</b> auto-approved" in text
    assert "<b>1</b> denied" in text


def record(command, agent):
    Event.objects.record(
        command.workspace.team_id,
        actor=Actor.agent(agent),
        verb="command.ended",
        subject=command,
        workspace=command.workspace,
        data={"exit_status": 0},
    )


def test_another_day_is_picked(agent, ask, bob, browser_of, read):
    old = ask(PUSH)
    day = timezone.localtime(clock.now()) - timedelta(days=4)
    Action.objects.filter(pk=old.pk).update(created_at=day)
    client, address = browser_of(bob), f"/agents/{agent.pk}/"
    assert f'id="action-{old.pk}"' not in read(client, address)
    assert f'id="action-{old.pk}"' in read(client, f"{address}?day={day.date()}")
    assert "It requested nothing on this day." in read(client, f"{address}?day=tomorrow")


def test_the_list_the_desk_and_the_card_lead_to_it(agent, ask, bob, browser_of, read):
    action = ask(PUSH)
    type(agent).objects.update(last_seen_at=clock.now())
    client, address = browser_of(bob), f'href="/agents/{agent.pk}/"'
    for page in ("/agents/", "/", f"/actions/{action.pk}/"):
        assert address in read(client, page)


def test_another_team_gets_404(agent, mallory, browser_of):
    assert browser_of(mallory).get(f"/agents/{agent.pk}/").status_code == 404


def test_the_api_tells_people_the_same(agent, agent_token, ask, bob, token_of, client):
    ask(PUSH)
    ask(LIST)
    address = f"/api/v1/agents/{agent.pk}/day"
    day = client.get(address, headers={"Authorization": f"Bearer {token_of(bob)}"}).json()
    assert (day["agent"], day["counts"]["calls"], day["counts"]["asked"]) == ("claude", 2, 1)
    assert client.get(address, headers={"Authorization": f"Bearer {agent_token}"}).status_code == 403


def test_its_day_is_told_by_task_and_hour(agent, workspace, ask, decide, bob, browser_of, read):
    prompts.save(agent, "s1", "Ship the cart, please.", workspace)
    decide(ask(PUSH, workspace=workspace, session="s1"), "deny", by=bob, comment="Rebase first.")
    ask(LIST, workspace=workspace, session="s1")
    ask({"command": "ls src"}, workspace=workspace)
    day = read(browser_of(bob), f"/agents/{agent.pk}/").split('id="agent-day-of"')[1].split("Settings:")[0]
    unnamed, named = day.split("“Ship the cart, please.”")  # the newest call first
    assert "Work in repo-task-1" in unnamed
    assert f"{timezone.localtime(clock.now()):%H}:00" in named
    assert re.search(r"answered by bob\s+</span>\s+<span>“Rebase first.”", named)
    assert "1 ran without asking" in named


def test_it_begins_with_now_and_its_settings_are_folded_at_the_end(agent, workspace, ask, lena, browser_of, read):
    ask(PUSH, workspace=workspace, reasoning="I push now.")
    page = read(browser_of(lena), f"/agents/{agent.pk}/")
    places = [
        page.index(words) for words in ('id="agent-now"', "“I push now.”", 'id="agent-day-of"', 'id="agent-settings"')
    ]
    assert places == sorted(places)
    settings = page.split('id="agent-settings"')[1]
    assert "<summary>" in settings
    assert 'id="agent-workspaces"' in settings
    assert "API tokens" in settings


def test_a_refused_binding_opens_the_settings(agent, lena, browser_of):
    page = browser_of(lena).post(f"/agents/{agent.pk}/bind/", {"key": "nowhere"}).content.decode()
    assert re.search(r'id="agent-settings"[^>]* open', page)


def test_the_list_says_what_each_agent_works_on(team, agent, workspace, ask, bob, browser_of, read):
    Agent.objects.create(team=team, name="another")
    prompts.save(agent, "s1", "Ship the cart, please.", workspace)
    ask(PUSH, workspace=workspace, session="s1", reasoning="I push now.")
    rows = read(browser_of(bob), "/agents/").split('<li class="row task"')[1:]
    works, idle = rows
    for words in ("claude", "Waiting for you (1)", "“Ship the cart, please.”", "“I push now.”", ">repo-task-1</a>"):
        assert words in works
    for words in ("another", "Not at work", "no API token", "never seen"):
        assert words in idle
