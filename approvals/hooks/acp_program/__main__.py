"""Speak the Agent Client Protocol (ACP) with an agent, and put what it wants permission for to Handrail.

Standard library only, Python 3.9 and later. A folder or an archive that Python runs:

    python -IS PROGRAM CONNECTION run TURN -- AGENT …   start an agent and prompt it once
    python -IS PROGRAM CONNECTION gate -- AGENT …       stand between an editor and an agent
    python -IS PROGRAM CONNECTION codex -- codex app-server     the same for Codex's own protocol

`run` is the client itself: Handrail starts it in workspaces. TURN is JSON: {prompt, session, cwd, dialect}; an empty
session begins one. It prints a JSON line for each thing that happens, the last one with the answer. `gate` passes
everything on except the agent's requests for permission, to write a file and to start a terminal.

CONNECTION is that of `command_hook.py`, which lies beside this file and asks: it waits through restarts of Handrail,
and any failure of it is a denial. Rejecting carries no words in ACP, so the reason goes into the next prompt.
"""

import json
import os
import signal
import sys
import threading

import command_hook
from codex_gate import CodexGate
from desk import LEAVE, Desk
from gate import Gate
from wire import Agent, messages, show, writer

from client import Client, Ended, Refused

HOOK = ("gate", "report")  # how this program starts itself to ask or to tell
KEPT_BACK = ("HANDRAIL_TOKEN", "HANDRAIL_CONNECTION")  # by a gate: the agent must not speak in its place
FAILED, STOPPED = 1, 130


def run(connection, turn, argv):
    """Prompt the agent once; return the exit status."""
    desk = Desk(connection, turn["dialect"])
    agent = Agent(argv, os.environ)
    client = Client(desk, agent, turn)

    def stop(*_):
        threading.Thread(target=client.stop, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        result = client.work()
    except Refused as error:
        result = {"type": "result", "error": str(error)}
    except Ended as error:  # no result: it can go on in its session
        result = {"type": "ended", "error": str(error)}
    agent.end()
    desk.close()
    show(**result)
    return STOPPED if client.is_stopped else FAILED if "error" in result else 0


def gate(connection, argv, kind=Gate, dialect="acp"):
    """Serve an editor on standard input and output until it or the agent ends; return the agent's exit status."""
    desk = Desk(connection, dialect)
    environment = {name: value for name, value in os.environ.items() if name not in KEPT_BACK}
    agent = Agent(argv, environment)
    between = kind(desk, agent, writer(sys.stdout.buffer))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())

    def pass_on(stream, take):
        try:
            for message in messages(stream):
                take(message)
        finally:
            ended.set()

    reading = threading.Thread(target=pass_on, args=(agent.process.stdout, between.from_agent), daemon=True)
    reading.start()
    threading.Thread(target=pass_on, args=(sys.stdin.buffer, between.from_editor), daemon=True).start()
    ended.wait()
    between.close()
    agent.end()
    reading.join(LEAVE)
    desk.close()
    return max(agent.process.returncode, 0)


def main(arguments):
    connection, use, *rest = arguments
    if use in HOOK and rest == ["acp"]:
        return command_hook.main(arguments)
    at = rest.index("--")
    if use == "run":
        return run(connection, json.loads(rest[0]), rest[at + 1 :])
    if use == "codex":
        return gate(connection, rest[at + 1 :], CodexGate, "codex")
    return gate(connection, rest[at + 1 :])


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except BaseException as error:  # a failure must not look like an answer
        print(f"handrail: {type(error).__name__}: {error}", file=sys.stderr)
        status = FAILED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # its threads wait for ever
