"""Ports of this machine that the box of a connected folder may reach, as people name them."""

from django.conf import settings

from dashboard.models import Actor, Team
from dashboard.problems import conflict, invalid
from workspaces import lifecycle
from workspaces.egress.listeners import HANDRAIL_PORT, PROXY_PORT
from workspaces.models import Workspace
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 10  # seconds
MOST = 16
OURS = "Port {} is Handrail's, so a box cannot reach it."


def set_ports(workspace: Workspace, wanted: list[int], *, by: Actor):
    """Let the folder's box reach exactly these ports of 127.0.0.1. Problem 409, 422.

    Connections to a port that is taken back end at once if the runner is up, else when it is.
    """
    if not workspace.environment.capabilities.own_folder:
        raise conflict("Only the box of a connected folder can reach ports of this machine.")
    ports = sorted(set(wanted))
    if len(ports) > MOST:
        raise invalid(f"A box reaches at most {MOST} ports of this machine.")
    for port in ports:
        if not 1 <= port <= 65535:
            raise invalid("A port is a number from 1 to 65535.")
        if port in (settings.HANDRAIL_PORT, PROXY_PORT, HANDRAIL_PORT):
            raise invalid(OURS.format(port))
    with Team.objects.turn(workspace.team_id):
        before = Workspace.objects.locked().get(pk=workspace.pk).host_ports
        Workspace.objects.filter(pk=workspace.pk).update(host_ports=ports)
        for port in set(ports) - set(before):
            lifecycle.record(workspace, by, "network.host_port_opened", {"port": port, "reason": str(port)})
        for port in set(before) - set(ports):
            lifecycle.record(workspace, by, "network.host_port_closed", {"port": port, "reason": str(port)})
    workspace.host_ports = ports
    if workspace.held:
        runner_client.ask("POST", workspace, "ports/host", timeout=RUNNER_TIMEOUT)
