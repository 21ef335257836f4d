"""A harness with an AAIS authority: `ask ID COMMAND` requests, `look SECONDS` presents, `resolution ID` prints it.

Each step is a process of its own, as after a restart. `run ID COMMAND` does all of it in one, and runs the command.
"""

import json
import subprocess
import sys
import time

from aais.liveness import OwnerIdentity
from aais.store import ApprovalAuthority

from handrail_client import Handrail
from handrail_client.aais import HandrailBackend, Presenter

CHOICES = [
    {
        "decision": "approve",
        "scope": "session",
        "label": "Allow",
        "scope_constraints": {"action_name": "shell.exec"},
    },
    {"decision": "approve", "scope": "once", "label": "Allow once"},
    {"decision": "deny", "scope": "once", "label": "Deny"},
]
ELSEWHERE = OwnerIdentity(4_000_000, 1.0, "host-elsewhere")  # the step that asks has ended when it is approved


def main(step: str, *words: str):
    desk = Handrail()
    authority = ApprovalAuthority(HandrailBackend(desk, "harness"), stream="harness.approvals")
    presenter = Presenter(authority, desk, tools={"shell.exec": "Bash"}, pause=0.2)

    def ask(request_id: str, command: str, choices=CHOICES, ttl: float = 600, owner=ELSEWHERE):
        action = {"kind": "tool.call", "name": "shell.exec", "summary": "As asked", "arguments": {"command": command}}
        origin = {"harness": "tests", "session_id": "s-1"}
        about = {"risk": {"level": "medium", "reasons": ["runs a program"]}, "choices": choices, "ttl": ttl}
        authority.add_request(action=action, origin=origin, request_id=request_id, owner=owner, **about)

    match step:
        case "ask":
            ask(*words)
        case "ask-for-session":
            ask(*words, choices=[CHOICES[0], CHOICES[2]])
        case "ask-briefly":
            ask(*words, ttl=1.5)
        case "look":
            presenter.look()
            if words:
                time.sleep(float(words[0]))
                presenter.look()
        case "look-as-before":  # as a release looked that named no call
            ask_desk = desk.ask
            desk.ask = lambda *call, call_id, **about: ask_desk(*call, **about)
            presenter.look()
        case "cancel":
            presenter.look()
            authority.cancel(words[0])
            presenter.look()
        case "resolution":
            found = authority.get_resolution(words[0])
            decided = authority.get_decision(words[0])
            told = {"outcome": found["resolution"]["outcome"], "actor": decided["decision"]["actor"]} if found else {}
            print(json.dumps(told | {"reason": presenter.reason(words[0])}))
        case "run":
            request_id, command = words
            with presenter:
                ask(request_id, command, owner=None)
                found = authority.wait_for_resolution(request_id, timeout=60)
            if found["resolution"]["outcome"] == "approved":
                done = subprocess.run(["bash", "-c", command])
                presenter.report(request_id, done.returncode == 0)


main(*sys.argv[1:])
