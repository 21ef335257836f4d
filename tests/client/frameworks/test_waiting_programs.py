"""Pydantic AI and Microsoft Agent Framework: a program waits where its calls need approval, and goes on by itself."""

import json
import signal

import pytest

from tests.support.waiting import until

PROGRAMS = ["pydantic_ai_program", "agent_framework_program"]


@pytest.fixture(params=PROGRAMS)
def start(request, begin, tmp_path):
    """`start({"command": "sudo one"})`: the program, whose model makes these calls one after another."""

    def run(*calls: dict, **more):
        (tmp_path / "calls").write_text("".join(json.dumps(call) + "\n" for call in calls))
        return begin(request.param, **more)

    return run


def test_an_edit_runs_with_the_persons_arguments_as_the_tool_takes_them(start, person, name, ran):
    program = start({"command": "sudo one", "day": "2026-11-30"})
    asked = person.sees(name)
    edited = {"command": "sudo two", "day": "2026-12-01"}
    person.decides(asked, "edit", arguments=edited, comment="Not today.")
    out, err = program.communicate(timeout=180)
    assert ran() == ["sudo two 2026-12-01"], err[-3000:]
    assert "a person edited this call" in out
    assert "Not today." in out
    assert "noted sudo two 2026-12-01" in out
    assert person.status(asked) == "succeeded"


def test_an_edit_that_the_tool_does_not_take_runs_nothing(start, person, name, ran):
    program = start({"command": "sudo one"})
    asked = person.sees(name)
    person.decides(asked, "edit", arguments={"command": "sudo two", "day": "tomorrow"})
    out, err = program.communicate(timeout=180)
    assert (ran(), "noted" in out, person.status(asked)) == ([], False, "failed"), err[-3000:]


def test_a_denial_reaches_the_model_and_nothing_runs(start, person, name, ran):
    program = start({"command": "sudo one"})
    asked = person.sees(name)
    person.decides(asked, "deny", comment="It is in use.")
    out, err = program.communicate(timeout=180)
    assert "denied this: It is in use. Do not work around this." in out, err[-3000:]
    assert (ran(), person.status(asked)) == ([], "denied")


def test_an_expiry_reaches_the_model_as_no_denial_and_nothing_runs(start, person, name, ran):
    out, err = start({"command": "sudo one"}, EXPIRES="1").communicate(timeout=180)
    assert "in time, so it did not run. This is not a denial: ask again." in out, err[-3000:]
    assert (ran(), [row["status"] for row in person.of(name, "expired")]) == ([], ["expired"])


def test_what_the_policy_allows_runs_at_once(start, person, name, ran):
    out, err = start({"command": "echo hello"}).communicate(timeout=180)
    assert (out, ran()) == ("noted echo hello\n", ["echo hello"]), err[-3000:]
    until(lambda: person.of(name, "succeeded"))


def test_an_interrupted_program_ends_and_its_question_stays_open(start, person, name, ran):
    program = start({"command": "sudo one"})
    asked = person.sees(name)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=180)
    assert (program.returncode != 0, person.status(asked)) == (True, "pending")
    again = start({"command": "sudo one"})
    person.decides(asked, "approve")
    out, err = again.communicate(timeout=180)
    assert (out, ran()) == ("noted sudo one\n", ["sudo one"]), err[-3000:]


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "garbage"])
def test_the_run_ends_when_no_desk_answers(start, line, ran, mode):
    line.cut(mode)
    program = start({"command": "echo hello"}, HANDRAIL_URL=line.url)
    out, _ = program.communicate(timeout=180)
    assert (line.answered >= 1, ran(), out, program.returncode) == (True, [], "", 1)


def test_the_run_ends_with_a_wrong_token(start, ran):
    program = start({"command": "echo hello"}, HANDRAIL_TOKEN="hr_wrong")
    out, _ = program.communicate(timeout=180)
    assert (ran(), out, program.returncode) == ([], "", 1)
