"""The pages of a task: the form, the attempts beside each other, and the decisions between them."""

import re
from datetime import timedelta

import pytest

from approvals.models import AgentRun, AgentSession, AgentTurn, Task, TaskAttempt
from dashboard.database import clock
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Command, Operation, Phase, PullRequest, State, Workspace
from workspaces.services import commands

from .conftest import places, up

FORM = {"title": "Mend the till", "text": "It rounds.\nSee the log.", "place": "payments/default", "attempt_1": "hand"}


@pytest.fixture
def site(browser_of, lena):
    return browser_of(lena)


def shown(answer) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", answer.content.decode()).split())


def post(site, task: dict, verb: str, **fields):
    return site.post(f"/tasks/{task['id']}/{verb}/", fields)


def test_the_form_gives_a_task_with_up_to_three_attempts(site, workspace, sources):
    page = site.get("/tasks/new/").content.decode()
    assert '<option value="claude-code">Claude Code</option>' in page
    more = {"repository": sources, "base": "main", "source": "shop#12", "minutes": "30"}
    answer = site.post("/tasks/new/", FORM | more | {"attempt_2": "claude-code"})
    task = Task.objects.get()
    assert answer.url == f"/tasks/{task.pk}/"
    assert (task.text, task.base, task.source, task.budget) == (
        "It rounds.\nSee the log.",
        "main",
        "shop#12",
        {"minutes": 30},
    )
    assert [each.run and each.run.program_name for each in task.attempts.all()] == [None, "claude-code"]
    again = site.post("/tasks/new/", FORM | more, follow=True)
    assert Task.objects.count() == 1
    assert "There is a task of this ticket already." in shown(again)


def test_a_refused_form_says_why_and_keeps_what_was_typed(site, workspace):
    answer = site.post("/tasks/new/", FORM | {"base": "v2"})
    assert "Name the repository" in shown(answer)
    assert 'value="v2"' in answer.content.decode()
    assert not Task.objects.exists()


def test_a_link_fills_the_form_in(site, workspace):
    page = site.get("/tasks/new/?title=Mend&source=shop%2312").content.decode()
    assert 'value="Mend"' in page
    assert 'value="shop#12"' in page


def test_a_task_shows_its_attempts_beside_each_other(site, give, ask):
    task = give(attempts=[{"agent": "claude-code", "model": "claude-x"}, {}, {}], source="https://t.example/7")
    one, two, three = up(task)
    AgentRun.objects.update(state="done", cost="1.5")
    ask(workspace=two)
    page = site.get(f"/tasks/{task['id']}/")
    words = shown(page)
    assert "Ready to review" in words
    assert "Asks you (1)" in words
    assert "1.50" in words
    text = page.content.decode()
    assert f'href="/w/payments/{one.key}/beside/?with={three.key}"' in text
    assert 'href="https://t.example/7"' in text
    assert text.count(f'action="/tasks/{task["id"]}/choose/"') == 3


def test_the_time_of_an_attempt_is_that_in_which_its_agent_worked(site, give, agent, lead, monkeypatch):
    task = give(attempts=[{"agent": "claude-code", "model": "claude-x"}, {}, {}])
    one, by_hand, _ = up(task)
    Workspace.objects.update(state=State.READY)
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    ago = [now - timedelta(seconds=each) for each in (700, 640, 60)]
    for number, (began, ended) in enumerate([(ago[0], ago[1]), (ago[2], None)], 1):
        command = commands.run_command(one, {"command": "agent"}, by=Actor.system("tests"))
        Command.objects.filter(pk=command.pk).update(started_at=began, ended_at=ended)
        noticed = now if ended else None
        about = {"command": command, "created_at": ago[0], "ended_at": noticed, "end": "answered" if ended else ""}
        AgentTurn.objects.update_or_create(run=AgentRun.objects.get(), number=number, defaults=about)
    about = {"team": by_hand.team, "agent": agent, "workspace": by_hand, "dialect": "claude-code", "native_id": "s"}
    AgentSession.objects.create(**about, started_at=ago[0], last_at=ago[1])
    assert [each["seconds"] for each in lead("GET", f"/tasks/{task['id']}")[1]["attempts"]] == [120, 60, 0]
    words = shown(site.get(f"/tasks/{task['id']}/"))
    assert "2:00&nbsp;min" in words
    assert "1:00&nbsp;min" in words


def test_asks_you_leads_to_the_call_and_the_last_answer_back_to_the_task(site, give, ask):
    task = give()
    one, two = up(task)
    calls = [ask({"command": f"git push origin {name}"}, workspace=place) for name, place in (("a", one), ("b", two))]
    page = site.get(f"/tasks/{task['id']}/").content.decode()
    for call in calls:
        assert f'href="/actions/{call.pk}/?task={task["id"]}"' in page
    assert shown(site.get(f"/waiting/?task={task['id']}")).count("Push to ") == 2
    assert "Push to" not in shown(site.get("/waiting/?task=none"))
    following = [f"/actions/{calls[1].pk}/?task={task['id']}", f"/tasks/{task['id']}/"]
    for call, then in zip(calls, following, strict=True):
        answer = site.post(f"/actions/{call.pk}/approve/?task={task['id']}", {"digest": call.digest})
        assert answer.url == then


