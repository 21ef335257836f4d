"""An agent that speaks ACP and does what its prompt says: a JSON list of steps, each {method, params} to the client.

It prints each answer as a piece of its message, so that a test can read what reached it.
"""

import json
import os
import sys

SESSION = "session-1"
numbers = iter(range(100, 10_000))


def send(**message):
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)


def say(text: str):
    piece = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send(method="session/update", params={"sessionId": SESSION, "update": piece})


def answered(number: int) -> dict:
    """The answer to a request of ours; a cancelled turn ends it too."""
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message
    sys.exit()


def work(steps: list) -> str:
    for step in steps:
        if "line" in step:
            print(step["line"], flush=True)
        elif "update" in step:
            send(method="session/update", params={"sessionId": SESSION, "update": step["update"]})
        elif "environment" in step:
            say(json.dumps({name: os.environ.get(name) for name in step["environment"]}))
        elif "die" in step:
            os._exit(3)
        else:
            number = next(numbers)
            send(id=number, method=step["method"], params={"sessionId": SESSION} | step["params"])
            told = answered(number)
            say(json.dumps(told.get("result", told.get("error"))))
            if told.get("result") == {"outcome": {"outcome": "cancelled"}}:
                return "cancelled"
    return "end_turn"


for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
            send(id=asked["id"], result={"protocolVersion": 1, "agentCapabilities": can, "authMethods": []})
        case "session/new":
            send(id=asked["id"], result={"sessionId": SESSION})
        case "session/resume" if asked["params"]["sessionId"] != SESSION:
            send(id=asked["id"], error={"code": -32602, "message": "Session not found"})
        case "session/resume" | "session/load":
            send(id=asked["id"], result={})
        case "session/prompt":
            texts = [part["text"] for part in asked["params"]["prompt"]]
            try:
                steps = json.loads(texts[0])
            except ValueError:
                steps = []
                say(f"You said: {texts[0]}")
            for text in texts[1:]:
                say(f"Beside it: {text}")
            send(id=asked["id"], result={"stopReason": work(steps)})
