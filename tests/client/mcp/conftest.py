"""An MCP client that speaks to a gate over its pipes, as lines."""

import json
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.waiting import until

SERVER = Path(__file__).parent / "note_server.py"
# What each request of 2026-07-28 says of itself.
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Client:
    """The client's end of a process that speaks MCP over its standard input and output."""

    def __init__(self, argv: list[str], **more):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(argv, **pipes, **more)
        self.heard: list = []  # messages, in their order
        self.raw: list[bytes] = []
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self.process.stderr.read)]
        for thread in self._threads:
            thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.raw.append(line)
            self.heard.append(json.loads(line))

    def send(self, message):
        """Send a message, or a line as it is."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, message_id, method: str, params: dict | None = None):
        self.send({"jsonrpc": "2.0", "id": message_id, "method": method, "params": params or {}})

    def call(self, message_id, command: str, **more):
        self.ask(message_id, "tools/call", {"name": "note", "arguments": {"command": command}} | more)

    def answers(self, message_id) -> list:
        same = json.dumps(message_id)
        return [
            each
            for each in self.heard
            if isinstance(each, dict) and "method" not in each and json.dumps(each.get("id")) == same
        ]

    def answer(self, message_id) -> dict:
        """The one answer, once it is there."""
        [found] = until(lambda: self.answers(message_id), within=60)
        return found

    def text(self, message_id) -> str:
        return "\n".join(block["text"] for block in self.answer(message_id)["result"]["content"])

    def begin(self):
        self.ask("begin", "initialize", HELLO)
        self.answer("begin")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.ask("begun", "ping")
        self.answer("begun")

    def end(self) -> int:
        """Close the input, and return the exit status."""
        with suppress(OSError):
            self.process.stdin.close()
        status = self.process.wait(60)
        for thread in self._threads:
            thread.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@pytest.fixture
def speak(command, environment, tmp_path):
    """`speak("mcp-gate", …)`: a client of that command, ended after the test."""
    made = []

    def start(*words: str, **more) -> Client:
        made.append(Client([*command, *words], cwd=tmp_path, env=environment | more))
        return made[-1]

    yield start
    for client in made:
        client.end()


@pytest.fixture
def gate(speak):
    """`gate()`: a client of the note server behind a gate, after its greeting."""

    def start(**more) -> Client:
        client = speak("mcp-gate", "--name", "notes", "--grace", "0.5", "--", sys.executable, str(SERVER), **more)
        client.begin()
        return client

    return start


@pytest.fixture
def ran(tmp_path):
    """`ran()`: the lines that the tool has noted."""
    return lambda: (tmp_path / "ran").read_text().splitlines() if (tmp_path / "ran").exists() else []


@pytest.fixture
def sent(tmp_path):
    """`sent()`: the lines that the server was sent, as bytes."""
    return lambda: (tmp_path / "lines").read_bytes().splitlines(keepends=True)
