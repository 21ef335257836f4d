"""An MCP server over stdio of 2026-07-28 alone, of the standard library: `ask` asks, then adds a line to `ran`.

It asks as often as the argument `rounds` says, and seals its state where `sealed` is true: then a retry with other
arguments is refused. The file `broken`, if it exists, makes its list of tools fail.
"""

import json
import sys
from pathlib import Path

VERSION = "io.modelcontextprotocol/protocolVersion"
QUESTION = {"method": "elicitation/create", "params": {"mode": "form", "message": "Sure?", "requestedSchema": {}}}


class Refused(Exception):
    pass


def answer(method: str, params: dict) -> dict:
    if VERSION not in params.get("_meta", {}):
        raise Refused("params._meta must carry the protocol's version.")
    if method == "tools/list":
        if Path("broken").exists():
            raise Refused("The list is broken.")
        tool = {"name": "ask", "description": "Asks.", "inputSchema": {"type": "object"}}
        return {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}
    if method != "tools/call":
        return {}
    arguments = params["arguments"]
    done = params.get("inputResponses", {}).get("round", 0)
    sealed = json.dumps(arguments, sort_keys=True) if arguments.get("sealed") else None
    if params.get("requestState") != (sealed if done else None):
        raise Refused("requestState rejected.")
    if done < arguments.get("rounds", 1):
        asked = {"resultType": "input_required", "inputRequests": {"sure": QUESTION}}
        return asked | ({"requestState": sealed} if sealed else {})
    with open("ran", "a") as file:
        file.write(arguments["command"] + "\n")
    return {"content": [{"type": "text", "text": f"noted {arguments['command']}"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    told = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        told["result"] = {"resultType": "complete"} | answer(message["method"], message.get("params", {}))
    except Refused as refused:
        told["error"] = {"code": -32602, "message": str(refused)}
    print(json.dumps(told), flush=True)
