"""Hosts that an approval opens to a shell call which its agent runs itself, in a workspace whose network is Handrail's.

The agent is answered with a changed call: the same command behind a pass for the proxy, in the variables of its shell.
The pass ends when the agent's hook reports that the call has ended.
"""

import json
import shlex
from contextlib import suppress

from django.utils.crypto import salted_hmac

from approvals.actions.approved_hosts import hosts_of
from approvals.agents.dialect import WHOLE, Dialect
from approvals.evaluation.judge import content
from approvals.models import Action
from dashboard.problems import Problem
from workspaces.operations import runner_client
from workspaces.services import network

RUNNER_TIMEOUT = 5  # seconds
NOT_OPENED = "The approval opens no host to it: {hosts} can be reached only if the network of the workspace allows it."


def opened(action: Action | None) -> list[str]:
    """Return the hosts, as host:port, that the approval of a call opens beside those of the environment."""
    if action is None or action.tool != "Bash" or action.workspace is None or action.envelope is not None:
        return []
    return hosts_of(action, None) if network.reaches_handrail(action.workspace) else []


def with_pass(action: Action, arguments: dict, dialect: Dialect) -> tuple[dict, str]:
    """Return (the tool input, words for the agent) of an approved call that its agent runs."""
    hosts = opened(action)
    if not hosts:
        return arguments, ""
    if dialect.edits == WHOLE and dialect.reports_what_ran:
        with suppress(Problem):  # the runner is away: then the hosts stay closed
            _ask(action, "passes", {"token": _token(action), "hosts": hosts})
            return arguments | {"command": command_line(action)}, ""
    return arguments, NOT_OPENED.format(hosts=", ".join(hosts))


def command_line(action: Action) -> str:
    """Return the command of a call, behind the pass in the variables by which programs find the proxy."""
    token = _token(action)
    proxies = network.environment_variables(action.workspace, token).items()
    words = [f"{name}={shlex.quote(value)}" for name, value in proxies if token in value]
    return f"export {' '.join(words)}\n{content(action)['arguments']['command']}"


def ended(action: Action):
    """End the pass of a call that has ended."""
    if opened(action):
        with suppress(Problem):
            _ask(action, "passes/ended", {"token": _token(action)})


def _ask(action: Action, path: str, asked: dict):
    body = json.dumps(asked).encode()
    runner_client.ask("POST", action.workspace, path, body=body, timeout=RUNNER_TIMEOUT)


def _token(action: Action) -> str:
    given = f"{action.pk} {action.digest}"
    return salted_hmac("approvals.hooks.opened_hosts.pass", given, algorithm="sha256").hexdigest()
