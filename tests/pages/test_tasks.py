"""Tasks: what each agent works on, how it stands, what it wrote last, what it changed and what it asked."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from approvals.models import Action, AgentRun, AgentSession, Interrupt, Message
from approvals.reports.tasks import TaskState, tasks_of
from approvals.sessions import prompts
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.people.access import caller_of
from workspaces.models import Snapshot

from .conftest import LIST, PUSH, keep_tree, make_workspace


@pytest.fixture
def talk(team, agent, workspace):
    """`talk("s1", title="…", said="…")`: a session of the agent's program that began an hour ago."""

    def make(native_id, *, title="", said="", minutes_ago=0, **fields):
        now = clock.now()
        at = now - timedelta(minutes=minutes_ago)
        fields = {"workspace": workspace, "started_at": now - timedelta(hours=1), "last_at": at} | fields
        made = AgentSession.objects.create(
            team=team, agent=agent, dialect="claude-code", native_id=native_id, title=title, **fields
        )
        if said:
            Message.objects.create(session=made, seq=1, at=at, role="assistant", kind="text", text=said)
        return made

    return make


@pytest.fixture
def found(bob):
    """`found()`: the tasks of the last day."""
    return lambda **more: tasks_of(caller_of(bob), clock.now() - timedelta(days=1), **more)


def test_a_session_is_a_task_with_its_calls_and_its_last_words(talk, ask, decide, bob, workspace, found):
    talk("s1", title="Ship the cart", said="The cart is done.", tokens_in=900, tokens_out=100, cost="0.25")
    ask(LIST, workspace=workspace, session="s1")
    decide(ask(PUSH, workspace=workspace, session="s1"), "deny", by=bob, comment="no")
    ask({"command": "git push origin cart"}, workspace=workspace, session="s1")
    [task] = found()
    assert (task.title, task.said, task.state) == ("Ship the cart", "The cart is done.", TaskState.WAITING)
    assert (task.asks.calls, task.asks.asked, task.asks.denied, task.asks.waiting) == (3, 2, 1, 1)
    assert (task.tokens, str(task.cost)) == (1000, "0.250000")
    assert (task.workspace, task.newest.title) == (workspace, "Push to cart on origin")


def test_its_state_follows_from_its_signs_of_life(talk, agent, bob, found):
    talk("works")
    talk("quiet", minutes_ago=20)
    talk("ended", ended_at=clock.now(), minutes_ago=1)
    states = {task.native_id: task.state for task in found()}
    assert states == {"works": TaskState.WORKING, "quiet": TaskState.QUIET, "ended": TaskState.DONE}
    until = clock.now() + timedelta(hours=1)
    Interrupt.objects.create(agent=agent, session="works", user=bob, at=clock.now(), until=until)
    assert {task.native_id for task in found() if task.state == TaskState.STOPPED} == {"works"}
    Agent.objects.update(paused_at=clock.now())
    assert [task.state for task in found() if not task.ended_at] == [TaskState.STOPPED] * 2


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("working", TaskState.WORKING),
        ("asks", TaskState.BUDGET),
        ("done", TaskState.REVIEW),
        ("failed", TaskState.FAILED),
        ("stopped", TaskState.STOPPED),
        ("accepted", TaskState.DONE),
    ],
)
def test_a_run_is_one_task_together_with_its_session(talk, team, agent, workspace, found, state, expected):
    now = clock.now()
    session = talk("r1", title="other words", said="I work on it.")
    about = {"team": team, "agent": agent, "workspace": workspace, "created_at": now, "changed_at": now}
    AgentRun.objects.create(
        task="Write the guide", session=session, native_id="r1", state=state, program="codex@1.2.3", model="m",
        tokens_in=5, cost=2, summary="All is done." if state == "done" else "", **about,
    )  # fmt: skip
    [task] = found()
    assert (task.title, task.state, task.is_reported) == ("Write the guide", expected, False)
    assert task.said == ("All is done." if state == "done" else "I work on it.")


def test_calls_of_no_session_are_a_task_for_each_agent_and_workspace(team, agent, ask, workspace, found):
    other = make_workspace(team, agent, "other-place")
    ask(LIST, workspace=workspace, reasoning="I look around.")
    ask(LIST, workspace=workspace)
    ask(LIST, workspace=other)
    tasks = {task.title: task for task in found()}
    assert set(tasks) == {"Work in repo-task-1", "Work in other-place"}
    assert tasks["Work in repo-task-1"].asks.calls == 2


