"""The log as a trace, judged by AgentAck itself: what people approved is what ran, and any change of it is found."""

import json
import re

import pytest
from agentack.cli import main as check
from agentack.engine import evaluate_events
from agentack.parser import read_jsonl
from agentack.policy import Policy
from django.db import connection

from approvals.actions import expiry, gate
from approvals.models import Action
from dashboard.database import clock
from dashboard.event_log import triggers
from dashboard.models import Event
from handrail_verify import agentack
from handrail_verify.__main__ import main as verify
from tests.support import CHECKOUT

from ..conftest import FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db
POLICY = Policy(require_approval_for=("*:ask",), max_approval_age_seconds=86_400)


@pytest.fixture
def exported(team):
    """`exported()`: the events of the team's log, as they are exported."""
    return lambda: [event.as_export() for event in Event.objects.filter(team=team).order_by("seq")]


@pytest.fixture
def judged(tmp_path, exported):
    """`judged()`: AgentAck's report on the trace of the log, or on the lines or events given."""

    def read(lines=None, *, events=None):
        if lines is None:
            lines = list(agentack.trace(exported() if events is None else events))
        (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return evaluate_events(read_jsonl(tmp_path / "trace.jsonl"), policy=POLICY)

    return read


@pytest.fixture
def used(ask, decide, consume, alice, bob):
    """Actions that were approved (by one, by two), edited, denied, and decided by the policy; {name: Action}."""
    approved, critical = ask(PUSH), ask(FORCE)
    edited, denied = ask({"command": "git push origin old"}), ask({"command": "git push origin other"})
    decide(approved, by=bob)
    decide(critical, by=bob)
    decide(critical, by=alice)
    decide(edited, "edit", by=bob, arguments={"command": "git push origin new"})
    decide(denied, "deny", by=bob)
    found = {"approved": approved, "critical": critical, "edited": edited, "denied": denied}
    found |= {"allowed": ask(LIST), "forbidden": ask(WIPE)}
    for action in found.values():
        action.refresh_from_db()
        if action.status == "approved":
            consume(action)
    return found


def test_a_log_of_each_outcome_passes(used, judged, exported):
    report = judged()
    assert (report.status, report.findings) == ("PASS", ())
    ran = [line for line in agentack.trace(exported()) if line["type"] == "action_executed"]
    digests = {line["intent_id"]: line["action"]["parameters"]["sha256"] for line in ran}
    names = ("approved", "critical", "edited", "allowed")
    assert digests == {str(used[name].pk): used[name].digest for name in names}


def test_an_edit_is_a_denial_of_what_was_asked_and_an_approval_of_what_ran(used, exported):
    lines = [line for line in agentack.trace(exported()) if line.get("intent_id") == str(used["edited"].pk)]
    decisions = [line["decision"] for line in lines if line["type"] == "approval_decision"]
    assert (decisions, len({line["action_id"] for line in lines})) == (["deny", "allow"], 2)


def test_its_default_rules_name_each_command_that_the_policy_let_run(used, exported, tmp_path):
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in agentack.trace(exported())))
    report = evaluate_events(read_jsonl(tmp_path / "trace.jsonl"))
    missing = {each.action_id.split("/")[0] for each in report.findings if each.rule_id == "ACK001"}
    assert missing == {str(used["allowed"].pk)}


def test_who_asked_and_got_no_answer_is_incomplete_and_nothing_else(used, ask, judged):
    expired, waiting = ask({"command": "git push origin late"}), ask({"command": "git push origin later"})
    Action.objects.filter(pk=expired.pk).update(expires_at=clock.now())
    assert expiry.end_if_due(Action.objects.get(pk=expired.pk)).status == "expired"
    report = judged()
    named = {each.action_id.split("/")[0] for each in report.findings}
    assert (report.status, named) == ("INCOMPLETE", {str(expired.pk), str(waiting.pk)})


def test_an_approval_that_nobody_used_passes(ask, decide, bob, judged):
    action = ask(PUSH)
    decide(action, by=bob)
    Action.objects.filter(pk=action.pk).update(consume_by=clock.now())
    assert expiry.end_if_due(Action.objects.get(pk=action.pk)).status == "expired"
    assert judged().status == "PASS"


def test_an_answer_that_was_taken_back_counts_no_more(ask, decide, consume, person, bob, judged):
    action = ask(PUSH)
    decide(action, "deny", by=bob)
    gate.take_back(Action.objects.get(pk=action.pk), caller=person(bob))
    assert judged().status == "INCOMPLETE"
    decide(action, by=bob)
    consume(action)
    assert judged().status == "PASS"


