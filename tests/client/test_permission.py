"""A call runs once a person allowed it, with the approved arguments, once; through cuts of the line and restarts."""

import subprocess
import sys

import pytest

from handrail_client import AlreadyUsed, Connection, Denied, Handrail, NotAnswered, Refused, Unreachable
from tests.client.line import NO_DESK
from tests.support.waiting import until

PUSH = {"command": "git push origin main"}


def test_the_block_runs_with_the_edited_arguments_and_its_end_is_reported(desk, person, beside, name):
    ran = []

    def program():
        with desk.allowed("Bash", PUSH, reasoning="It is ready.") as action:
            ran.append(action.arguments)
            return action

    running = beside(program)
    person.decides(person.sees(name), "edit", arguments={"command": "git push origin review"})
    action = running.result(60)
    assert ran == [{"command": "git push origin review"}]
    assert action.is_edited
    assert desk.get(action.id).status == "succeeded"


def test_a_block_that_raises_is_reported_as_failed(desk, person, beside, name):
    def program():
        with desk.allowed("Bash", PUSH) as action:
            raise ValueError("no such remote") from None
        return action

    running = beside(program)
    asked = person.sees(name)
    person.decides(asked, "approve")
    with pytest.raises(ValueError, match="no such remote"):
        running.result(60)
    assert person.status(asked) == "failed"


def test_a_denial_reaches_the_program_with_its_reason(desk, person, beside, name):
    running = beside(desk.permitted, "Bash", PUSH)
    person.decides(person.sees(name), "deny", comment="Not on a Friday.")
    with pytest.raises(Denied, match=r"rita-of-clients denied this: Not on a Friday\. Do not work around this\."):
        running.result(60)


def test_nobody_answered_is_not_a_denial(desk, name):
    with pytest.raises(NotAnswered, match="not a denial"):
        desk.permitted("Bash", PUSH, expires_in_s=1)


def test_a_question_is_answered_and_the_action_waits_on(desk, person, beside, name, product):
    running = beside(desk.permitted, "Bash", PUSH, on_question=lambda question: f"You asked: {question['text']}")
    asked = person.sees(name)
    product.post(f"/api/v1/actions/{asked['id']}/messages", person.token, {"text": "Which branch?"})

    def said():
        told = product.get(f"/api/v1/actions/{asked['id']}/messages", person.token).json["messages"]
        return [message["text"] for message in told if message["kind"] == "answer"]

    assert until(said) == ["You asked: Which branch?"]
    person.decides(asked, "approve")
    assert running.result(60).status == "running"


def test_the_wait_goes_on_when_the_desk_comes_back(desk, person, beside, name, line):
    asked = desk.ask("Bash", PUSH, key="deploy-7")
    waiting = beside(desk.wait, asked)
    line.cut("503")
    until(lambda: line.answered >= 2)
    person.decides(person.sees(name), "approve")
    line.mend()
    assert waiting.result(60).status == "approved"
    assert len(person.of(name, "approved")) == 1


PROGRAM = """
import sys
from handrail_client import Handrail
with Handrail().allowed("Bash", {"command": "git push origin main"}, key="night-12") as action:
    print("ran", action.arguments["command"])
"""


def test_the_same_key_finds_the_question_after_the_agent_was_killed(person, name, environment):
    def start():
        return subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)

    first = start()
    asked = person.sees(name)
    first.kill()
    first.communicate()
    person.decides(asked, "approve")
    second = start()
    assert second.communicate(timeout=60)[0] == "ran git push origin main\n"
    assert person.status(asked) == "succeeded"
    third = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert third.stdout == ""
    assert "AlreadyUsed" in third.stderr


def test_an_approval_is_used_once(desk, person, name):
    asked = desk.ask("Bash", PUSH, key="once")
    person.decides(person.sees(name), "approve")
    approved = desk.wait(asked)
    assert desk.use(approved).status == "running"
    with pytest.raises(AlreadyUsed):
        desk.use(approved)


def test_what_was_changed_after_the_approval_is_not_used(desk, person, name):
    asked = desk.ask("Bash", PUSH)
    person.decides(person.sees(name), "approve")
    approved = desk.wait(asked)
    changed = type(approved)(**{**vars(approved), "digest": "0" * 64})
    with pytest.raises(NotAnswered):
        desk.use(changed)
    assert desk.get(asked.id).status == "approved"


@pytest.mark.parametrize("mode", NO_DESK)
def test_nothing_runs_when_something_that_is_no_desk_answers(desk, line, mode):
    line.cut(mode)
    ran = []
    with pytest.raises(Unreachable):
        with desk.allowed("Bash", PUSH):
            ran.append(1)
    assert ran == []
    assert line.answered >= 1


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "truncated", "garbage"])
def test_nothing_runs_while_an_approval_cannot_be_used(desk, person, line, beside, name, mode):
    asked = desk.ask("Bash", PUSH)
    person.decides(person.sees(name), "approve")
    approved = desk.wait(asked)
    line.cut(mode)
    using = beside(desk.use, approved)
    until(lambda: line.answered >= 2)
    assert not using.done()
    assert person.status(asked.told) == "approved"
    line.mend()
    assert using.result(60).status == "running"


def test_a_wrong_token_is_refused_at_once(product):
    with pytest.raises(Refused) as refused:
        Handrail(Connection(product.url, "hr_wrong")).permitted("Bash", PUSH)
    assert refused.value.status == 401


def test_arguments_that_are_no_json_are_not_asked(desk, person, name):
    with pytest.raises(ValueError, match="Out of range"):
        desk.ask("Bash", {"timeout": float("nan")})
    assert person.of(name) == []
