"""`handrail mcp-gate --http`: the gate before a server that speaks streamable HTTP."""

import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.client.mcp.conftest import META
from tests.support.waiting import until

SERVER = Path(__file__).parent / "http_note_server.py"
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Session-Id": "mine"}


class Gate:
    """The gate as its clients see it."""

    def __init__(self, address: str):
        self.parts = urlsplit(address)

    def send(self, body, method="POST", path="", **headers) -> tuple[int, str, bytes]:
        """One request on a connection of its own: the status, the kind and the body of the answer."""
        connection = http.client.HTTPConnection(self.parts.netloc, timeout=120)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = BOTH | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path or self.parts.path, data, named)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("Content-Type"), answer.read()
        connection.close()
        return found

    def call(self, message_id, command: str, meta: dict | None = None, **headers) -> dict:
        """The answer to a call of `note`, from whichever form it has."""
        params = {"name": "note", "arguments": {"command": command}} | ({"_meta": meta} if meta else {})
        asked = {"jsonrpc": "2.0", "id": message_id, "method": "tools/call", "params": params}
        _, kind, body = self.send(asked, **headers)
        if kind != "text/event-stream":
            return json.loads(body)
        data = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")]
        [found] = [message for message in data if message.get("id") == message_id]
        return found


@pytest.fixture
def gate(command, environment, tmp_path):
    """`gate("/mcp")`: a gate before a note server at that path; both end after the test."""
    made = []

    def start(path: str = "/mcp", **more) -> Gate:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
        made.append(subprocess.Popen([sys.executable, str(SERVER)], **pipes))
        address = f"http://127.0.0.1:{made[-1].stdout.readline().strip()}{path}"
        words = [*command, "mcp-gate", "--name", "notes", "--grace", "0.5", "--http", address]
        made.append(subprocess.Popen(words, env=environment | more, **pipes))
        return Gate(made[-1].stderr.readline().split()[-1])

    yield start
    for process in reversed(made):
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.parametrize("path", ["/mcp", "/stream"])
def test_calls_are_approved_edited_and_denied(gate, person, name, beside, ran, path):
    client = gate(path)
    for verdict, more in (
        ("approve", {}),
        ("edit", {"arguments": {"command": "other"}}),
        ("deny", {"comment": "Not now."}),
    ):
        calling = beside(client.call, 1, f"to {verdict}")
        asked = person.sees(name)
        assert asked["tool"] == "mcp__notes__note"
        person.decides(asked, verdict, **more)
        said = [block["text"] for block in calling.result(120)["result"]["content"]]
        if verdict == "approve":
            assert said == ["noted to approve"]
        elif verdict == "edit":
            assert (len(said), said[1]) == (2, "noted other")
        else:
            assert "denied this: Not now." in said[0]
        until(lambda asked=asked, ends=verdict: person.status(asked) == ("denied" if ends == "deny" else "succeeded"))
    assert ran() == ["to approve", "other"]


def test_nothing_is_sent_on_without_a_desk_or_with_a_wrong_token(gate, line, ran):
    client = gate(HANDRAIL_URL=line.url)
    line.cut("{}")
    assert client.call(1, "one")["result"]["isError"] is True
    wrong = gate(HANDRAIL_TOKEN="hr_wrong")
    assert wrong.call(1, "two")["result"]["isError"] is True
    assert ran() == []


def test_a_call_is_withdrawn_when_it_is_cancelled_or_its_client_goes(gate, person, name, beside, ran):
    client = gate()
    calling = beside(lambda: client.call("c", "three"))
    asked = person.sees(name)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
    client.send(cancel, Mcp_Session_Id="another")
    assert person.status(asked) == "pending"
    assert client.send(cancel)[0] == 202
    until(lambda: person.status(asked) == "cancelled")
    assert calling.exception(120) is not None
    with socket.create_connection((client.parts.hostname, client.parts.port)) as gone:
        params = {"name": "note", "arguments": {"command": "four"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST {client.parts.path} HTTP/1.1\r\nHost: {client.parts.netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        gone.sendall(head.encode() + body)
        left = person.sees(name)
    until(lambda: person.status(left) == "cancelled")
    assert ran() == []


def test_all_else_passes_with_its_headers_and_what_could_be_a_call_in_disguise_does_not(gate, person, name, ran):
    client = gate()
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    status, _, body = client.send(ping, Authorization="Bearer of-the-client")
    assert (status, json.loads(body)["result"]) == (200, {"session": "mine", "token": "Bearer of-the-client"})
    assert client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202
    assert client.send(None, "GET")[0] == 405
    assert client.send(None, "DELETE")[0] == 502  # a redirect would lead the client past the gate
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "note", "arguments": {"command": "x"}},
    }
    text = json.dumps(call).encode()
    for disguised in ([call], text.replace(b'"method"', b'"Method"'), text.replace(b'"id"', b'"method": "ping", "id"')):
        assert client.send(disguised)[0] == 400
    assert client.send(text, Content_Type="application/json; charset=utf-16")[0] == 400
    assert client.send(text, Content_Encoding="gzip")[0] == 400
    assert client.send(ping, Mcp_Method="tools/call")[0] == 400
    assert client.send(ping, Host="evil.example")[0] == 403
    assert client.send(ping, Origin="https://evil.example")[0] == 403
    assert client.send(ping, path="/other")[0] == 404
    assert (person.of(name), ran()) == ([], [])


NEWEST = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "note"}


def test_the_headers_of_the_newest_protocol_follow_an_edit(gate, person, name, beside, ran):
    client = gate("/strict")
    edits = ["plain", "blank at the end ", "Zürich", "=?base64?literal?="]
    for number, edited in enumerate(edits):
        calling = beside(client.call, number, "eu", META, **NEWEST, Mcp_Param_Command="eu")
        asked = person.sees(name)
        person.decides(asked, "edit", arguments={"command": edited})
        assert calling.result(120)["result"]["content"][1]["text"] == f"noted {edited}"
        until(lambda asked=asked: person.status(asked) == "succeeded")
    assert ran() == edits


@pytest.mark.parametrize(
    "header",
    [
        {"Mcp_Name": "other"},
        {"Mcp_Method": "ping"},
        {"MCP_Protocol_Version": "2025-11-25"},
        {"Mcp_Param_Command": "us"},
    ],
)
def test_a_header_that_says_something_else_than_the_body_is_refused_before_anybody_is_asked(gate, person, name, header):
    client = gate("/strict")
    found = client.call(7, "eu", META, **NEWEST | {"Mcp_Param_Command": "eu"} | header)
    assert (found["id"], found["error"]["code"]) == (7, -32020)
    for missing in NEWEST:
        left = {header: value for header, value in NEWEST.items() if header != missing}
        assert client.call(8, "eu", META, **left, Mcp_Param_Command="eu")["error"]["code"] == -32020
    assert client.call(9, "eu", META, **NEWEST)["error"]["code"] == -32020
    assert person.of(name) == []


def test_an_error_of_the_server_reaches_the_client_with_its_code(gate, person, name, beside):
    client = gate("/strict")
    calling = beside(client.call, 8, "refuse", META, **NEWEST, Mcp_Param_Command="refuse")
    asked = person.sees(name)
    person.decides(asked, "approve")
    assert calling.result(120)["error"]["code"] == -32020
    until(lambda: person.status(asked) == "failed")
