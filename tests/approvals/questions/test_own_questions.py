"""An agent's own questions and plans: over the hook and the API they wait for a person, whatever the policy allows."""

import json
import threading
import time

import pytest
from django.db import connection

from approvals.actions import gate, grants
from approvals.actions.agent_messages import approved_meanwhile
from approvals.evaluation import policies
from approvals.evaluation.duty import settings_of
from approvals.evaluation.judge import content
from approvals.models import Action, PushToken, Status
from approvals.notify import messages, tokens
from approvals.pages.alike_groups import groups_of
from approvals.pages.card import for_rows
from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces.models import Environment, Operation, State, Workspace

from ..conftest import ACTIONS, before, full

pytestmark = pytest.mark.django_db(transaction=True)

BRANCH = {
    "question": "Which branch?",
    "header": "Branch",
    "multiSelect": False,
    "options": [{"label": "main", "description": "now"}, {"label": "next", "description": "later"}],
}
TESTS = {
    "question": "Which tests?",
    "header": "Tests",
    "multiSelect": True,
    "options": [{"label": "unit"}, {"label": "browser"}],
}
QUESTION = {"questions": [BRANCH]}
PLAN = {"plan": "# Release\n\n1. Tag it\n2. Push it\n"}
ANSWERS = {"Which branch?": "next"}


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 30


@pytest.fixture
def soon():
    """`soon(function)`: run it in a thread once an action waits; joined at the end."""
    threads, failures = [], []

    def start(function):
        def run():
            try:
                deadline = time.monotonic() + 20
                while time.monotonic() < deadline:
                    if action := Action.objects.filter(status=Status.PENDING).first():
                        function(action)
                        return
                    time.sleep(0.02)
                failures.append("nothing ever waited")
            except Exception as error:  # shown by the test, which is on another thread
                failures.append(error)
            finally:
                connection.close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.fixture
def workspace(team, agent):
    environment = Environment.objects.create(team=team, name="default", version=1)
    return Workspace.objects.create(
        team=team, key="asked", environment=environment, state=State.READY, created_by_agent=agent
    )


def question(arguments=QUESTION, **more):
    return before(arguments, tool="AskUserQuestion", **more)


def plan(arguments=PLAN, **more):
    return before(arguments, tool="ExitPlanMode", **more)


# It works ----------------------------------------------------------------------------------------------------------


def test_the_persons_choice_goes_back_in_the_questions_own_input(hook, agent_token, soon, decide, bob):
    given = QUESTION | {"answers": ANSWERS}
    soon(lambda action: decide(action, "edit", by=bob, arguments=given))
    answer = full(hook(agent_token, question()))
    said = answer.json["hookSpecificOutput"]
    assert answer.decision == ("allow", "Answered by bob (A-1).")
    assert said["updatedInput"] == given
    assert "additionalContext" not in said
    assert answer.json["systemMessage"].startswith("Handrail: bob answered A-1: ")


def test_a_declined_question_is_denied_with_the_persons_words(hook, agent_token, soon, decide, bob):
    soon(lambda action: decide(action, "deny", by=bob, comment="Look into the ticket"))
    decision, reason = full(hook(agent_token, question())).decision
    assert decision == "deny"
    assert reason.startswith("bob declined to answer: Look into the ticket. Do not ask the same again")


def test_an_approved_plan_goes_on_with_the_comments(hook, agent_token, soon, decide, bob):
    soon(lambda action: decide(action, by=bob, comment="On line 3 (“1. Tag it”): sign the tag"))
    answer = full(hook(agent_token, plan()))
    said = answer.json["hookSpecificOutput"]
    assert answer.decision == ("allow", "Approved by bob (A-1).")
    assert said["updatedInput"] == PLAN
    assert said["additionalContext"] == "Note from bob: On line 3 (“1. Tag it”): sign the tag."


def test_a_plan_that_was_sent_back_brings_the_comments(hook, agent_token, soon, decide, bob):
    soon(lambda action: decide(action, "deny", by=bob, comment="On line 4 (“2. Push it”): pull first"))
    decision, reason = full(hook(agent_token, plan())).decision
    assert decision == "deny"
    assert reason == (
        "bob sent the plan back with comments: On line 4 (“2. Push it”): pull first. "
        "Nothing is approved. Change the plan, and present it again."
    )


