"""`handrail mcp-server`: permission for any tool, workspaces, notes, snapshots and commands, over MCP."""

import json

import pytest

from handrail_client.mcp.tools import MAX_OUTPUT, _bounded
from tests.client.mcp.conftest import HELLO, META
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


def test_workspaces_notes_snapshots_and_commands(server, desk):
    key = "of-the-mcp-server"
    desk.workspaces.create(key)
    client = server(HANDRAIL_WORKSPACE=key)
    client.ask(0, "tools/list")
    assert {tool["name"] for tool in client.answer(0)["result"]["tools"]} >= {"ask_permission", "run_command"}
    use(client, 1, "list_workspaces")
    assert key in {row["key"] for row in json.loads(client.text(1))}
    use(client, 2, "write_notes", text="Port 8080 is taken.\n")
    assert client.text(2) == "The notes are saved."
    use(client, 3, "read_notes", workspace=key)
    assert json.loads(client.text(3))["text"] == "Port 8080 is taken.\n"
    use(client, 4, "write_notes", text="Lost.", seen="0" * 64)
    assert client.answer(4)["result"]["isError"] is True
    use(client, 5, "run_command", command="echo hello; exit 3")
    assert client.text(5) == "hello\n\n(exit status 3)"
    use(client, 6, "take_snapshot", label="by MCP")
    assert client.text(6).startswith("Snapshot ")
    for n, wrong in enumerate([{"command": 5}, {}, {"command": "ls", "more": 1}, {"command": "ls", "workspace": "no"}]):
        use(client, f"w{n}", "run_command", **wrong)
        assert client.answer(f"w{n}")["result"]["isError"] is True
    client.ask(7, "tools/nothing")
    assert client.answer(7)["error"]["code"] == -32601
    client.ask(8, "initialize", HELLO | {"protocolVersion": "1999-01-01"})
    assert client.answer(8)["result"]["protocolVersion"] == "2025-11-25"


def test_what_a_command_printed_and_a_file_are_searched_and_asked_by_sql(server, desk):
    key = "of-the-large-outputs"
    desk.workspaces.create(key)
    desk.workspaces.write(key, "sizes.csv", b"name,size\na,3\nb,4\n")
    client = server(HANDRAIL_WORKSPACE=key)
    print_many = "seq 1 9000 | sed 's/.*/{\"n\": &}/'"
    use(client, 1, "run_command", command=print_many)
    first, *_ = client.text(1).splitlines()
    assert first.startswith("(The start is left out. search_text and query_table read all of command ")
    command = first.split()[-1].removesuffix(".)")
    use(client, 2, "search_text", command=command, pattern=": 7}", fixed=True, after=1)
    assert [line["text"] for line in json.loads(client.text(2))["lines"]] == ['{"n": 7}', '{"n": 8}']
    use(client, 3, "query_table", command=command, sql="SELECT sum(n) FROM output")
    assert json.loads(client.text(3))["rows"] == [[40504500]]
    use(client, 4, "query_table", path="sizes.csv", sql="SELECT max(size) FROM file")
    assert json.loads(client.text(4))["rows"] == [[4]]
    use(client, 5, "search_text", path="sizes.csv", pattern="^B", ignore_case=True, workspace=key)
    assert json.loads(client.text(5))["lines"][0]["n"] == 3
    use(client, 6, "search_text", command=command, pattern="n", limit=1000)
    found = json.loads(client.text(6))
    assert len(client.text(6)) <= 30_000
    assert found["found"] == len(found["lines"]) == found["more_from"] - 1
    use(client, 7, "query_table", command=command, sql="SELECT n, n, n, n, n, n FROM output", limit=1000)
    assert (len(client.text(7)) <= 30_000, json.loads(client.text(7))["truncated"]) == (True, True)
    wrong = [
        ("search_text", {"pattern": "a"}),
        ("search_text", {"pattern": "a", "command": command, "path": "sizes.csv"}),
        ("search_text", {"pattern": "a", "path": "sizes.csv", "fixed": 1}),
        ("query_table", {"sql": "DROP TABLE output", "command": command}),
        ("query_table", {"sql": "SELECT 1", "command": command, "snapshot": 1}),
    ]
    for n, (tool, given) in enumerate(wrong):
        use(client, f"w{n}", tool, **given)
        assert client.answer(f"w{n}")["result"]["isError"] is True
    assert "Only one SELECT can be asked" in client.text("w3")


def test_of_a_row_that_is_too_long_the_beginnings_are_given():
    words = _bounded({"columns": ["a", "n", "b"], "rows": [["ä" * 10_000, 7, "b" * 40_000]], "truncated": False})
    found = json.loads(words)
    assert len(words) <= MAX_OUTPUT < 2 * len(words)
    assert found["truncated"] is True
    [[first, number, last]] = found["rows"]
    assert (set(first), number, set(last)) == ({"ä"}, 7, {"b"})


def test_a_client_of_the_newest_protocol_needs_no_greeting(speak, person, name):
    client = speak("mcp-server", "--grace", "0.5")
    client.ask(1, "server/discover", {"_meta": META})
    found = client.answer(1)["result"]
    assert (found["resultType"], found["supportedVersions"]) == ("complete", ["2026-07-28"])
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "handrail"
    client.ask(2, "tools/list", {"_meta": META})
    listed = client.answer(2)["result"]
    assert (listed["resultType"], listed["ttlMs"] >= 0, listed["cacheScope"]) == ("complete", True, "public")
    client.ask(
        3, "tools/call", {"name": "ask_permission", "arguments": {"tool_name": "Bash", "input": PUSH}} | {"_meta": META}
    )
    person.decides(person.sees(name), "deny", comment="Not on a Friday.")
    assert "Not on a Friday." in json.loads(client.text(3))["message"]
    assert client.answer(3)["result"]["resultType"] == "complete"


def test_a_request_whose_meta_is_not_whole_is_refused_by_the_codes_of_the_protocol(speak):
    client = speak("mcp-server", "--grace", "0.5")
    version, capabilities = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
    wrong = [
        ("tools/list", {version: "2026-07-28"}, -32602),
        ("tools/list", {version: 5, capabilities: {}}, -32602),
        ("server/discover", {}, -32602),
        ("tools/list", META | {version: "1900-01-01"}, -32022),
        ("ping", META, -32601),
        ("initialize", META, -32601),
    ]
    for number, (method, meta, code) in enumerate(wrong):
        client.ask(number, method, {"_meta": meta})
        assert client.answer(number)["error"]["code"] == code
    assert client.answer(3)["error"]["data"] == {"supported": ["2026-07-28"], "requested": "1900-01-01"}
    client.begin()  # the same process serves the older generation
    client.ask("old", "tools/list")
    assert "resultType" not in client.answer("old")["result"]
