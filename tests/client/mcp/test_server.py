"""`handrail mcp-server`: permission for any tool, over MCP."""

import json

import pytest

from tests.support.waiting import until

PUSH = {"command": "git push origin main"}


@pytest.fixture
def server(speak):
    def start(**more):
        client = speak("mcp-server", "--grace", "0.5", **more)
        client.begin()
        return client

    return start


def use(client, message_id, name, **arguments):
    client.ask(message_id, "tools/call", {"name": name, "arguments": arguments})


def permission(client, message_id, **more):
    use(client, message_id, "ask_permission", tool_name="Bash", input=PUSH, **more)


def test_permission_is_given_edited_or_denied_in_the_form_of_claude_codes_prompt_tool(server, person, name):
    client = server()
    permission(client, 1, tool_use_id="toolu_1", reason="The release is ready.")
    person.decides(person.sees(name), "edit", arguments={"command": "git push origin review"})
    answer = client.answer(1)["result"]
    assert json.loads(answer["content"][0]["text"]) == {
        "behavior": "allow",
        "updatedInput": {"command": "git push origin review"},
    }
    assert (len(answer["content"]), "structuredContent" in answer) == (1, False)
    permission(client, 2)
    person.decides(person.sees(name), "deny", comment="Not on a Friday.")
    denied = json.loads(client.text(2))
    assert denied["behavior"] == "deny"
    assert "Not on a Friday." in denied["message"]


def test_permission_is_not_given_when_no_desk_answers_and_withdrawn_when_it_is_cancelled(server, person, name, line):
    client = server(HANDRAIL_URL=line.url)
    permission(client, 1)
    asked = person.sees(name)
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    until(lambda: person.status(asked) == "cancelled")
    line.cut("{}")
    permission(client, 2)
    assert json.loads(client.text(2))["behavior"] == "deny"
    line.mend()
    permission(client, 3)
    left = person.sees(name)
    client.end()
    until(lambda: person.status(left) == "cancelled")
    assert client.answers(1) == []
