"""An MCP server over stdio, of the standard library: `note` adds a line to the file `ran`.

A call that asks for progress is told 0 and 1. The file `lines` has what it was sent. The file `description`, if it
exists, is the description of its tool; after `notifications/change` it announces that its tools have changed.
"""

import json
import os
import sys
from pathlib import Path


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def described() -> dict:
    described = Path("description")
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    text = described.read_text() if described.exists() else "Adds a line."
    return {"name": "note", "description": text, "inputSchema": schema}


def answer(method: str, params: dict):
    match method:
        case "initialize":
            told = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}}
            return told | {"serverInfo": {"name": "notes", "version": "1"}}
        case "tools/list":
            return {"tools": [described()]}
        case "tools/call" if params["name"] == "exit":
            raise SystemExit(3)
        case "tools/call":
            command = params["arguments"].get("command", "")
            with open("ran", "a") as file:
                file.write(command[:60] + "\n")
            return {"content": [{"type": "text", "text": f"noted {command[:60]}"}], "isError": command == "bad"}
    return {"env": sorted(name for name in os.environ if name.startswith("HANDRAIL_"))}


for line in sys.stdin:
    with open("lines", "a") as log:
        log.write(line)
    message = json.loads(line)
    if isinstance(message, list):
        write([{"jsonrpc": "2.0", "id": each["id"], "result": answer(each["method"], {})} for each in message])
    elif message.get("method") == "notifications/change":
        write({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif "id" in message and "method" in message:
        if token := message.get("params", {}).get("_meta", {}).get("progressToken"):
            for done in (0, 1):
                told = {"progressToken": token, "progress": done}
                write({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
        write({"jsonrpc": "2.0", "id": message["id"], "result": answer(message["method"], message.get("params", {}))})
