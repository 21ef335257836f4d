"""LangGraph and the OpenAI Agents SDK: a program stops where its calls need approval, and another process goes on."""

import os

import pytest

from tests.support.waiting import until

PROGRAMS = ["langgraph_program", "openai_program"]


@pytest.fixture(params=PROGRAMS)
def step(request, program):
    """`step("start")`: one process of the program."""
    return lambda *words, **more: program(request.param, *words, **more)


def test_two_calls_wait_one_is_edited_one_denied_and_another_process_goes_on(step, person, name, tmp_path, ran):
    (tmp_path / "calls").write_text("sudo one\nsudo two\n")
    started = step("start")
    assert (started.stdout, ran()) == ("2\n", []), started.stderr
    assert len(person.of(name)) == 2
    forged = step("forge")
    assert ran() == [], forged.stdout
    by_command = {person_sees["title"]: person_sees for person_sees in until(lambda: person.of(name))}
    one, two = (next(row for title, row in by_command.items() if word in title) for word in ("one", "two"))
    person.decides(one, "edit", arguments={"command": "sudo three"}, comment="Three is free.")
    person.decides(two, "deny", comment="Two is in use.")
    resumed = step("resume")
    assert ran() == ["sudo three"], resumed.stderr
    assert "Three is free." in resumed.stdout
    assert "denied this: Two is in use. Do not work around this." in resumed.stdout
    assert (person.status(one), person.status(two)) == ("succeeded", "denied")


def test_a_graph_whose_checkpoints_are_in_postgresql_goes_on_in_another_process(
    program, require, person, name, tmp_path, ran
):
    url = os.environ.get("HANDRAIL_TEST_POSTGRES_URL")
    if not url:
        require("postgres", "HANDRAIL_TEST_POSTGRES_URL names no server")
    (tmp_path / "calls").write_text("sudo one\n")
    started = program("langgraph_program", "start", CHECKPOINTS=url)
    assert (started.stdout, ran()) == ("1\n", []), started.stderr
    person.decides(person.sees(name), "approve")
    resumed = program("langgraph_program", "resume", CHECKPOINTS=url)
    assert ran() == ["sudo one"], resumed.stderr
    assert not (tmp_path / "checkpoints.sqlite3").exists()


def test_what_the_policy_allows_runs_without_a_stop(step, person, name, tmp_path, ran):
    (tmp_path / "calls").write_text("echo hello\n")
    done = step("start")
    assert (done.stdout, ran()) == ("0\n", ["echo hello"]), done.stderr
    assert [row["status"] for row in person.actions() if row["agent"] == name] == ["succeeded"]


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "garbage"])
def test_nothing_runs_when_no_desk_answers(step, line, tmp_path, ran, mode):
    (tmp_path / "calls").write_text("echo hello\n")
    line.cut(mode)
    step("start", HANDRAIL_URL=line.url)
    assert (line.answered >= 1, ran()) == (True, [])


def test_nothing_runs_with_a_wrong_token(step, tmp_path, ran):
    (tmp_path / "calls").write_text("echo hello\n")
    step("start", HANDRAIL_TOKEN="hr_wrong")
    assert ran() == []
