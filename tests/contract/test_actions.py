"""api.md, Actions: each row for real, with its fields, their kinds and its status codes."""

import threading
import time
import uuid

import pytest

from tests.contract.conftest import as_promised

ASKED = {
    "id": "str",
    "status": "str",
    "tier": "str",
    "reasons": "list",
    "digest": "str",
    "expires_at": "time",
}
ACTION = ASKED | {"tool": "str", "arguments": "dict", "decision": "dict|null", "result": "dict|null"}
DECISION = {"verdict": "str", "by": "str", "comment": "str", "edited": "bool", "decided_at": "time"}
NOWHERE = "0" * 64


def decide(person, action, verdict, expect=200, **more):
    body = {"verdict": verdict, "digest": action["digest"], **more}
    return person.post(f"/actions/{action['id']}/decision", body, expect).json


def test_asking_answers_with_how_it_stands(agent, asked):
    action = asked(reasoning="It is time.", expires_in_s=600, call_id="c1", session=uuid.uuid4().hex)
    assert as_promised(action, ASKED) == ASKED
    assert (action["status"], action["tier"], len(action["digest"])) == ("pending", "high", 64)
    assert action["reasons"] == ["Needs approval: pushes to main on origin."]
    found = agent.get(f"/actions/{action['id']}").json
    assert as_promised(found, ACTION) == ACTION
    assert (found["tool"], found["arguments"], found["decision"]) == (
        "Bash",
        {"command": "git push origin main"},
        None,
    )


def test_the_same_key_is_the_same_action_and_another_body_is_refused(agent):
    key, body = uuid.uuid4().hex, {"tool": "Bash", "arguments": {"command": "git push"}}
    first = agent.post("/actions", body, 201, key=key).json
    again = agent.post("/actions", body, 200, key=key).json
    assert again["id"] == first["id"]
    agent.post("/actions", body | {"arguments": {"command": "git push -f"}}, 422, key=key)
    agent.post(f"/actions/{first['id']}/cancel")
    assert agent.post("/actions", body, 200, key=key).json["status"] == "cancelled"


def test_low_is_allowed_and_forbidden_is_denied_at_once(asked):
    assert (asked("pwd")["status"], asked("pwd")["tier"]) == ("approved", "low")
    denied = asked("rm -rf /")
    assert (denied["status"], denied["tier"]) == ("denied", "forbidden")
    assert denied["decision"]["verdict"] == "deny"


@pytest.mark.parametrize("tool", ["WebFetch", "mcp__server__tool", "NotebookEdit"])
def test_the_broker_carries_out_bash_write_and_edit_only(agent, place, tool):
    body = {"tool": tool, "arguments": {}, "mode": "broker", "workspace": place}
    assert "Mode broker supports Bash, Write, Edit" in agent.post("/actions", body, 422).json["detail"]


def test_the_broker_needs_a_workspace_and_a_path_inside(agent, place):
    before = agent.get("/actions?limit=200").json["actions"]
    agent.post("/actions", {"tool": "Bash", "arguments": {"command": "ls"}, "mode": "broker"}, 422)
    outside = {"file_path": "/etc/passwd", "content": "x"}
    agent.post("/actions", {"tool": "Write", "arguments": outside, "mode": "broker", "workspace": place}, 422)
    agent.post(
        "/actions",
        {"tool": "Bash", "arguments": {"command": "ls"}, "workspace": place, "cwd": "/", "mode": "broker"},
        422,
    )
    agent.post("/actions", {"tool": "Bash", "arguments": {"command": "ls"}, "workspace": "no-such"}, 404)
    assert [row["id"] for row in agent.get("/actions?limit=200").json["actions"]] == [row["id"] for row in before]


def test_a_wait_ends_when_it_is_decided(agent, reviewer, asked):
    action = asked()
    late = threading.Timer(1, decide, (reviewer, action, "approve"))
    late.start()
    began = time.monotonic()
    found = agent.get(f"/actions/{action['id']}?wait=25").json
    late.join()
    assert found["status"] == "approved"
    assert time.monotonic() - began < 15
    assert as_promised(found["decision"], DECISION) == DECISION
    assert (found["decision"]["verdict"], found["decision"]["by"], found["decision"]["edited"]) == (
        "approve",
        "contract-reviewer",
        False,
    )


