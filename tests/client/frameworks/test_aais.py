"""AAIS: its own conformance tests of the backend, and requests that people decide."""

import json

import pytest

SUITE = 20  # tests in 0.2


@pytest.fixture
def step(program):
    """`step("look")`: what one process of the harness prints."""

    def run(*words: str) -> str:
        done = program("aais_program", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def resolution(step):
    return lambda request_id: json.loads(step("resolution", request_id))


def test_the_backend_passes_its_own_conformance_tests_unmodified(program):
    done = program("aais_conformance")
    report = json.loads(done.stdout)
    assert (report["failed"], report["skipped"]) == ({}, {}), done.stderr
    assert len(report["passed"]) == SUITE


def test_a_request_outlives_its_processes_and_runs_once(step, resolution, person, name):
    step("ask", "apr-1", "sudo one")
    step("look")
    step("look")
    asked = person.sees(name)
    assert asked["tool"] == "Bash"
    person.decides(asked, "approve")
    step("look")
    told = resolution("apr-1")
    assert (told["outcome"], told["reason"]) == ("approved", "")
    actor = {"id": "handrail:rita-of-clients", "display_name": "rita-of-clients"}
    assert told["actor"] == actor | {"type": "human", "authenticated_by": "Handrail"}
    step("look")
    assert person.status(asked) == "running"
    assert len([row for row in person.actions() if row["agent"] == name]) == 1


def test_a_question_that_waits_while_its_client_is_replaced_is_found_again(step, resolution, person, name):
    step("ask", "apr-1", "sudo one")
    step("look-as-before")
    step("look")
    assert resolution("apr-1") == {"reason": ""}
    person.decides(person.sees(name), "approve")
    step("look")
    assert resolution("apr-1")["outcome"] == "approved"
    assert len([row for row in person.actions() if row["agent"] == name]) == 1


def test_a_denial_has_its_reason(step, resolution, person, name):
    step("ask", "apr-1", "sudo one")
    step("look")
    person.decides(person.sees(name), "deny", comment="Not on a Friday.")
    step("look")
    told = resolution("apr-1")
    assert told["outcome"] == "denied"
    assert "Not on a Friday." in told["reason"]


def test_what_the_policy_decides_has_the_policy_as_its_actor(step, resolution, person, name):
    for number, command, outcome in ((1, "echo hello", "approved"), (2, "rm -rf /", "denied")):
        step("ask", f"apr-{number}", command)
        step("look")
        told = resolution(f"apr-{number}")
        assert (told["outcome"], told["actor"]["type"]) == (outcome, "policy")
    assert person.of(name) == []


def test_an_edited_call_is_told_and_then_approved_once(step, resolution, person, name, desk):
    step("ask", "apr-1", "sudo one")
    step("look")
    asked = person.sees(name)
    person.decides(asked, "edit", arguments={"command": "sudo two"}, comment="Two.")
    step("look")
    told = resolution("apr-1")
    assert told["outcome"] == "denied"
    assert '"command": "sudo two"' in told["reason"]
    for number, outcome in ((2, "approved"), (3, None)):
        step("ask", f"apr-{number}", "sudo two")
        step("look")
        assert resolution(f"apr-{number}").get("outcome") == outcome
    assert person.status(asked) == "running"
    assert len(person.of(name)) == 1  # the third is a question of its own
    [session] = desk.sessions.all(session="s-1")
    calls = [one["call_id"] for one in desk.sessions.messages(session["id"]) if one["kind"] == "call"]
    assert calls == ["apr-1", "apr-2", "apr-3"]


def test_no_answer_is_no_denial(step, resolution, person, name):
    step("ask-briefly", "apr-1", "sudo one")
    step("look", "2")
    told = resolution("apr-1")
    assert told["outcome"] == "expired"
    assert "not a denial" in told["reason"]


def test_a_request_that_only_offers_more_than_once_is_left_alone(step, resolution, person, name):
    step("ask-for-session", "apr-1", "sudo one")
    step("look")
    assert person.of(name) == []
    assert resolution("apr-1") == {"reason": ""}


def test_a_withdrawn_request_is_withdrawn_at_the_desk(step, person, name):
    step("ask", "apr-1", "sudo one")
    step("cancel", "apr-1")
    assert [row["status"] for row in person.actions() if row["agent"] == name] == ["cancelled"]


def test_one_process_asks_waits_runs_and_reports(program, beside, person, name, tmp_path):
    running = beside(program, "aais_program", "run", "apr-1", "sudo -n true; touch ran")
    asked = person.sees(name)
    person.decides(asked, "approve")
    assert running.result().returncode == 0
    assert (tmp_path / "ran").exists()
    assert person.status(asked) == "succeeded"


def test_the_session_of_a_request_has_its_words_its_call_and_its_end(step, program, beside, person, name, desk):
    step("ask", "apr-1", "sudo one")
    for _ in range(2):
        step("look")
    person.decides(person.sees(name), "deny", comment="Not on a Friday.")
    step("look")
    running = beside(program, "aais_program", "run", "apr-2", "sudo -n true; true")
    person.decides(person.sees(name), "approve")
    assert running.result().returncode == 0
    [session] = desk.sessions.all(session="s-1")
    told = list(desk.sessions.messages(session["id"]))
    assert [(one["kind"], one["call_id"], one["ok"]) for one in told] == [
        ("text", "", None),
        ("call", "apr-1", None),
        ("result", "apr-1", False),
        ("text", "", None),
        ("call", "apr-2", None),
        ("result", "apr-2", True),
    ]
    assert told[0]["text"] == "As asked\nruns a program"
    assert "sudo one" in told[1]["text"]
    assert told[1]["action"] is not None
    assert "Not on a Friday." in told[2]["text"]


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "garbage"])
def test_nothing_is_resolved_when_no_desk_answers(step, program, line, resolution, mode):
    step("ask", "apr-1", "echo hello")
    line.cut(mode)
    done = program("aais_program", "look", HANDRAIL_URL=line.url)
    assert done.returncode != 0
    assert resolution("apr-1").get("outcome") is None


def test_a_wrong_token_reaches_no_state(program):
    done = program("aais_program", "look", HANDRAIL_TOKEN="hr_wrong")
    assert done.returncode != 0
    assert "StoreError" in done.stderr
