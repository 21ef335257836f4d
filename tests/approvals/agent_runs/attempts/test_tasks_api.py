"""A task over the API: its attempts begin alike, their rows say how it stands, and a choice loses nothing."""

import pytest

from approvals.agent_runs.attempts.making import agreed_commit
from approvals.models import AgentRun, AgentRunState, Task, TaskAttempt
from approvals.tasks import follow_agents
from dashboard.database import clock
from dashboard.models import Actor, Event
from tests.pages.conftest import make_workspace
from tests.workspaces.test_schedules import ended as command_ended
from workspaces.models import Command, Environment, Operation, Phase, State, Workspace
from workspaces.runner import source_files
from workspaces.services import commands
from workspaces.services.retention import holds

from .conftest import calls, commit, places, up


def thrown(place: Workspace):
    """What the runner makes of a move to the trash."""
    Operation.objects.filter(workspace=place, kind="trash").update(phase=Phase.SETTLED, outcome={"ok": True})
    now = clock.now()
    Workspace.objects.filter(pk=place.pk).update(trashed_at=now, purge_at=now, state=State.STOPPED)


def states(task: dict) -> list[str]:
    return [each["state"] for each in task["attempts"]]


# Given ----------------------------------------------------------------------------------------------------------------


def test_each_attempt_is_a_workspace_of_the_repository_at_the_base(give, sources, lena):
    task = give()
    made = places(task)
    assert [each.source for each in made] == [{"git": sources, "ref": "main"}] * 2
    assert [each["workspace"] for each in task["attempts"]] == [each.key for each in made]
    assert [each["number"] for each in task["attempts"]] == [1, 2]
    assert made[0].key.startswith("mend-the-till-")
    assert made[0].description == "Mend the till"
    assert {each.created_by_user for each in made} == {lena}
    assert (task["state"], states(task)) == ("working", ["working", "working"])
    assert (task["asked_by"], task["repository"], task["base"]) == ("lena", sources, "main")
    assert Operation.objects.filter(kind="create").count() == 2
    event = Event.objects.get(verb="task.created")
    assert event.data == {"title": "Mend the till", "attempts": 2}


def test_an_attempt_with_an_agent_starts_it_with_title_and_text(give):
    budget = {"tokens": 100_000, "minutes": 30}
    task = give(
        attempts=[{"agent": "claude-code", "model": "claude-x"}, {}], budget=budget, source="https://t.example/7"
    )
    run = AgentRun.objects.get()
    assert (run.task, run.ticket_url) == ("Mend the till\n\nIt rounds wrongly.", "https://t.example/7")
    assert (run.budget_tokens, run.budget_minutes) == (100_000, 30)
    told = [(each["agent"], each["model"]) for each in task["attempts"]]
    assert told == [("claude-code", "claude-x"), ("", "")]
    assert task["attempts"][0]["agent_run"] == str(run.pk)


def test_the_same_source_again_answers_with_the_task_that_is_there(give, lead):
    first = give(source="shop#12")
    again = give(status=200, source="shop#12", title="Another title", environment="none", attempts=[{}])
    assert again["id"] == first["id"]
    assert again["title"] == "Mend the till"
    assert Task.objects.count() == 1
    assert [each["id"] for each in lead("GET", "/tasks?source=shop%2312")[1]["tasks"]] == [first["id"]]
    assert give(source="")["id"] != give(source="")["id"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"title": " "}, "title"),
        ({"attempts": [{"agent": "claude-code", "model": "gpt-9"}]}, "model"),
        ({"attempts": [{}, {"agent": "nobody"}]}, "program"),
        ({"repository": "", "base": "main"}, "repository"),
        ({"source": "two\nlines"}, "source"),
        ({"attempts": [{"agent": "claude-code"}], "budget": {"cost": 3}}, "budget_cost"),
    ],
)
def test_what_is_wrong_makes_nothing(give, wrong, field):
    count = Workspace.objects.count()
    assert give(status=422, **wrong).get("field", field) == field
    assert (Task.objects.count(), Workspace.objects.count(), Operation.objects.count()) == (0, count, 0)


def test_without_a_repository_it_is_that_of_the_environment(give, sources):
    Environment.objects.update(repository=sources, ref="stable")
    assert [give(repository="", base="")[name] for name in ("repository", "base")] == [sources, "stable"]
    assert [give(repository="", base="v2")[name] for name in ("repository", "base")] == [sources, "v2"]


