"""A tool of 2025-11-25 that asks its user in the middle of a call, and a person who interrupts or stops meanwhile."""

import http.client
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.client.mcp.conftest import Client
from tests.support.waiting import until

SERVER = Path(__file__).parent / "eliciting_server.py"
METHODS = ["elicitation/create", "sampling/createMessage"]


class OverHttp:
    """The client's end of a gate over HTTP, with what `Client` has of it."""

    def __init__(self, port: int):
        self._port, self.heard = port, []

    answers, answer, text = Client.answers, Client.answer, Client.text

    def send(self, message, session="mine"):
        threading.Thread(target=self._post, args=(message, session), daemon=True).start()

    def _post(self, message, session):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        named = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        connection.request("POST", "/mcp", json.dumps(message), named | {"Mcp-Session-Id": session})
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                self.heard.append(json.loads(line[6:]))
            elif line.startswith(b"{"):
                self.heard.append(json.loads(line))
        connection.close()


@pytest.fixture(params=["pipes", "http"])
def client(request, speak, command, environment, tmp_path):
    if request.param == "pipes":
        yield speak("mcp-gate", "--name", "asking", "--grace", "0.5", "--", sys.executable, str(SERVER))
        return
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    made = [subprocess.Popen([sys.executable, str(SERVER), "http"], **pipes)]
    address = f"http://127.0.0.1:{made[0].stdout.readline().strip()}/mcp"
    gate = [*command, "mcp-gate", "--name", "asking", "--grace", "0.5", "--http", address]
    made.append(subprocess.Popen(gate, env=environment, **pipes))
    yield OverHttp(int(made[1].stderr.readline().split()[-1].rsplit(":", 1)[1].split("/")[0]))
    for process in reversed(made):
        process.terminate()
        process.communicate(timeout=60)


def asks(client, person, name, method: str) -> tuple[dict, dict]:
    """Make a call, approve it and wait for what its tool asks: (the action, the server's request)."""
    arguments = {"command": "v1", "by": method}
    told = {"name": "ask", "arguments": arguments}
    client.send({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": told})
    action = person.sees(name)
    person.decides(action, "approve")
    return action, until(lambda: next((each for each in client.heard if each.get("method") == method), None))


def accept(client, asked: dict, **more):
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {}}}, **more)


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_reaches_the_tool_while_its_call_may_go_on(client, person, name, ran, method):
    action, asked = asks(client, person, name, method)
    accept(client, asked)
    assert client.text("call") == "noted v1"
    assert ran() == ["v1"]
    until(lambda: person.status(action) == "succeeded")


@pytest.mark.parametrize("method", METHODS)
def test_an_answer_does_not_reach_the_tool_after_an_interrupt(client, person, product, name, ran, method):
    action, asked = asks(client, person, name, method)
    order = f"/api/v1/actions/{action['id']}/"
    body = {"reason": "Wait.", "minutes": 5, "whole_agent": True}
    assert product.post(f"{order}interrupt", person.token, body).status in (200, 201)
    accept(client, asked)
    assert "asks you to stop" in client.text("call")
    assert ran() == []
    until(lambda: person.status(action) == "failed")


def test_an_answer_by_another_session_or_of_a_withdrawn_call_does_not_either(client, person, product, name, ran):
    action, asked = asks(client, person, name, METHODS[0])
    body = {"reason": "Wait.", "minutes": 5, "whole_agent": True}
    assert product.post(f"/api/v1/actions/{action['id']}/interrupt", person.token, body).status in (200, 201)
    if isinstance(client, OverHttp):
        accept(client, asked, session="another")
    else:
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}})
        accept(client, asked)
    assert "asks you to stop" in client.text("call")
    assert ran() == []
