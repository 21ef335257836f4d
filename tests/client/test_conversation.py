"""A conversation is posted once and in its order, whatever is between the program and the desk."""

import pytest

from handrail_client.conversation import Conversation, Message
from handrail_client.gated_calls import Gate

ASKED, ANSWER = Message("user", "Go on."), Message("assistant", "Done.")
CALL = Message("assistant", {"command": "ls"}, "call", tool="shell", call_id="c1")
RESULT = Message("tool", "a b", "result", call_id="c1", ok=True)


@pytest.fixture
def conversation(desk) -> Conversation:
    return Conversation(Gate(desk, {"shell": "Bash"}), "ticket-41")


@pytest.fixture
def kept(product, person, name):
    """`kept()`: the texts of the agent's session at the desk, or all of its messages with `kept(whole=True)`."""

    def read(*, whole=False) -> list:
        sessions = product.get(f"/api/v1/sessions?agent={name}", person.token).json["sessions"]
        if not sessions:
            return []
        [session] = sessions
        assert session["native_id"] == "ticket-41"
        rows = product.get(f"/api/v1/sessions/{session['id']}/messages", person.token).json["messages"]
        return rows if whole else [row["text"] for row in rows]

    return read


def test_what_was_posted_is_not_posted_again_in_this_process_or_another(conversation, desk, kept):
    conversation.post([ASKED, CALL])
    conversation.post([ASKED, CALL, RESULT, ANSWER])
    Conversation(Gate(desk, {"shell": "Bash"}), "ticket-41").post([ASKED, CALL, RESULT, ANSWER])
    rows = [(row["role"], row["kind"], row["tool"], row["call_id"], row["ok"]) for row in kept(whole=True)]
    assert rows == [
        ("user", "text", "", "", None),
        ("assistant", "call", "Bash", "c1", None),
        ("tool", "result", "Bash", "c1", True),
        ("assistant", "text", "", "", None),
    ]


def test_the_same_text_said_twice_is_two_messages(conversation, kept):
    conversation.post([ASKED, ANSWER, ASKED])
    assert kept() == ["Go on.", "Done.", "Go on."]


def test_a_history_that_lost_its_beginning_is_not_posted_again(conversation, kept):
    conversation.post([Message("user", "First."), ANSWER, ASKED])
    conversation.post([ASKED, Message("assistant", "Later.")])
    assert kept() == ["First.", "Done.", "Go on.", "Later."]


@pytest.mark.parametrize("mode", ["closes", "500", "{}", "garbage"])
def test_what_no_desk_took_is_posted_before_what_follows_it(conversation, line, kept, mode):
    line.cut(mode)
    conversation.post([ASKED])
    conversation.post([ASKED, ANSWER])
    assert (line.answered >= 2, kept()) == (True, [])
    line.mend()
    conversation.post([ASKED, ANSWER, Message("user", "Thanks.")])
    assert kept() == ["Go on.", "Done.", "Thanks."]


def test_a_message_that_the_desk_refuses_keeps_no_other_back(conversation, kept, caplog):
    conversation.post([ASKED, Message("tool", "x", "thinking"), Message("user", {"n": float("nan")}), ANSWER])
    assert kept() == ["Go on.", "Done."]
    assert len(caplog.messages) == 2


def test_a_session_whose_name_has_a_slash_has_no_conversation_and_does_not_stop_the_program(desk, kept, caplog):
    Conversation(Gate(desk), "work/41").post([ASKED, ANSWER])
    assert kept() == []
    not_kept = [words for words in caplog.messages if words.startswith("A message of the session work/41 is not kept")]
    assert len(not_kept) == len(caplog.messages) == 2
