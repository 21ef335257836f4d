"""Each adapter tells the desk its conversation: after a kill and another start, each message is there once."""

import json

import pytest

from tests.support.waiting import until

# {program: its first step, and the one that goes on}
PROGRAMS = {
    "langgraph_program": ("start", "resume"),
    "openai_program": ("start", "resume"),
    "pydantic_ai_program": ("", "go-on"),
    "agent_framework_program": ("", "go-on"),
}
COMMANDS = ["echo one", "sudo two"]
# A turn of the model for each call, or one for both, and what it read and wrote.
ASKED, CALLED, RETURNED, ANSWERED = ("user", "text"), ("assistant", "call"), ("tool", "result"), ("assistant", "text")
IN_ONE_TURN = [ASKED, CALLED, CALLED, RETURNED, RETURNED, ANSWERED]
IN_TWO_TURNS = [ASKED, CALLED, RETURNED, CALLED, RETURNED, ANSWERED]


@pytest.fixture
def messages(product, person, name):
    """`messages()`: those of the agent's one session, in their order."""

    def found() -> list[dict]:
        sessions = product.get(f"/api/v1/sessions?agent={name}", person.token).json["sessions"]
        if not sessions:
            return []
        [session] = sessions
        assert session["native_id"] == "night-1"
        return product.get(f"/api/v1/sessions/{session['id']}/messages", person.token).json["messages"]

    return found


@pytest.mark.parametrize("adapter", PROGRAMS)
def test_after_a_kill_and_another_start_each_message_is_there_once(
    adapter, begin, messages, person, name, tmp_path, ran
):
    first, then = PROGRAMS[adapter]
    lines = COMMANDS if first else [json.dumps({"command": command}) for command in COMMANDS]
    (tmp_path / "calls").write_text("\n".join(lines) + "\n")
    if first:  # it ends where a person is asked
        assert begin(adapter, first, SESSION="night-1").communicate(timeout=180)[0] == "1\n"
    waits = begin(adapter, then, SESSION="night-1")
    asked = person.sees(name)
    assert [row["role"] for row in until(messages)][:2] == ["user", "assistant"]
    waits.kill()
    waits.communicate()
    [call] = [row for row in messages() if row["kind"] == "call" and row["action"] == asked["id"]]
    assert "sudo two" in call["text"]
    person.decides(asked, "approve")
    out, err = begin(adapter, then, SESSION="night-1").communicate(timeout=180)
    assert ran() == COMMANDS, err[-3000:]
    assert "noted sudo two" in out
    kept = messages()
    assert [(row["role"], row["kind"]) for row in kept] in (IN_ONE_TURN, IN_TWO_TURNS), kept
    of_calls = [row for row in kept if row["call_id"]]
    assert {row["tool"] for row in of_calls} == {"Bash"}
    assert all(row["action"] for row in of_calls), kept
    assert [row["ok"] for row in kept if row["kind"] == "result" and row["ok"] is not None] in ([], [True, True])
