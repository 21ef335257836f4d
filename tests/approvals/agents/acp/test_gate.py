"""The gate between an editor and its agent: what it holds, what it lets pass, and what happens when it can't ask."""

import json

import pytest

from tests.support.waiting import until

from .conftest import chosen, permission

PUSH = "git push origin main"


def test_a_call_that_the_policy_allows_is_permitted_once_without_the_editor(editor, actions):
    assert editor.prompt(permission("pwd")) == "end_turn"
    assert editor.answers_of_client == [chosen("yes")]
    assert editor.asked("session/request_permission") == []
    [action] = actions()
    assert (action["tool"], action["arguments"]) == ("Bash", {"command": "pwd"})


def test_a_risky_call_waits_for_a_person_and_its_end_is_recorded(editor, reviewer, card, actions):
    ended = {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "failed"}}
    number = editor.start(permission(PUSH), ended)
    reviewer.answer(card(), "approve")
    assert editor.answer(number)["result"] == {"stopReason": "end_turn"}
    assert editor.answers_of_client == [chosen("yes")]
    until(lambda: [action["status"] for action in actions()] == ["failed"])


def test_a_denial_reaches_the_person_at_the_editor_and_the_next_prompt(editor, reviewer, card):
    number = editor.start(permission(PUSH))
    reviewer.answer(card(), "deny", comment="Not on a Friday")
    editor.answer(number)
    assert editor.answers_of_client == [chosen("no")]
    assert "Not on a Friday" in "".join(editor.said)
    editor.prompt("Go on.")
    assert any(text.startswith("Beside it: ") and "Not on a Friday" in text for text in editor.said)


def test_an_edit_is_given_back_as_the_call_to_make_which_then_needs_no_card(editor, reviewer, card, actions):
    number = editor.start(permission(PUSH))
    reviewer.answer(card(), "edit", arguments={"command": "git push origin review"})
    editor.answer(number)
    assert "git push origin review" in "".join(editor.said)
    editor.prompt(permission("git push origin review", "call-2"))
    assert editor.answers_of_client == [chosen("no"), chosen("yes")]
    assert len(actions()) == 1


def test_what_an_agent_does_not_tell_in_full_is_asked(editor, reviewer, card):
    number = editor.start(permission("pwd", run_as="root"))
    found = card()
    assert (found["tool"], found["arguments"]["rawInput"]["run_as"]) == ("acp:execute", "root")
    reviewer.answer(found, "deny")
    editor.answer(number)


def test_a_file_that_the_editor_is_to_write_and_a_terminal_are_held_too(editor, reviewer, card, tmp_path, actions):
    write = {"method": "fs/write_text_file", "params": {"path": str(tmp_path / ".git/config"), "content": "x"}}
    number = editor.start(write)
    found = card()
    assert (found["tool"], found["arguments"]["content"]) == ("Write", "x")
    assert editor.asked("fs/write_text_file") == []
    reviewer.answer(found, "deny", comment="Leave it.")
    editor.answer(number)
    assert "Leave it." in editor.answers_of_client[-1]["message"]
    assert editor.asked("fs/write_text_file") == []

    env = [{"name": "GIT_DIR", "value": "/x"}]
    terminal = {"command": "git", "args": ["push", "origin", "main"], "env": env, "cwd": str(tmp_path)}
    number = editor.start({"method": "terminal/create", "params": terminal})
    found = card()
    assert found["arguments"] == {"command": "env GIT_DIR=/x git push origin main"}
    reviewer.answer(found, "approve")
    [asked] = until(lambda: editor.asked("terminal/create"))
    assert {name: asked["params"][name] for name in terminal} == terminal
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"terminalId": "t1"}})
    editor.answer(number)
    assert editor.answers_of_client[-1] == {"terminalId": "t1"}


def test_how_a_call_ended_that_the_editor_carries_out_is_recorded(editor, reviewer, card, actions, tmp_path):
    write = {"method": "fs/write_text_file", "params": {"path": str(tmp_path / "notes.txt"), "content": "x"}}
    terminal = {"method": "terminal/create", "params": {"command": "pwd"}}
    wait = {"method": "terminal/wait_for_exit", "params": {"terminalId": "t1"}}
    results = {"fs/write_text_file": {}, "terminal/create": {"terminalId": "t1"}, wait["method"]: {"exitCode": 3}}
    number = editor.start(write, terminal, wait)
    reviewer.answer(card(), "approve")  # a file outside of any workspace
    for method, result in results.items():
        [asked] = until(lambda method=method: editor.asked(method))
        editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    editor.answer(number)
    until(lambda: [action["status"] for action in actions()] == ["succeeded", "failed"])


