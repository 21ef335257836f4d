"""Ports of a connected folder's box that are forwarded to this machine's loopback: closing one."""

import json

from dashboard.models import Actor
from dashboard.problems import not_found
from workspaces.models import Workspace
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 10  # seconds


def close(workspace: Workspace, port: int, *, by: Actor):
    """Stop forwarding the port until its program stops listening. Problem 404 if it is not forwarded, 503."""
    body = json.dumps({"port": port, "by": by.as_json}).encode()
    found = runner_client.ask("POST", workspace, "ports/close", body=body, timeout=RUNNER_TIMEOUT)
    if not found["closed"]:
        raise not_found("forwarded port")
