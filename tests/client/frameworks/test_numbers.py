"""Numbers through the adapters: what a person is shown is what runs, digit for digit, or nothing runs."""

import json
import re

import pytest

from tests.approvals.test_numbers import SPELLINGS

MANY = f"[{','.join(SPELLINGS)}]"
# Frameworks that read a model's call themselves, as Python does: the spelling of these is what is asked about.
PLAIN = json.dumps([1, -3, 1.5, 1.0, 1e22, 1e-7, 0.1, 2**70, 1.7976931348623157e308], separators=(",", ":"))
# The AAIS library makes digests of its own, and refuses longer whole numbers with words of its own.
SAFE = f"[{','.join(text for text in SPELLINGS if not text.lstrip('-').isdecimal() or abs(int(text)) < 2**53)}]"
ADAPTERS = ["claude_sdk", "openai", "langgraph", "pydantic_ai", "agent_framework"]


@pytest.fixture
def decided(program, beside, person, product, name):
    """`decided("openai", sent, edited)`: what its tool was called with, after the person saw the call's numbers."""

    def run(adapter: str, sent: str, edited: str = "") -> str:
        running = beside(program, "numbers_program", adapter, f'{{"amounts":{sent}}}')
        asked = person.sees(name)
        path = f"/api/v1/actions/{asked['id']}"
        assert sent in re.sub(r"\s", "", product.get(path, person.token).text)
        told = {"verdict": "edit" if edited else "approve", "digest": asked["digest"]}
        told |= {"arguments": {"amounts": "N"}} if edited else {}
        answer = product.call(
            "POST", f"{path}/decision", person.token, json.dumps(told).replace('"N"', edited).encode()
        )
        assert answer.status == 200, answer.text
        done = running.result()
        assert done.returncode == 0, done.stderr
        return re.sub(r"\s", "", done.stdout)

    return run


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_a_person_saw_is_what_runs(decided, adapter):
    assert f'"amounts":{PLAIN}' in decided(adapter, PLAIN)


def test_a_models_own_text_keeps_its_digits(decided):
    assert f'"amounts":{MANY}' in decided("openai", MANY)


def test_a_request_of_aais_is_asked_about_with_its_digits(decided):
    said = decided("aais", SAFE)
    assert (said.startswith("approved"), f'"amounts":{SAFE}' in said) == (True, True)


def test_an_edit_of_a_request_of_aais_is_told_with_its_digits(decided):
    said = decided("aais", SAFE, MANY)
    assert (said.startswith("denied"), f'"amounts":{MANY}' in said) == (True, True)


@pytest.mark.parametrize("adapter", ["openai", "langgraph", "pydantic_ai", "agent_framework"])
def test_an_edit_reaches_the_tool_with_its_digits(decided, adapter):
    assert f'"amounts":{MANY}' in decided(adapter, PLAIN, MANY)


@pytest.mark.parametrize(("number", "runs"), [("2.5", True), ("1.10", False), ("1.000000000000000001", False)])
def test_an_edit_that_the_sdk_of_claude_would_round_runs_nothing_and_says_so(decided, person, name, number, runs):
    said = decided("claude_sdk", "[1.5]", f"[{number}]")
    assert ('"permissionDecision":"allow"' in said, f'"amounts":[{number}]' in said.replace("\\", "")) == (runs, True)
    statuses = [row["status"] for row in person.actions() if row["agent"] == name]
    assert statuses == (["running"] if runs else ["cancelled"])