def test_choosing_and_opening_a_pull_request_is_one_button_where_there_is_a_code_host(site, give):
    task = give()
    up(task)
    button = "Choose and open a pull request"
    assert button not in shown(site.get(f"/tasks/{task['id']}/"))
    Task.objects.update(repository="https://git.example.org/team/shop.git")
    assert button in shown(site.get(f"/tasks/{task['id']}/"))
    answer = site.post(f"/tasks/{task['id']}/choose/", {"attempt": "2", "then": "pull-request"}, follow=True)
    assert TaskAttempt.objects.get(chosen=True).number == 2
    assert "did not come from a repository at a code host" in shown(
        answer
    )  # why no pull request was opened; the choice holds


@pytest.fixture
def opening(site, give):
    """`opening(phase, outcome)`: the page of a task whose first attempt was chosen, as a pull request of it stands."""
    task = give()
    place = up(task)[0]
    post(site, task, "choose", attempt="1")
    asked = {"branch": "handrail/one", "sha": ""}
    asked = operations.submit("pull_request", workspace=place, by=Actor.system("tests"), args=asked)

    def stands(phase, outcome=None) -> str:
        Operation.objects.filter(pk=asked.pk).update(phase=phase, outcome=outcome)
        return site.get(f"/tasks/{task['id']}/").content.decode()

    return stands


def test_a_pull_request_that_is_being_opened_is_shown_and_not_offered_again(opening):
    page = opening(Phase.DUE)
    assert "Opening a pull request…" in page
    assert "/pull-request/" not in page


def test_why_a_pull_request_was_not_opened_is_shown_and_it_is_offered_again(opening):
    page = opening(Phase.SETTLED, {"ok": False, "reason": "There is no token for git.example.org."})
    assert "Opening a pull request: not done" in page
    assert "There is no token for git.example.org." in page
    assert "/pull-request/" in page


def test_a_pull_request_is_shown_as_soon_as_it_is_open(opening):
    place = Workspace.objects.get(attempt__chosen=True)
    about = {"number": 7, "url": "https://git.example.org/team/shop/pull/7", "branch": "handrail/one", "base": "main"}
    now = clock.now()
    PullRequest.objects.create(workspace=place, title="Mend", sha="a" * 40, opened_at=now, pushed_at=now, **about)
    page = opening(Phase.SETTLED, {"ok": True, "reason": "Opened pull request #7"})
    assert f'href="{about["url"]}"' in page
    assert "Opening a pull request" not in page
    assert "/pull-request/" not in page


def test_what_the_text_hides_is_marked(site, give):
    task = give(text="a\u200bb")
    assert "U+200B" in site.get(f"/tasks/{task['id']}/").content.decode()


def test_choosing_throwing_away_and_bringing_back(site, give):
    task = give(attempts=[{}, {}, {}])
    up(task)
    post(site, task, "throw-away", attempt="3")
    assert TaskAttempt.objects.get(number=3).thrown_at
    post(site, task, "choose", attempt="2")
    assert TaskAttempt.objects.get(chosen=True).number == 2
    page = site.get(f"/tasks/{task['id']}/")
    assert "Chosen" in shown(page)
    assert f'href="/w/payments/{places(task)[1].key}/export/"' in page.content.decode()
    assert "is on its way to the trash" in shown(site.post(f"/tasks/{task['id']}/bring-back/", {}, follow=True))
    Workspace.objects.filter(attempt__thrown_at__isnull=False).update(trashed_at=clock.now())
    post(site, task, "bring-back")
    assert not TaskAttempt.objects.exclude(thrown_at=None).exists()
    assert not TaskAttempt.objects.filter(chosen=True).exists()


def test_cancelling_is_asked_first(site, give):
    task = give()
    up(task)
    assert "go to the trash" in shown(post(site, task, "cancel"))
    assert Task.objects.get().end == ""
    post(site, task, "cancel", confirmed="yes")
    assert Task.objects.get().end == "cancelled"


def test_the_chosen_one_is_marked_as_merged(site, give):
    task = give()
    up(task)
    post(site, task, "choose", attempt="1")
    post(site, task, "merged")
    assert "Merged" in shown(site.get(f"/tasks/{task['id']}/"))


def test_open_tasks_are_on_the_lists_and_on_the_page_of_their_agent(site, give, browser_of, bob):
    task = give(attempts=[{"agent": "claude-code", "model": "claude-x"}])
    agent = AgentRun.objects.get().agent
    for address in ("/tasks/", "/", f"/agents/{agent.pk}/"):
        assert f'href="/tasks/{task["id"]}/"' in site.get(address).content.decode()
    assert 'href="/tasks/new/"' in site.get("/tasks/").content.decode()
    assert 'href="/tasks/new/"' not in browser_of(bob).get("/tasks/").content.decode()
    Task.objects.update(end="cancelled")
    assert f'href="/tasks/{task["id"]}/"' not in site.get("/").content.decode()


def test_a_reviewer_sees_a_task_and_decides_nothing(give, browser_of, bob, mallory):
    task = give()
    page = browser_of(bob).get(f"/tasks/{task['id']}/").content.decode()
    assert "/choose/" not in page
    assert browser_of(bob).post(f"/tasks/{task['id']}/choose/", {"attempt": "1"}).status_code == 403
    assert browser_of(mallory).get(f"/tasks/{task['id']}/").status_code == 404