def test_a_request_is_judged_as_what_it_is_whatever_else_it_says(editor, reviewer, card):
    """The fields of Handrail's own events in an agent's request must not replace them."""
    harmless = permission("pwd")["params"]
    forged = harmless | {"hook_event_name": "session/request_permission", "sessionId": editor.session, "cwd": "/"}
    number = editor.start({"method": "terminal/create", "params": forged | {"command": PUSH}})
    found = card()
    assert found["arguments"] == {"command": PUSH}
    assert editor.asked("terminal/create") == []
    reviewer.answer(found, "deny")
    editor.answer(number)


def test_arguments_that_a_shell_would_read_otherwise_are_asked_about(editor, reviewer, card):
    """Some editors join a terminal's command and arguments for a shell."""
    number = editor.start({"method": "terminal/create", "params": {"command": "echo", "args": ["hi; git push"]}})
    found = card()
    assert (found["tool"], found["arguments"]) == ("acp:terminal", {"command": "echo", "args": ["hi; git push"]})
    reviewer.answer(found, "deny")
    editor.answer(number)


def test_variables_with_invalid_names_are_refused(editor):
    odd = [{"name": "-S", "value": "sh"}]
    editor.prompt({"method": "terminal/create", "params": {"command": "pwd", "env": odd}})
    assert "names and values" in editor.answers_of_client[-1]["message"]


def test_a_cancelled_turn_takes_its_question_back(editor, card, actions):
    number = editor.start(permission(PUSH))
    card()
    told = {"sessionId": editor.session}
    editor.send({"jsonrpc": "2.0", "method": "session/cancel", "params": told})
    assert editor.answer(number)["result"] == {"stopReason": "cancelled"}
    until(lambda: [action["status"] for action in actions()] == ["cancelled"])


def test_the_end_of_the_editor_takes_its_question_back(editor, card, actions):
    editor.start(permission(PUSH))
    card()
    editor.process.stdin.close()
    until(lambda: [action["status"] for action in actions()] == ["cancelled"])


@pytest.mark.parametrize("token", ["wrong", "away"])
def test_nothing_is_permitted_when_nobody_can_be_asked(editor_at, product, token):
    url = product.url if token == "wrong" else "http://127.0.0.1:9"
    # The first contact is tried for 30 s.
    editor = editor_at(url, "hr_00000000_wrong")
    assert editor.answer(editor.start(permission("pwd")))["result"] == {"stopReason": "end_turn"}
    assert editor.answers_of_client == [chosen("no")]


def test_a_line_that_is_read_differently_elsewhere_does_not_pass(editor):
    """JSON with a key twice, a batch, and no JSON."""
    write = {"path": "/etc/passwd", "content": "x"}
    asks = {"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": write}
    twice = json.dumps(asks)[:-1] + ', "method": "session/update"}'
    assert editor.prompt({"line": json.dumps([asks])}, {"line": "no json"}, {"line": twice}) == "end_turn"
    assert not any(b"fs/write_text_file" in line for line in editor.raw)
    assert all(isinstance(message, dict) for message in editor.heard)


def test_other_messages_pass_as_they_are_and_the_agent_does_not_get_the_token(editor):
    read = {"method": "fs/read_text_file", "params": {"path": "/x"}}
    number = editor.start({"environment": ["HANDRAIL_TOKEN", "HANDRAIL_URL"]}, read)
    [asked] = until(lambda: editor.asked("fs/read_text_file"))
    editor.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": "text"}})
    editor.answer(number)
    assert editor.answers_of_client[0]["HANDRAIL_TOKEN"] is None
    assert editor.answers_of_client[1] == {"content": "text"}


def test_the_conversation_is_kept(editor, product, agent_token):
    plan = {"update": {"sessionUpdate": "plan", "entries": [{"content": "Look", "status": "completed"}]}}
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": "completed"}
    ended["content"] = [{"type": "content", "content": {"type": "text", "text": "/repo"}}]
    editor.prompt(permission("pwd"), {"update": ended}, plan)

    def kept():
        [session] = product.get("/api/v1/sessions", agent_token).json["sessions"] or [None]
        if not session:
            return None
        found = product.get(f"/api/v1/sessions/{session['id']}/messages", agent_token).json["messages"]
        return found if len(found) >= 5 else None

    told = [(each["role"], each["kind"], each["text"]) for each in until(kept)]
    assert [each[:2] for each in told] == [
        ("user", "text"), ("assistant", "call"), ("assistant", "text"), ("tool", "result"), ("assistant", "note"),
    ]  # fmt: skip
    assert (json.loads(told[1][2]), told[3][2], told[4][2]) == ({"command": "pwd"}, "/repo", "- [x] Look")


def test_the_desk_gives_the_program_away(product, program):
    assert product.get("/connect/handrail-acp.pyz").body == program.read_bytes()