def test_a_named_session_that_nobody_heard_has_its_prompt_as_title(agent, ask, workspace, found):
    prompts.save(agent, "s9", "Tidy up.\nThen stop.", workspace)
    ask(LIST, workspace=workspace, session="s9")
    [task] = found()
    assert (task.title, task.is_reported) == ("Tidy up. Then stop.", True)


def test_a_sub_agent_is_no_task_of_its_own(talk, found):
    talk("child", parent=talk("main", title="Main work"))
    assert [task.title for task in found()] == ["Main work"]


def test_its_lines_are_those_between_the_snapshots_around_it(talk, team, workspace, tmp_path, found):
    before, after = (keep_tree(team, tmp_path / name, {"a.py": text}) for name, text in (("1", "a\n"), ("2", "b\nc\n")))
    Snapshot.objects.filter(workspace=workspace, number=1).update(tree=before)
    Snapshot.objects.filter(workspace=workspace, number=2).update(tree=after, created_at=clock.now())
    talk("s1")
    [task] = found()
    assert tuple(task.lines)[:3] == (2, 1, 1)


def test_the_page_lists_them_with_what_goes_on_first(talk, ask, workspace, bob, browser_of, read):
    talk("old", title="Older work", ended_at=clock.now(), said="Finished.")
    talk("s1", title="Ship \u202ethe cart", said="Secret words\nin two lines")
    ask(PUSH, workspace=workspace, session="s1")
    page = read(browser_of(bob), "/tasks/")
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", "", page))
    assert "Waiting for you (1)" in text
    assert "“Secret words in two lines”" in text
    assert "1 call · 1 asked" in text
    assert page.index("the cart") < page.index("Older work")
    assert "\u202e" not in page
    assert 'href="/waiting/?agent=claude"' in page


def test_the_page_narrows_by_state_agent_and_workspace(talk, team, agent, bob, browser_of, read):
    talk("done", title="Older work", ended_at=clock.now())
    talk("s1", title="Ship the cart")
    client = browser_of(bob)
    now = read(client, "/tasks/?show=open")
    assert ["Ship the cart" in now, "Older work" in now] == [True, False]
    other = Agent.objects.create(team=team, name="other")
    assert "Ship the cart" not in read(client, f"/tasks/?agent={other.pk}")
    assert "Ship the cart" in read(client, f"/tasks/?agent={agent.pk}")
    assert "Ship the cart" not in read(client, "/tasks/?workspace=elsewhere")


def test_another_team_sees_no_task(talk, ask, workspace, mallory, browser_of, read):
    talk("s1", title="Ship the cart")
    ask(PUSH, workspace=workspace)
    page = read(browser_of(mallory), "/tasks/?since=week")
    assert "Ship the cart" not in page
    assert "No agent worked on anything in this time." in page


def test_the_desk_shows_those_that_go_on_and_fills_up_with_the_last(talk, ask, workspace, bob, browser_of, read):
    for number in range(4):
        talk(f"old{number}", title=f"Older work {number}", ended_at=clock.now(), minutes_ago=number + 30)
    talk("s1", title="Ship the cart")
    shown = read(browser_of(bob), "/").split('id="desk-now"')[1].split("</section>")[0]
    assert ["Ship the cart" in shown, shown.count("Older work")] == [True, 2]
    AgentSession.objects.filter(native_id="s1").update(ended_at=clock.now())
    shown = read(browser_of(bob), "/").split('id="desk-now"')[1].split("</section>")[0]
    assert "No agent is at work. The last tasks:" in shown


def test_a_span_that_ended_has_the_tasks_of_then(talk, ask, bob):
    talk("s1", title="Ship the cart")
    yesterday = timezone.localtime(clock.now()) - timedelta(days=2)
    old = ask(PUSH)
    Action.objects.filter(pk=old.pk).update(created_at=yesterday)
    tasks = tasks_of(caller_of(bob), yesterday - timedelta(hours=1), yesterday + timedelta(hours=1))
    assert [task.title for task in tasks] == ["Calls outside of workspaces"]
