"""An MCP server on its standard input and output: it pays, asks for a refund's amount, and runs SQL on a file.

Run as `python shop_server.py FOLDER`; it appends one line of JSON to FOLDER/shop.log for each thing that it did.
"""

import json
import sqlite3
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
NUMBER, TEXT = {"type": "number"}, {"type": "string"}
FIELDS = {"pay": {"amount": NUMBER, "account": {"type": "integer"}}, "refund": {}, "query": {"sql": TEXT}}
TOOLS = [
    {"name": name, "description": name.title(), "inputSchema": {"type": "object", "properties": fields}}
    for name, fields in FIELDS.items()
]
SCHEMA = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
ASK = {"mode": "form", "message": "How much of order 7 is refunded?", "requestedSchema": SCHEMA}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def did(*words):
    with (FOLDER / "shop.log").open("a") as log:
        log.write(json.dumps(words) + "\n")


def answer(request, text):
    send(id=request, result={"content": [{"type": "text", "text": text}]})


def query(sql: str) -> str:
    with sqlite3.connect(FOLDER / "shop.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER)")
        return json.dumps(database.execute(sql).fetchall())


def called(message) -> bool:
    """Carry out a call; return whether it waits for the client's answer."""
    tool, arguments = message["params"]["name"], message["params"].get("arguments") or {}
    match tool:
        case "refund":
            send(id="ask-1", method="elicitation/create", params=ASK)
            return True
        case "query":
            found = query(arguments["sql"])
            did("query", arguments["sql"])
            answer(message["id"], found)
        case "pay":
            did("pay", arguments)
            answer(message["id"], "Paid.")
    return False


def main():
    waiting = None
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                found = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}}
                send(id=message["id"], result=found | {"serverInfo": {"name": "shop", "version": "1"}})
            case "tools/list":
                send(id=message["id"], result={"tools": TOOLS})
            case "tools/call":
                waiting = message["id"] if called(message) else waiting
            case None if message.get("id") == "ask-1":
                did("refund", message.get("result") or {"action": "none"})
                answer(waiting, "It was answered.")
            case _ if "id" in message and "method" in message:
                send(id=message["id"], error={"code": -32601, "message": "Unknown method"})


if __name__ == "__main__":
    main()
