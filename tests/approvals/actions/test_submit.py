"""Asking: what the policy says by itself, and when the same wish is the same action."""

import hashlib
import json

import pytest
import rfc8785

from approvals.actions import gate
from approvals.evaluation.calls import Call
from approvals.models import Action, Status, Tier
from dashboard.models import Event
from dashboard.problems import Problem

from ..conftest import FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db


def verbs(action):
    return list(Event.objects.filter(subject_id=str(action.pk)).order_by("seq").values_list("verb", flat=True))


def test_a_harmless_call_is_allowed_by_the_policy(ask):
    action = ask(LIST)
    assert (action.status, action.tier, action.consume_by > action.created_at) == (Status.APPROVED, Tier.LOW, True)
    assert verbs(action) == ["action.submitted", "action.allowed"]


def test_a_forbidden_call_is_denied_with_the_reason(ask):
    action = ask(WIPE)
    assert (action.status, action.tier) == (Status.DENIED, Tier.FORBIDDEN)
    assert action.revisions.get().reasons[0] != ""
    assert verbs(action) == ["action.submitted", "action.denied"]


def test_a_risky_call_waits(ask):
    action = ask(PUSH)
    assert (action.status, action.tier, action.quorum, action.undo) == (Status.PENDING, Tier.HIGH, 1, "no")
    assert verbs(action) == ["action.submitted", "action.waiting"]


def test_a_critical_call_waits_for_two_people(ask):
    action = ask(FORCE)
    assert (action.tier, action.quorum) == (Tier.CRITICAL, 2)


def test_the_digest_is_of_the_canonical_bytes(ask):
    action = ask({"command": "git push", "b": 1, "a": [1.0, "ü"]}, cwd="/home/mia")
    expected = rfc8785.dumps(
        {
            "tool": "Bash",
            "arguments": {"command": "git push", "b": 1, "a": [1, "ü"]},
            "cwd": "/home/mia",
            "workspace": None,
        }
    )
    assert bytes(action.revisions.get().canonical) == expected
    assert action.digest == hashlib.sha256(expected).hexdigest()


def test_events_name_the_action_and_never_hold_its_arguments(ask):
    action = ask({"command": "git push https://hunter2@example.com/x main"}, reasoning="hunter2 says so")
    events = Event.objects.filter(subject_id=str(action.pk))
    named = [(e.verb, e.data["number"], e.data["digest"]) for e in events.order_by("seq")]
    assert named == [(verb, action.number, action.digest) for verb in ("action.submitted", "action.waiting")]
    told = json.dumps([e.data for e in events])
    assert ("says so" in told, "hunter2" in told) == (False, False)


def test_the_sentence_on_an_address_leaves_out_its_user(ask):
    command = "git push https://mia:hunter2@example.com/x main"
    action = ask({"command": command})
    read = action.revisions.get()
    told = json.dumps([action.title, read.reasons, [line["reason"] for line in read.commands]])
    assert ("hunter2" in told, "example.com" in told) == (False, True)
    assert command.encode() in bytes(read.canonical)  # what is approved is shown as it is


def test_numbers_count_up_in_the_team(ask):
    assert [ask().number, ask().number, ask().number] == [1, 2, 3]


def test_outside_every_workspace_what_cannot_be_put_back_asks(ask):
    action = ask({"file_path": "/home/mia/repo/a.py", "content": "x"}, tool="Write", cwd="/home/mia/repo")
    assert (action.status, action.undo) == (Status.PENDING, "no")
    assert "outside any workspace" in action.revisions.get().reasons[0]


def test_outside_every_workspace_what_a_service_can_take_back_is_still_said_to_be(ask):
    issue = {"owner": "acme", "repo": "shop", "title": "x"}
    action = ask(issue, tool="mcp__github__create_issue", cwd="/home/mia/repo")
    assert (action.status, action.undo) == (Status.PENDING, "partly")


@pytest.mark.parametrize("cwd", ["/", "/home/mia/repo", None])
def test_without_a_workspace_what_an_agent_reads_is_asked_wherever_it_says_it_is(ask, cwd):
    reads = [("Read", {"file_path": "/home/mia/repo/diary.txt"}), ("Bash", {"command": "ls"})]
    found = [ask(arguments, tool=tool, cwd=cwd) for tool, arguments in reads]
    assert [action.status for action in found] == [Status.PENDING, Status.PENDING]