def test_over_the_api_the_answer_stands_in_the_action(post, agent_token, api, decide, bob):
    status, asked = post(agent_token, ACTIONS, {"tool": "AskUserQuestion", "arguments": QUESTION})
    assert (status, asked["status"], asked["answers"], asked["title"]) == (201, "pending", None, "Answer a question")
    decide(Action.objects.get(pk=asked["id"]), "edit", by=bob, arguments=QUESTION | {"answers": ANSWERS})
    now = api(agent_token).get(f"{ACTIONS}/{asked['id']}").json()
    assert (now["status"], now["answers"], now["decision"]["by"]) == ("approved", ANSWERS, "bob")


def test_a_question_takes_no_snapshot_and_cannot_be_undone(hook, agent_token, soon, decide, bob, workspace):
    """A snapshot would be an operation, which nothing here carries out."""
    soon(lambda action: decide(action, "edit", by=bob, arguments=QUESTION | {"answers": ANSWERS}))
    where = [("X-Handrail-Workspace", workspace.key)]
    assert full(hook(agent_token, question(cwd="/workspace"), headers=where)).decision[0] == "allow"
    action = Action.objects.get()
    assert (action.workspace, action.undo_now, Operation.objects.count()) == (workspace, "unknown", 0)


def test_its_end_is_recorded_like_that_of_any_call(hook, agent_token, soon, decide, bob):
    given = QUESTION | {"answers": ANSWERS}
    soon(lambda action: decide(action, "edit", by=bob, arguments=given))
    hook(agent_token, question())
    after = question(given) | {"hook_event_name": "PostToolUse", "tool_response": {"answers": ANSWERS}}
    hook(agent_token, after)
    assert Action.objects.get().status == Status.SUCCEEDED


# What is refused ---------------------------------------------------------------------------------------------------


def test_no_policy_answers_for_a_person(ask, team):
    for rules in ('low = ["AskUserQuestion", "ExitPlanMode"]', 'critical = ["AskUserQuestion", "ExitPlanMode"]'):
        policies.add(team.pk, rules, actor=Actor.system("test"))
        for tool, arguments in (("AskUserQuestion", QUESTION), ("ExitPlanMode", PLAN)):
            asked = ask(arguments, tool=tool)
            assert (asked.status, asked.tier, asked.quorum, asked.undo) == (Status.PENDING, "high", 1, "unknown")


def test_a_policy_can_forbid_them(hook, agent_token, team):
    policies.add(team.pk, 'forbidden = ["AskUserQuestion"]', actor=Actor.system("test"))
    decision, reason = full(hook(agent_token, question())).decision
    assert (decision, reason[:25]) == ("deny", "The policy forbids this: ")


def test_a_question_is_never_approved_and_a_plan_never_edited(ask, decide, bob):
    asked, planned = ask(QUESTION, tool="AskUserQuestion"), ask(PLAN, tool="ExitPlanMode")
    for action, verdict, more in (
        (asked, "approve", {}),
        (asked, "edit", {"arguments": QUESTION}),
        (asked, "edit", {"arguments": QUESTION | {"answers": {}}}),
        (asked, "edit", {"arguments": QUESTION | {"answers": {"Which branch?": " "}}}),
        (asked, "edit", {"arguments": QUESTION | {"answers": {"Which branch?": ["next"]}}}),
        (asked, "edit", {"arguments": QUESTION | {"answers": ANSWERS | {"And else?": "x"}}}),
        (asked, "edit", {"arguments": {"questions": [BRANCH | {"question": "Delete it?"}], "answers": ANSWERS}}),
        (planned, "edit", {"arguments": {"plan": "Delete it all."}}),
    ):
        with pytest.raises(Problem) as refused:
            decide(action, verdict, by=bob, **more)
        assert refused.value.status == 422, (verdict, more)
    assert set(Action.objects.values_list("status", flat=True)) == {"pending"}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"questions": []},
        {"questions": "Which?"},
        {"questions": [BRANCH, BRANCH]},
        {"questions": [{"question": ""}]},
        {"questions": [{"question": "Which?", "options": [{"label": 7}]}]},
        {"questions": [{"question": "Which?", "multiSelect": "no"}]},
        {"questions": [{"question": "Which?"}] * 21},
    ],
)
def test_a_question_of_another_shape_is_left_to_the_agents_terminal_and_refused_over_the_api(
    hook, post, agent_token, arguments
):
    answer = full(hook(agent_token, question(arguments)))
    assert answer.json == {"continue": True, "hookSpecificOutput": {"hookEventName": "PreToolUse"}}
    assert post(agent_token, ACTIONS, {"tool": "AskUserQuestion", "arguments": arguments})[0] == 422
    assert Action.objects.count() == 0


