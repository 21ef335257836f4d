"""A scripted model on loopback that speaks the APIs of agents' providers.

A script is a list of turns under a word that its conversation begins with; a turn is a list of blocks. Which turn is
next follows from the conversation that each request carries, so a request that is sent again gets the same answer.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from approvals.agents import wires
from approvals.agents.scripted import SHELL, call, run, say, with_shell
from approvals.agents.wires import Wire

__all__ = ["DONE", "Model", "call", "run", "say"]


DONE = [say("Done.")]


class Model:
    """`scripts`: {word: turns}; a turn is a list of blocks or a function that returns one when it is asked for.

    `asked` are the bodies of all requests about a scripted conversation, in order; `keys` are those they came with.
    """

    def __init__(self, address="127.0.0.1"):
        self.scripts: dict[str, list[list[dict] | Callable[[], list[dict]]]] = {}
        self.asked: list[dict] = []
        self.keys: set[str] = set()  # with which requests were authorized
        self._about: dict[str, tuple[Wire, list[dict]]] = {}  # of each word
        self._said: dict[tuple[str, int], list[dict]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((address, 0), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://{address}:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def results_of(self, word: str) -> list:
        """Return the results of this conversation's tool calls, as the agent reported them to the model."""
        if word not in self._about:
            return []
        wire, bodies = self._about[word]
        return wire.results(max(bodies, key=lambda body: len(wire.messages(body))))

    def transcript(self, word: str) -> str:
        """Return everything of the last request of this conversation, as text."""
        if word not in self._about:
            return ""
        wire, bodies = self._about[word]
        return json.dumps(wire.messages(bodies[-1]), ensure_ascii=False)

    def _word(self, wire: Wire, body: dict) -> str | None:
        """Return the script whose word the conversation begins with (a session's title is asked for without tools)."""
        if not wire.tools(body):
            return None
        opening = wire.opening(body)
        return next((word for word in self.scripts if word in opening), None)

    def answer(self, wire: Wire, body: dict) -> list[dict]:
        """Return the blocks of the next turn."""
        word = self._word(wire, body)
        if word is None:
            return [say("Fine.")]
        turn = wire.turns(body)
        with self._lock:
            self.asked.append(body)
            self._about.setdefault(word, (wire, []))[1].append(body)
        script = self.scripts[word]
        blocks = script[turn] if turn < len(script) else DONE
        with self._lock:
            if (word, turn) in self._said:
                return self._said[word, turn]
        blocks = blocks() if callable(blocks) else blocks
        blocks = [with_shell(block, wire.tools(body)) if block["type"] == SHELL else block for block in blocks]
        with self._lock:
            return self._said.setdefault((word, turn), blocks)


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent = self.headers.get("X-Api-Key") or self.headers.get("Authorization", "").removeprefix("Bearer ")
            model.keys.add(sent)
            path = self.path.partition("?")[0]
            wire = next((each for each in wires.ALL if each.reads(path)), None)
            if wire:
                self._send(*wire.answer(path, body, model.answer(wire, body)))
            elif path == "/v1/messages/count_tokens":
                self._json({"input_tokens": 10})
            elif path.endswith(":countTokens"):
                self._json({"totalTokens": 10})
            else:
                self._json({"type": "error", "error": {"type": "not_found_error", "message": path}}, 404)

        def do_GET(self):
            self._json({"data": [], "has_more": False})

        do_HEAD = do_GET

        def _json(self, value, status=200):
            self._send("application/json", json.dumps(value).encode(), status)

        def _send(self, kind, data, status=200):
            try:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)
            except OSError:
                pass  # whoever asked is gone

        def log_message(self, *_):
            pass

    return Handler