def test_a_tool_nobody_knows_waits_for_a_person(ask):
    assert ask({"x": 1}, tool="FrobnicateEverything").status == Status.PENDING


def test_when_the_policy_cannot_be_asked_a_person_is(ask, team):
    ask(LIST)
    team.policies.update(text="mode = 7 [", sha256="broken")
    action = ask(LIST)
    assert (action.status, action.tier, action.policy) == (Status.PENDING, Tier.HIGH, None)
    assert action.revisions.get().reasons == ["Needs approval: the policy could not be evaluated (PolicyError)."]


# Who may not -------------------------------------------------------------------------------------------------------


def test_a_person_does_not_ask(person, alice):
    with pytest.raises(Problem) as refused:
        gate.submit(Call(tool="Bash", arguments=LIST), caller=person(alice))
    assert refused.value.status == 403


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wish",
    [
        {"tool": ""},
        {"tool": "x" * 201},
        {"tool": "Bash\n"},
        {"arguments": ["ls"]},
        {"arguments": {"command": "ls\0"}},
        {"arguments": {"command": "\ud800"}},
        {"cwd": "relative"},
        {"cwd": ""},
        {"cwd": "/a\0"},
        {"mode": "shout"},
        {"mode": "broker"},
        {"expires_in_s": 0},
        {"expires_in_s": 8 * 24 * 3600},
    ],
)
def test_a_call_that_makes_no_sense_is_refused_and_leaves_nothing(caller, wish):
    with pytest.raises(Problem) as refused:
        gate.submit(Call(**({"tool": "Bash", "arguments": LIST} | wish)), caller=caller)
    assert (refused.value.status, Action.objects.count()) == (422, 0)


def test_when_too_many_wait_the_next_is_refused(ask, settings):
    settings.HANDRAIL_PENDING_LIMIT = 2
    ask(), ask()
    with pytest.raises(Problem) as refused:
        ask()
    assert refused.value.status == 429
    assert ask(LIST).status == Status.APPROVED


# Twice -------------------------------------------------------------------------------------------------------------


def test_the_same_key_is_the_same_action_as_it_is_now(ask, decide, bob):
    first = ask(idempotency_key="k", body_hash="1")
    decide(first, by=bob)
    again = ask(idempotency_key="k", body_hash="1")
    assert (again.pk, again.status) == (first.pk, Status.APPROVED)


def test_the_same_key_with_another_body_is_refused(ask):
    ask(idempotency_key="k", body_hash="1")
    with pytest.raises(Problem) as refused:
        ask(idempotency_key="k", body_hash="2")
    assert (refused.value.status, Action.objects.count()) == (422, 1)


def test_without_a_session_two_equal_calls_are_two_actions(ask):
    assert ask().pk != ask().pk


def test_in_a_session_the_same_call_finds_its_card(ask):
    first = ask({"command": "git push", "description": "Push it"}, session="s")
    again = ask({"command": "git push", "description": "Share the work"}, session="s")
    assert again.pk == first.pk


@pytest.mark.parametrize(
    "other",
    [
        {"session": "t"},
        {"arguments": {"command": "git push", "timeout": 5000}},
        {"arguments": {"command": "git push", "run_in_background": True}},
        {"arguments": {"command": "git push "}},
        {"cwd": "/elsewhere"},
        {"tool": "Shell"},
    ],
)
def test_another_effect_is_another_call(ask, other):
    first = ask({"command": "git push"}, session="s", cwd="/here")
    wish = {"arguments": {"command": "git push"}, "session": "s", "cwd": "/here"} | other
    assert ask(**wish).pk != first.pk


def test_a_kept_yes_is_found_again_after_the_policy_changed(ask, decide, person, bob, lena, team):
    from approvals.evaluation import policies
    from approvals.policy import default_policy

    first = ask(session="s")
    decide(first, by=bob)
    policies.save(default_policy("everything"), caller=person(lena), team=team)
    again = ask(session="s")
    assert (again.pk, again.status) == (first.pk, Status.APPROVED)


def test_an_undelivered_denial_answers_the_next_equal_call_once(ask, decide, bob):
    first = ask(session="s")
    decide(first, "deny", by=bob)
    heard = ask(session="s")
    assert (heard.pk, heard.status) == (first.pk, Status.DENIED)
    gate.mark_heard(heard)
    assert ask(session="s").pk != first.pk
