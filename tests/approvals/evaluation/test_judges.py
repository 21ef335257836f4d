"""The engine runs outside of web, in processes that are ended when they take too long."""

import os
import signal
import threading
import time
import uuid

import pytest

from approvals.evaluation import policies, workers
from approvals.evaluation.judge import judge_or_ask
from approvals.evaluation.workers import Judge, Judges, Late
from approvals.models import Policy
from bench.policy import hostile
from dashboard.problems import Problem
from workspaces.models import Environment, Workspace

from ..conftest import PUSH

PUBLISH = {"command": "npm publish x"}
LS = {"tool": "Bash", "arguments": {"command": "ls"}, "world": {}, "rules": ["Bash(ls)"]}


@pytest.fixture
def pool():
    made = Judges(most=2)
    yield made
    made.end()


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_judge_answers_again_and_again(pool):
    assert [pool.ask(LS)["tier"] for _ in range(3)] == ["low"] * 3
    assert len(pool.idle) == 1
    assert pool.idle[0].process.pid != os.getpid()


def test_a_judge_that_is_late_is_ended_and_the_next_call_has_another(pool):
    pool.ask(LS)
    first = pool.idle[0].process.pid
    os.kill(first, signal.SIGSTOP)  # it hangs, whatever the reason
    with pytest.raises(Late, match="it took too long"):
        pool.ask(LS, seconds=0.2)
    assert not is_running(first)
    assert pool.ask(LS)["tier"] == "low"


def test_a_judge_that_ended_is_replaced_without_a_word(pool):
    pool.ask(LS)
    pool.idle[0].process.kill()
    assert pool.ask(LS)["tier"] == "low"


def test_a_call_whose_judges_die_is_late(pool, monkeypatch):
    monkeypatch.setattr(
        Judge, "_read", lambda judge, until: (judge.process.kill(), judge.process.wait(), os.read(-1, 1))
    )
    with pytest.raises(Late, match="the process that worked on it stopped"):
        pool.ask(LS)


def test_an_idle_judge_and_a_judge_without_web_end(pool):
    pool.ask(LS)
    process = pool.idle[0].process
    process.stdin.close()
    assert process.wait(timeout=20) == 0


def test_no_more_judges_run_than_there_may_and_all_are_answered(pool):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(pool.ask(LS)["tier"])) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["low"] * 12
    assert len(pool.idle) <= 2
    assert (pool.turns._held.total(), len(pool.turns._waiting)) == (0, 0)


def test_a_call_that_waits_too_long_for_a_judge_is_refused():
    full = Judges(most=0)
    full.queue_seconds = 0.05
    with pytest.raises(Late, match="too many others were waiting"):
        full.ask(LS)
    assert len(full.turns._waiting) == 0


def test_a_policy_is_sent_once_and_named_afterwards(pool):
    judge = Judge()
    try:
        asked = {"tool": "Bash", "arguments": {"command": "pwd"}, "world": {}, "policy": "k"}
        assert judge.ask(asked, 20, {"k": 'forbidden = ["Bash(pwd)"]'})["tier"] == "forbidden"
        assert judge.known == {"k"}
        assert judge.ask(asked, 20, {"k": "never read"})["tier"] == "forbidden"
    finally:
        judge.end()


@pytest.mark.django_db
def test_a_call_that_no_judge_answers_in_time_asks(team, monkeypatch):
    policies.checked(policies.active(team.pk))
    for judge in workers.judges.idle:
        os.kill(judge.process.pid, signal.SIGSTOP)
    monkeypatch.setattr(Judges.ask, "__kwdefaults__", {"texts": None, "seconds": 0.2})
    found = judge_or_ask("Bash", {"command": "ls"}, None, None, team.pk)
    why = "Needs approval: the policy could not be evaluated (it took too long)."
    assert (found.tier, found.reasons) == ("high", [why])


@pytest.mark.django_db
def test_web_does_no_work_for_a_hostile_call(team):
    """The thread that asks sleeps while a judge works: its own processor time stays small."""
    policies.checked(policies.active(team.pk))
    for name in ("loops", "doubling", "sed, 85 characters", "xargs"):
        before = time.thread_time()
        found = judge_or_ask("Bash", {"command": hostile.commands()[name]}, None, None, team.pk)
        assert found.tier == "high"
        assert time.thread_time() - before < 0.1


# The team's floor ----------------------------------------------------------------------------------------------------


@pytest.fixture
def web(team, person, lena):
    """An environment with a policy of its own, which is a copy of the team's first one and one rule more."""
    environment = Environment.objects.create(team=team, name="web", version=1)
    text = 'mode = "irreversible"\nlow = ["Bash(npm publish *)"]\n'
    policies.save(text, caller=person(lena), team=team, environment=environment)
    return environment


class At:
    """A workspace as far as a judgement by text looks at it."""

    def __init__(self, environment):
        self.environment, self.source, self.pk, self.key = environment, {}, uuid.uuid4(), "x"
        self.own_folder, self.labels, self.runner_id = "", {}, None


@pytest.mark.django_db
def test_a_workspace_with_its_own_policy_obeys_what_its_team_forbids_later(team, web, person, lena):
    assert judge_or_ask("Bash", PUBLISH, None, At(web), team.pk).tier != "forbidden"
    policies.save('forbidden = ["Bash(npm publish *)"]\n', caller=person(lena), team=team)
    found = judge_or_ask("Bash", PUBLISH, None, At(web), team.pk)
    assert (found.tier, found.rule, found.policy) == ("forbidden", "Bash(npm publish *)", policies.own(team.pk, "web"))


@pytest.mark.django_db
def test_other_lists_of_the_team_do_not_hold_there(team, web, person, lena):
    policies.save('mode = "everything"\nhigh = ["Read(**)"]\n', caller=person(lena), team=team)
    assert judge_or_ask("Read", {"file_path": "a.py"}, None, At(web), team.pk).tier == "low"


@pytest.mark.django_db
def test_an_approval_of_before_is_revoked_by_what_the_team_forbids_since(
    ask, decide, consume, bob, lena, team, web, person, agent
):
    workspace = Workspace.objects.create(team=team, environment=web, key="web-1", created_by_agent=agent, state="ready")
    action = ask(PUSH, workspace=workspace)
    assert action.policy.environment == web
    action = decide(action, by=bob)
    policies.save('forbidden = ["Bash(git push *)"]\n', caller=person(lena), team=team)
    with pytest.raises(Problem) as refused:
        consume(action)
    assert refused.value.extra["code"] == "revoked"
    assert Policy.objects.filter(active=True, environment=web).count() == 1