def test_it_holds_no_argument_and_no_comment(ask, decide, bob, exported):
    decide(ask({"command": "git push origin wxyz"}), "deny", by=bob, comment="comment-abc")
    trace = json.dumps(list(agentack.trace(exported())))
    assert "wxyz" not in trace
    assert "comment-abc" not in trace


# Tampered copies -----------------------------------------------------------------------------------------------------


def changed(lines: list[dict], kind: str, intent, **fields) -> list[dict]:
    """Return a copy in which the lines of a kind of one action have other fields, or without those lines."""
    copy = []
    for line in lines:
        if (line["type"], line.get("intent_id")) != (kind, str(intent.pk)):
            copy.append(line)
        elif fields:
            copy.append(line | fields)
    return copy


def test_a_tampered_trace_fails(used, judged, exported):
    lines, other = list(agentack.trace(exported())), {"tool": "Bash", "operation": "ask", "parameters": {"sha256": "0"}}
    approved, denied = used["approved"], used["denied"]
    [ran] = [each for each in lines if each["type"] == "action_executed" and each["intent_id"] == str(approved.pk)]
    [shown] = [each for each in lines if each["type"] == "approval_requested" and each["intent_id"] == str(denied.pk)]
    also = {"type": "action_executed", "action": shown["action"]}
    for rule, tampered in {
        "ACK001": [{k: v for k, v in each.items() if each is not ran or k != "approval_id"} for each in lines],
        "ACK002": [*lines[:-1], shown | also, lines[-1]],
        "ACK003": changed(lines, "action_executed", approved, action=other),
        "ACK004": [*lines[:-1], ran, lines[-1]],
        "ACK005": changed(lines, "action_executed", approved, timestamp="2100-01-01T00:00:00Z"),
    }.items():
        report = judged(tampered)
        assert (report.status, rule in report.rule_counts) == ("FAIL", True), (rule, report.findings)
    for removed in ("approval_decision", "approval_requested", "action_proposed"):
        assert judged(changed(lines, removed, approved)).status == "INCOMPLETE"


def test_a_log_in_which_a_call_ran_as_nobody_approved_it_fails(used, judged, exported):
    def forged(verb, **data):
        events = exported()
        [event] = [e for e in events if e["verb"] == verb and e["subject"]["id"] == str(used["approved"].pk)]
        event["data"] = event["data"] | data
        return events, event

    events, _ = forged("action.consumed", digest="0" * 64)
    assert "ACK003" in judged(events=events).rule_counts
    events, event = forged("action.approved")
    event["actor"] = event["actor"] | {"type": "agent"}  # who is no person
    assert judged(events=events).status == "INCOMPLETE"
    events, event = forged("action.approved")
    event["verb"] = "action.denied"
    assert judged(events=events).status == "FAIL"
    events, event = forged("action.approved")
    event["verb"] = "action.ran_differently"
    assert "ACK003" in judged(events=events).rule_counts


# Ways to get one -----------------------------------------------------------------------------------------------------


def test_the_api_and_the_verifier_give_the_same_and_its_command_passes(used, api, token_of, lena, tmp_path, capsys):
    answer = api(token_of(lena)).get("/api/v1/log/export?format=agentack")
    trace, log = tmp_path / "trace.jsonl", tmp_path / "log.jsonl"
    trace.write_bytes(b"".join(answer.streaming_content))
    log.write_bytes(b"".join(api(token_of(lena)).get("/api/v1/log/export").streaming_content))
    assert verify(["agentack", str(log)]) == 0
    printed = capsys.readouterr()
    assert [json.loads(each) for each in printed.out.splitlines()] == [
        json.loads(each) for each in trace.read_text().splitlines()
    ]
    assert printed.err.startswith("unproven: events 1 to ")
    [policy] = re.findall(r"```toml\n(.*?)```", (CHECKOUT / "docs" / "verifying.md").read_text(), re.DOTALL)
    (tmp_path / "agentack.toml").write_text(policy)
    assert check(["check", str(trace), "--policy", str(tmp_path / "agentack.toml")]) == 0


def test_no_trace_is_made_of_a_log_that_does_not_verify(used, exported, tmp_path, capsys):
    triggers.remove(connection)
    Event.objects.filter(verb="action.approved").update(actor_label="lena")
    triggers.install(connection)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(each) + "\n" for each in exported()))
    assert verify(["agentack", str(log)]) == 1
    assert "was edited" in capsys.readouterr().out
