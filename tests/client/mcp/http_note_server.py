"""An MCP server over streamable HTTP, of the standard library: `note` adds a line to the file `ran`.

The first line that it prints is its port. A path that ends in `stream` answers calls as events, one
that ends in `strict` refuses headers that say something else than the body. The file `bodies` has
what it was sent.
"""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("bodies", "ab") as log:
            log.write(body + b"\n")
        message = json.loads(body)
        if "id" not in message:
            self.answer(202, b"", "text/plain")
            return
        if self.path.endswith("strict") and (wrong := self.wrong(message)):
            told = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32020, "message": wrong}}
            self.answer(400, json.dumps(told).encode(), "application/json")
            return
        told = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": self.result(message)}).encode()
        if self.path.endswith("stream"):
            note = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
            self.answer(200, note + b"event: message\ndata: " + told + b"\n\n", "text/event-stream")
        else:
            self.answer(200, told, "application/json")

    def do_GET(self):
        self.answer(405, b"no", "text/plain")

    def do_DELETE(self):
        self.send_response(302)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def wrong(self, message: dict) -> str:
        """What a server of 2026-07-28 refuses: headers that say something else than the body."""
        params = message["params"]
        command = params.get("arguments", {}).get("command")
        meant = {"Mcp-Method": message["method"], "Mcp-Name": params.get("name"), "Mcp-Param-Command": command}
        meant["MCP-Protocol-Version"] = params["_meta"]["io.modelcontextprotocol/protocolVersion"]
        wrong = [name for name, value in meant.items() if self.said(name) != value]
        return ", ".join([*wrong, *(["refused"] if command == "refuse" else [])])

    def said(self, name: str) -> str | None:
        """What a header says: as it stands, or in base64."""
        value = self.headers.get(name) or ""
        if value.startswith("=?base64?") and value.endswith("?="):
            return base64.b64decode(value[9:-2]).decode()
        return value or None

    def result(self, message: dict):
        if message["method"] == "tools/list":
            schema = {"type": "object", "properties": {"command": {"type": "string", "x-mcp-header": "Command"}}}
            return {"tools": [{"name": "note", "description": "Adds a line.", "inputSchema": schema}]}
        if message["method"] == "tools/call":
            command = message["params"]["arguments"]["command"]
            with open("ran", "a") as file:
                file.write(command + "\n")
            return {"content": [{"type": "text", "text": f"noted {command}"}]}
        return {"session": self.headers.get("Mcp-Session-Id"), "token": self.headers.get("Authorization")}

    def answer(self, status: int, body: bytes, kind: str):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", "of-the-server")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
