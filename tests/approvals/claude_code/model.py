"""A model on loopback that says what a test wrote down, in the streaming API that Claude Code speaks.

A script is a list of turns under a word that its conversation begins with; a turn is a list of blocks. Which turn is
next follows from the conversation that each request carries, so a request that is sent again gets the same answer.
"""

import itertools
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_ids = itertools.count(1)


def say(text: str) -> dict:
    return {"type": "text", "text": text}


def call(tool: str, **arguments) -> dict:
    return {"type": "tool_use", "id": f"toolu_test{next(_ids):06d}", "name": tool, "input": arguments}


DONE = [say("Done.")]


class Model:
    """`scripts`: {word: turns}; a turn is a list of blocks or a function that returns one when it is asked for.

    `asked` are the bodies of all requests about a scripted conversation, in order.
    """

    def __init__(self, address="127.0.0.1"):
        self.scripts: dict[str, list[list[dict] | Callable[[], list[dict]]]] = {}
        self.asked: list[dict] = []
        self._said: dict[tuple[str, int], list[dict]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((address, 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://{address}:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def heard(self, word: str) -> list[dict]:
        """What Claude Code told the model about the tool calls of this conversation: the tool_result blocks."""
        bodies = [body for body in self.asked if self._word(body) == word]
        longest = max(bodies, key=lambda body: len(body["messages"]), default={"messages": []})
        blocks = [b for m in longest["messages"] if isinstance(m["content"], list) for b in m["content"]]
        return [block for block in blocks if block["type"] == "tool_result"]

    def transcript(self, word: str) -> str:
        """Everything of the last request of this conversation, as text."""
        bodies = [body for body in self.asked if self._word(body) == word]
        return json.dumps(bodies[-1]["messages"], ensure_ascii=False) if bodies else ""

    def _word(self, body: dict) -> str | None:
        """The script whose word stands in the first message (a title for the session is asked for without tools)."""
        if not body.get("tools"):
            return None
        first = json.dumps(body["messages"][0], ensure_ascii=False)
        return next((word for word in self.scripts if word in first), None)

    def answer(self, body: dict) -> list[dict]:
        word = self._word(body)
        if word is None:
            return [say("Fine.")]
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        with self._lock:
            self.asked.append(body)
        script = self.scripts[word]
        blocks = script[turn] if turn < len(script) else DONE
        with self._lock:
            if (word, turn) in self._said:
                return self._said[word, turn]
        blocks = blocks() if callable(blocks) else blocks
        with self._lock:
            return self._said.setdefault((word, turn), blocks)

    def _handler(model):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.partition("?")[0]
                if path == "/v1/messages/count_tokens":
                    self._json({"input_tokens": 10})
                elif path != "/v1/messages":
                    self._json({"type": "error", "error": {"type": "not_found_error", "message": path}}, 404)
                else:
                    self._messages(body)

            def do_GET(self):
                self._json({"data": [], "has_more": False})

            do_HEAD = do_GET

            def _messages(self, body):
                blocks = model.answer(body)
                stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
                message = {
                    "id": f"msg_test{next(_ids):06d}",
                    "type": "message",
                    "role": "assistant",
                    "model": body["model"],
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": {"input_tokens": 10, "output_tokens": 1},
                }
                if not body.get("stream"):
                    self._json(message | {"content": blocks, "stop_reason": stop})
                    return
                events = [{"type": "message_start", "message": message}]
                for index, block in enumerate(blocks):
                    events += _as_events(index, block)
                delta = {"stop_reason": stop, "stop_sequence": None}
                events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}})
                events.append({"type": "message_stop"})
                self._send("text/event-stream", "".join(_event(event) for event in events).encode())

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


def _event(event: dict) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _as_events(index: int, block: dict) -> list[dict]:
    if block["type"] == "text":
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": index, "content_block": empty},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]