def test_an_agent_does_not_answer_itself(hook, post, agent_token):
    own = QUESTION | {"answers": ANSWERS}
    decision, reason = full(hook(agent_token, question(own))).decision
    assert (decision, reason) == ("deny", "Leave `answers` out: a person gives them.")
    assert post(agent_token, ACTIONS, {"tool": "AskUserQuestion", "arguments": own})[0] == 422


def test_questions_have_no_group_grant_or_approve_on_a_notification(ask, bob, person):
    for n in range(4):
        ask({"questions": [BRANCH | {"question": f"Which branch for {n}?"}]}, tool="AskUserQuestion")
        ask({"plan": f"Step {n}"}, tool="ExitPlanMode")
    waiting = list(for_rows(Action.objects.order_by("number")))
    assert groups_of(waiting) == []
    assert [grants.offers(action) for action in waiting] == [{}] * 8
    assert not any(tokens.may_offer_approve(action, bob) for action in waiting)
    with pytest.raises(Problem):
        grants.approve_and_grant(waiting[0], caller=person(bob), digest=waiting[0].digest)
    told = messages.ask(waiting[0], settings_of(bob), private=False)
    assert told["title"] == "Question: Answer a question"
    assert told["body"].endswith("Which branch for 0?")
    assert PushToken.objects.count() == 0


# What nobody answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", [question(), plan()], ids=["question", "plan"])
def test_what_nobody_answered_in_time_is_asked_at_the_agents_terminal(hook, agent_token, soon, event):
    def expire(action):
        Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
        gate.sweep()

    soon(expire)
    answer = full(hook(agent_token, event)).json
    assert answer["hookSpecificOutput"] == {"hookEventName": "PreToolUse"}
    assert Action.objects.get().status == Status.EXPIRED


def test_a_person_leaves_it_to_the_agents_terminal(hook, agent_token, soon, bob, person):
    soon(lambda action: gate.cancel(gate.find(action.pk, caller=person(bob)), caller=person(bob)))
    answer = full(hook(agent_token, plan())).json
    assert answer["hookSpecificOutput"] == {"hookEventName": "PreToolUse"}


def test_in_a_stop_they_are_denied(hook, agent_token, soon, bob, person, team):
    soon(lambda action: gate.stop_everything(team, caller=person(bob)))
    assert full(hook(agent_token, plan())).decision[0] == "deny"
    assert full(hook(agent_token, question())).decision[0] == "deny"


def test_after_the_hold_the_same_question_finds_its_answer(hook, agent_token, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 1
    decision, reason = full(hook(agent_token, question())).decision
    assert decision == "deny"
    assert reason == "Nobody has answered yet (A-1). This is not a denial. To wait on, make exactly this call again."
    action = Action.objects.get()
    decide(action, "edit", by=bob, arguments=QUESTION | {"answers": ANSWERS})
    assert approved_meanwhile(action).startswith("A-1 has been answered.")
    again = full(hook(agent_token, question(call_id="toolu_2")))
    assert again.json["hookSpecificOutput"]["updatedInput"]["answers"] == ANSWERS


# What must not happen ----------------------------------------------------------------------------------------------


def test_the_log_has_no_text_of_the_agent(ask, decide, bob):
    asked = ask({"questions": [BRANCH | {"question": "Is hunter2 the password?"}]}, tool="AskUserQuestion")
    planned = ask({"plan": "# hunter2"}, tool="ExitPlanMode")
    answered = content(asked)["arguments"] | {"answers": {"Is hunter2 the password?": "hunter2"}}
    decide(asked, "edit", by=bob, arguments=answered)
    decide(planned, by=bob)
    assert "hunter2" not in json.dumps(list(Event.objects.values_list("data", flat=True)))