def test_all_attempts_begin_with_the_commit_of_the_first_clone(give, lead, team, agent):
    task = give()
    first, second = places(task)
    assert agreed_commit(second, "b" * 40) == "b" * 40
    assert agreed_commit(first, "c" * 40) == "b" * 40
    assert lead("GET", f"/tasks/{task['id']}")[1]["commit"] == "b" * 40
    assert agreed_commit(make_workspace(team, agent, "alone"), "d" * 40) == "d" * 40


def test_a_later_clone_begins_where_the_first_began_though_the_branch_moved(give, repository, tmp_path):
    told = []
    for number, place in enumerate(places(give(repository=str(repository)))):
        tree = tmp_path / str(number)
        tree.mkdir()
        told.append(source_files.fill(place, tree, {})["sha"])
        assert (tree / "till.txt").read_text() == "first\n"
        commit(repository, f"moved {number}\n")
    assert told[0] == told[1] == Task.objects.get().commit


# Who may --------------------------------------------------------------------------------------------------------------


def test_who_may_start_agents_may_give_a_task(give, api, token_of, bob, mallory, agent_token):
    task = give()
    reviewer, stranger, some_agent = (calls(api(token)) for token in (token_of(bob), token_of(mallory), agent_token))
    for call, sees, may in ((reviewer, 200, 403), (stranger, 404, 404), (some_agent, 404, 404)):
        assert call("GET", f"/tasks/{task['id']}")[0] == sees
        assert call("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})[0] == may
        assert call("POST", f"/tasks/{task['id']}/cancel", {})[0] == may
    for call in (reviewer, some_agent):
        assert call("POST", "/tasks", {"title": "x"})[0] == 403
    assert stranger("GET", "/tasks")[1]["tasks"] == []


def test_an_agent_sees_the_task_that_it_works_on_and_decides_nothing(give, api, agent, agent_token):
    task = give()
    places(task)[0].bound_agents.add(agent)
    call = calls(api(agent_token))
    assert call("GET", f"/tasks/{task['id']}")[1]["title"] == "Mend the till"
    assert len(call("GET", "/tasks")[1]["tasks"]) == 1
    assert call("POST", f"/tasks/{task['id']}/cancel")[0] == 403


# How it stands --------------------------------------------------------------------------------------------------------


def test_checks_say_how_work_by_hand_stands(give, lead):
    Environment.objects.update(checks={"unit": "make test"})
    task = give()
    one, two = up(task)
    seen = lead("GET", f"/tasks/{task['id']}")[1]
    assert states(seen) == ["working", "working"]
    assert seen["attempts"][0]["checks"] == [{"name": "unit", "state": "never_run"}]
    for place in (one, two):
        place.state = State.READY
        place.save(update_fields=["state"])
        commands.run_command(place, {"command": "make test", "check": "unit"}, by=Actor.system("tests"))
    assert states(lead("GET", f"/tasks/{task['id']}")[1]) == ["working", "working"]
    for place, status in ((one, 1), (two, 0)):
        command_ended(Command.objects.get(workspace=place), status, started=clock.now())
    seen = lead("GET", f"/tasks/{task['id']}")[1]
    assert (seen["state"], states(seen)) == ("ready to review", ["checks failed", "ready to review"])
    assert [each["checks"][0]["state"] for each in seen["attempts"]] == ["failed", "passed"]


def test_a_call_that_waits_asks_you(give, lead, ask):
    task = give()
    ask(workspace=up(task)[1])
    seen = lead("GET", f"/tasks/{task['id']}")[1]
    assert (seen["state"], states(seen)) == ("asks you", ["working", "asks you"])
    assert [(each["asks"], each["waiting"]) for each in seen["attempts"]] == [(0, 0), (1, 1)]


def test_a_run_says_how_its_attempt_stands(give, lead):
    task = give(attempts=[{"agent": "claude-code", "model": "claude-x"}])
    up(task)
    stands = {"starting": "working", "asks": "asks you", "done": "ready to review", "failed": "failed"}
    for state, word in (stands | {"stopped": "stopped", "accepted": "ready to review"}).items():
        AgentRun.objects.update(state=state, cost="0.25")
        seen = lead("GET", f"/tasks/{task['id']}")[1]
        assert (seen["state"], seen["attempts"][0]["cost"]) == (word, 0.25)


# Chosen, thrown away, brought back ------------------------------------------------------------------------------------


def test_choosing_keeps_one_and_moves_the_others_to_the_trash(give, lead):
    task = give(attempts=[{}, {}, {}])
    one, two, three = up(task)
    status, seen = lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 2})
    assert (status, seen["chosen"]) == (200, 2)
    assert states(seen) == ["thrown away", "working", "thrown away"]
    moved = Operation.objects.filter(kind="trash").values_list("workspace", flat=True)
    assert set(moved) == {one.pk, three.pk}
    assert Event.objects.get(verb="task.chosen").data == {"title": task["title"], "workspace": two.key, "attempt": 2}


