"""An MCP server on its standard input and output with one tool, `refund`, which asks the person how much.

Run as `python eliciting_server.py`; its only dependency is Python.
"""

import json
import sys

SCHEMA = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "title": "Amount in cents", "minimum": 1, "maximum": 5000},
        "reason": {"type": "string", "enum": ["broken", "late"], "enumNames": ["It broke", "It came late"]},
        "mail": {"type": "boolean", "description": "Tell the customer by mail"},
        "note": {"type": "string", "maxLength": 40},
    },
    "required": ["cents", "reason"],
}
TOOL = {"name": "refund", "description": "Refund an order.", "inputSchema": {"type": "object", "properties": {}}}
ASK = {"mode": "form", "message": "How much of order 7 is refunded?", "requestedSchema": SCHEMA}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main():
    waiting = None
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                found = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                send(id=message["id"], result=found | {"serverInfo": {"name": "shop", "version": "1"}})
            case "tools/list":
                send(id=message["id"], result={"tools": [TOOL]})
            case "tools/call":
                waiting = message["id"]
                send(id="ask-1", method="elicitation/create", params=ASK)
            case None if message.get("id") == "ask-1":
                said = json.dumps(message.get("result", message.get("error")), sort_keys=True)
                send(id=waiting, result={"content": [{"type": "text", "text": f"It was answered: {said}"}]})
            case _ if "id" in message and "method" in message:
                send(id=message["id"], result={})


if __name__ == "__main__":
    main()