def test_a_wait_for_nothing_answers_all_the_same(agent, asked):
    assert agent.get(f"/actions/{asked()['id']}?wait=0.2").json["status"] == "pending"
    agent.get(f"/actions/{asked()['id']}?wait=x", 422)
    agent.get("/actions/none", 422)
    agent.get(f"/actions/{uuid.uuid4()}", 404)


def test_the_list_is_filtered_and_paged(agent, reviewer, asked, place):
    mine = [asked(workspace=place)["id"] for _ in range(3)]
    page = agent.get(f"/actions?status=pending&tier=high&workspace={place}&limit=2").json
    assert [row["id"] for row in page["actions"]] == [mine[2], mine[1]]
    rest = agent.get(f"/actions?workspace={place}&status=pending&limit=2&cursor={page['cursor']}").json
    assert rest["actions"][0]["id"] == mine[0]
    assert mine[0] in [row["id"] for row in reviewer.get(f"/actions?workspace={place}").json["actions"]]
    agent.get("/actions?status=waiting", 422)
    agent.get("/actions?tier=huge", 422)
    agent.get("/actions?cursor=x", 422)


def test_a_decision_is_final_and_a_second_one_hears_who_won(reviewer, lead, asked):
    action = asked()
    assert decide(reviewer, action, "deny", comment="no")["status"] == "denied"
    lost = decide(lead, action, "approve", 409)
    assert lost["winner"]["verdict"] == "deny"
    assert lost["winner"]["by"] == "contract-reviewer"
    assert (lost["code"], lost["action_status"]) == ("already_decided", "denied")


def test_a_vote_short_of_the_quorum_is_pending(agent, reviewer, lead, asked):
    action = asked("git push --force origin main")
    assert action["tier"] == "critical"
    voted = decide(reviewer, action, "approve")
    assert (voted["status"], voted["votes"]) == ("pending", 1)
    again = decide(reviewer, action, "approve")
    assert (again["status"], again["votes"]) == ("pending", 1)
    assert decide(lead, action, "approve")["status"] == "approved"
    assert agent.get(f"/actions/{action['id']}").json["status"] == "approved"


def test_an_edit_is_what_counts(agent, reviewer, asked):
    action = asked()
    edited = decide(reviewer, action, "edit", arguments={"command": "git push origin staging"})
    assert (edited["status"], edited["decision"]["edited"]) == ("approved", True)
    assert edited["digest"] != action["digest"]
    found = agent.get(f"/actions/{action['id']}").json
    assert found["arguments"] == {"command": "git push origin staging"}
    agent.post(f"/actions/{action['id']}/consume", {"digest": action["digest"]}, 409)
    agent.post(f"/actions/{action['id']}/consume", {"digest": edited["digest"]})


def test_a_digest_of_yesterday_decides_nothing(agent, reviewer, asked):
    action = asked()
    refused = decide(reviewer, action | {"digest": NOWHERE}, "approve", 409)
    assert (refused["code"], refused["digest"]) == ("digest_mismatch", action["digest"])
    assert agent.get(f"/actions/{action['id']}").json["status"] == "pending"
    decide(reviewer, action, "edit", 422)
    decide(reviewer, action, "approve", 422, arguments={"command": "ls"})
    decide(reviewer, action, "edit", 422, arguments={"command": "rm -rf /"})
    decide(reviewer, action, "perhaps", 422)
    assert agent.get(f"/actions/{action['id']}").json["status"] == "pending"


def test_an_approval_is_consumed_once_and_its_outcome_told(agent, reviewer, asked):
    action = asked()
    consume = f"/actions/{action['id']}/consume"
    assert agent.post(consume, {"digest": action["digest"]}, 409).json["code"] == "not_approved"
    decide(reviewer, action, "approve")
    assert agent.post(consume, {"digest": NOWHERE}, 409).json["code"] == "digest_mismatch"
    agent.post(f"/actions/{action['id']}/outcome", {"status": "succeeded"}, 409)
    taken = agent.post(consume, {"digest": action["digest"]}).json
    assert (taken["status"], taken["arguments"]) == ("running", action["arguments"])
    assert agent.post(consume, {"digest": action["digest"]}, 409).json["code"] == "already_consumed"
    agent.post(f"/actions/{action['id']}/outcome", {"status": "splendid"}, 422)
    ended = agent.post(f"/actions/{action['id']}/outcome", {"status": "failed", "note": "no remote"}).json
    assert (ended["status"], ended["result"]["note"]) == ("failed", "no remote")
    assert agent.post(f"/actions/{action['id']}/outcome", {"status": "failed"}).json["status"] == "failed"
    agent.post(f"/actions/{action['id']}/outcome", {"status": "succeeded"}, 409)