def test_an_attempt_is_also_named_by_the_key_of_its_workspace(give, lead):
    task = give()
    up(task)
    assert lead("POST", f"/tasks/{task['id']}/choose", {"attempt": task["attempts"][1]["workspace"]})[1]["chosen"] == 2
    for wrong in (3, 0, "repo-task-1"):
        assert lead("POST", f"/tasks/{task['id']}/choose", {"attempt": wrong})[0] == 422


def test_another_choice_brings_the_other_attempt_back(give, lead):
    task = give()
    two = up(task)[1]
    lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})
    thrown(two)
    seen = lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 2})[1]
    assert (seen["chosen"], states(seen)) == (2, ["thrown away", "working"])
    two.refresh_from_db()
    assert two.trashed_at is None


def test_what_is_still_made_follows_into_the_trash(give, lead):
    task = give()
    assert states(lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})[1])[1] == "thrown away"
    assert Operation.objects.get(kind="trash").workspace == places(task)[1]


def test_nothing_is_decided_while_an_attempt_is_on_hold(give, lead, team):
    task = give()
    holds.hold(team, workspace=up(task)[1], reason="audit", by=Actor.system("tests"))
    assert lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})[0] == 409
    assert not TaskAttempt.objects.filter(chosen=True).exists()
    assert not TaskAttempt.objects.exclude(thrown_at=None).exists()


def test_cancelling_stops_the_agents_and_bringing_back_opens_it_again(give, lead):
    task = give(attempts=[{"agent": "claude-code", "model": "claude-x"}, {}])
    one, two = up(task)
    seen = lead("POST", f"/tasks/{task['id']}/cancel")[1]
    assert (seen["state"], states(seen)) == ("cancelled", ["thrown away", "thrown away"])
    follow_agents()
    assert AgentRun.objects.get().state == AgentRunState.STOPPED
    assert lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})[0] == 409
    thrown(one)
    assert lead("POST", f"/tasks/{task['id']}/bring-back", {})[0] == 409  # the second is on its way
    assert not TaskAttempt.objects.filter(thrown_at=None).exists()
    thrown(two)
    seen = lead("POST", f"/tasks/{task['id']}/bring-back", {})[1]
    assert (seen["state"], states(seen), seen["chosen"]) == ("working", ["stopped", "working"], None)


def test_what_was_deleted_for_good_does_not_come_back(give, lead):
    task = give()
    two = up(task)[1]
    lead("POST", f"/tasks/{task['id']}/throw-away", {"attempt": 2})
    thrown(two)
    Workspace.objects.filter(pk=two.pk).update(purged_at=clock.now())
    assert lead("POST", f"/tasks/{task['id']}/bring-back", {"attempt": 2})[0] == 409


def test_the_chosen_one_is_not_thrown_away(give, lead):
    task = give()
    up(task)
    lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})
    assert lead("POST", f"/tasks/{task['id']}/throw-away", {"attempt": 1})[0] == 409


def test_a_merge_ends_the_task_and_archives_the_workspace(give, lead):
    task = give()
    one = up(task)[0]
    assert lead("POST", f"/tasks/{task['id']}/merged")[0] == 409
    lead("POST", f"/tasks/{task['id']}/choose", {"attempt": 1})
    assert lead("POST", f"/tasks/{task['id']}/merged")[1]["state"] == "merged"
    assert Operation.objects.get(kind="put_away").workspace == one
    assert lead("POST", f"/tasks/{task['id']}/cancel")[0] == 409


def test_tasks_are_listed_in_pages_and_in_few_queries(give, lead, django_assert_max_num_queries):
    for _ in range(3):
        up(give())
    with django_assert_max_num_queries(16):
        answer = lead("GET", "/tasks")[1]
    assert (len(answer["tasks"]), answer["cursor"]) == (3, None)
