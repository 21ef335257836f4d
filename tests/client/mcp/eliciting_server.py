"""An MCP server of 2025-11-25 of the standard library, over pipes, or over HTTP with the word `http`.

Over HTTP it prints its port first.
`ask` asks its client for what the argument `by` says, and adds a line to `ran` once it got an answer that is no error.
"""

import itertools
import json
import queue
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

numbers = itertools.count(1)
open_requests: dict[int, queue.Queue] = {}


def call(params: dict, send) -> dict:
    """Do the call; `send` sends the server's own request, whose answer comes another way."""
    arguments, number = params["arguments"], next(numbers)
    answers = open_requests[number] = queue.Queue()
    send({"jsonrpc": "2.0", "id": number, "method": arguments["by"], "params": {"message": "Sure?"}})
    told = answers.get(timeout=120)
    if "error" in told:
        return {"content": [{"type": "text", "text": told["error"]["message"]}], "isError": True}
    with open("ran", "a") as file:
        file.write(arguments["command"] + "\n")
    return {"content": [{"type": "text", "text": f"noted {arguments['command']}"}]}


def result(message: dict, send) -> dict:
    match message["method"]:
        case "initialize":
            told = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
            return told | {"serverInfo": {"name": "asking", "version": "1"}}
        case "tools/list":
            return {"tools": [{"name": "ask", "description": "Asks.", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return call(message["params"], send)
    return {}


def take(message: dict, send):
    if "method" not in message:
        open_requests[message["id"]].put(message)
    elif "id" in message:
        send({"jsonrpc": "2.0", "id": message["id"], "result": result(message, send)})


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if "id" in message and "method" in message else 202)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        take(message, lambda told: self.wfile.write(b"data: " + json.dumps(told).encode() + b"\n\n"))

    def log_message(self, *args):
        pass


def write(told: dict):
    print(json.dumps(told), flush=True)


if sys.argv[1:] == ["http"]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    threading.Thread(target=take, args=(json.loads(line), write), daemon=True).start()