def test_an_expired_action_is_neither_decided_nor_consumed(agent, reviewer, asked):
    action = asked(expires_in_s=1)
    time.sleep(1.1)
    assert decide(reviewer, action, "approve", 409)["code"] == "expired"
    assert agent.post(f"/actions/{action['id']}/consume", {"digest": action["digest"]}, 409).json["code"] == "expired"
    assert agent.get(f"/actions/{action['id']}").json["status"] == "expired"


def test_what_is_taken_back_does_not_run(agent, reviewer, asked):
    action = asked()
    assert agent.post(f"/actions/{action['id']}/cancel").json["status"] == "cancelled"
    assert agent.post(f"/actions/{action['id']}/cancel").json["status"] == "cancelled"
    assert decide(reviewer, action, "approve", 409)["code"] == "cancelled"


def test_the_broker_runs_the_stored_bytes(agent, reviewer, place):
    command = 'echo "brokered $(id -u)" > brokered; python3 -c "import os; os.getpid()"'
    body = {"tool": "Bash", "arguments": {"command": command}, "mode": "broker", "workspace": place}
    action = agent.post("/actions", body, 201).json
    assert action["status"] == "pending"
    agent.get(f"/workspaces/{place}/files/brokered", 404)
    agent.post(f"/actions/{action['id']}/consume", {"digest": action["digest"]}, 409)
    decide(reviewer, action, "approve")
    done = agent.over(action["id"])
    assert (done["status"], done["result"]["exit_status"]) == ("succeeded", 0)
    assert as_promised(done, {"snapshot_before": "int"}) == {"snapshot_before": "int"}
    assert agent.get(f"/workspaces/{place}/files/brokered").body == b"brokered 1000\n"


def test_the_broker_writes_and_edits(agent, place):
    for tool, arguments, after in (
        ("Write", {"file_path": "conf", "content": "port = 1\n"}, b"port = 1\n"),
        ("Edit", {"file_path": "conf", "old_string": "1", "new_string": "2"}, b"port = 2\n"),
    ):
        body = {"tool": tool, "arguments": arguments, "mode": "broker", "workspace": place}
        action = agent.post("/actions", body, 201).json
        assert agent.over(action["id"])["status"] == "succeeded"
        assert agent.get(f"/workspaces/{place}/files/conf").body == after


def test_a_command_that_fails_is_failed(agent, reviewer, place):
    body = {"tool": "Bash", "arguments": {"command": "make nothing"}, "mode": "broker", "workspace": place}
    action = agent.post("/actions", body, 201).json
    decide(reviewer, action, "approve")
    done = agent.over(action["id"])
    assert (done["status"], done["result"]["exit_status"] != 0) == ("failed", True)


def test_events_come_after_a_cursor(agent, reviewer, asked):
    start = reviewer.get("/events?limit=1000").json
    while len(start["events"]) == 1000:
        start = reviewer.get(f"/events?limit=1000&after={start['cursor']}").json
    action = asked()
    found = reviewer.get(f"/events?after={start['cursor']}&wait=10").json["events"]
    promised = {"id": "int", "at": "time", "actor": "dict", "verb": "str", "subject": "dict", "data": "dict"}
    assert [as_promised(event, promised) for event in found] == [promised] * len(found)
    assert ("action.submitted", action["id"]) in [(event["verb"], event["subject"]["id"]) for event in found]
    mine = agent.get(f"/events?after={start['cursor']}").json["events"]
    assert {event["subject"]["id"] for event in mine} == {action["id"]}
    reviewer.get("/events?after=-1", 422)
    reviewer.get("/events?after=x", 422)
