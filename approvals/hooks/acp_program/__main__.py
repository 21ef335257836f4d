"""The ACP client and gates of Handrail: a folder or an archive that Python runs.

    python -IS PROGRAM CONNECTION run TURN -- AGENT …         prompt an agent once, as its client
    python -IS PROGRAM CONNECTION gate -- AGENT …             stand between an editor and an ACP agent
    python -IS PROGRAM CONNECTION codex -- codex app-server   stand between an editor and Codex

Standard library only, Python 3.9 and later.

`run`: TURN is a JSON object {prompt, instructions?, session, cwd, dialect}; without a session a new one begins. Prints
a JSON line for each event, and the answer or the error in the last one.

CONNECTION is that of `command_hook.py`, which is in the same folder. It asks Handrail, waits through restarts of it,
and denies the call on any failure.
"""

import json
import os
import signal
import sys
import threading

import command_hook
from codex_gate import CodexGate
from desk import CLOSE_TIMEOUT, Desk
from gate import Gate
from wire import Agent, line_writer, messages, print_event

from client import AgentEnded, AgentError, Client

HOOK_ROLES = ("gate", "report")  # this program starts itself as `CONNECTION gate acp` or `CONNECTION report acp`
# A gate does not pass these on, so that the agent cannot act with its token.
PRIVATE_VARIABLES = ("HANDRAIL_TOKEN", "HANDRAIL_CONNECTION")
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
        last = client.run_turn()
    except AgentError as error:
        last = {"type": "result", "error": str(error)}
    except AgentEnded as error:  # without a result, so that Handrail starts the agent again in the same session
        last = {"type": "ended", "error": str(error)}
    agent.end()
    desk.close()
    print_event(**last)
    return STOPPED if client.is_stopped else FAILED if "error" in last else 0


def serve_editor(connection, argv, gate_class, dialect):
    """Serve an editor on standard input and output until it or the agent ends; return the agent's exit status."""
    desk = Desk(connection, dialect)
    environment = {name: value for name, value in os.environ.items() if name not in PRIVATE_VARIABLES}
    agent = Agent(argv, environment)
    gate = gate_class(desk, agent, line_writer(sys.stdout.buffer))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())

    def forward(stream, take):
        try:
            for message in messages(stream):
                take(message)
        finally:
            ended.set()

    from_agent = threading.Thread(target=forward, args=(agent.process.stdout, gate.from_agent), daemon=True)
    from_agent.start()
    threading.Thread(target=forward, args=(sys.stdin.buffer, gate.from_editor), daemon=True).start()
    ended.wait()
    gate.close()
    agent.end()
    from_agent.join(CLOSE_TIMEOUT)
    desk.close()
    return max(agent.process.returncode, 0)


def main(arguments):
    connection, mode, *rest = arguments
    if mode in HOOK_ROLES and rest == ["acp"]:
        return command_hook.main(arguments)
    split = rest.index("--")
    argv = rest[split + 1 :]
    if mode == "run":
        return run(connection, json.loads(rest[0]), argv)
    if mode == "codex":
        return serve_editor(connection, argv, CodexGate, "codex")
    return serve_editor(connection, argv, Gate, "acp")


if __name__ == "__main__":
    try:
        status = main(sys.argv[1:])
    except BaseException as error:  # any failure is a non-zero exit status, which denies a call
        print(f"handrail: {type(error).__name__}: {error}", file=sys.stderr)
        status = FAILED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the reading threads never end by themselves
