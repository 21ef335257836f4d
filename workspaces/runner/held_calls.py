"""Tickets for calls of an agent that run in the box of its connected folder."""

import os
import secrets
from datetime import datetime
from pathlib import Path

from django.utils.crypto import salted_hmac

from dashboard.problems import conflict
from workspaces.drivers.base import DriverError
from workspaces.drivers.box import CODE_HOST, with_repository
from workspaces.drivers.folder.driver import home_of
from workspaces.drivers.init_client import InitClient, refusals
from workspaces.envelope.envelope import NETWORK_WORDS
from workspaces.runner import quarantine, redacted_files, snapshots
from workspaces.runner.code_host import door
from workspaces.runner.refused_to_program import as_blocked, refused_hosts
from workspaces.services import network

TICKET_SECONDS = 60
OPENED_SECONDS = 8 * 3600  # as long as a call in the medium envelope, if its end is never reported
NOT_HELD = "The box of this folder is not up, so calls cannot be held in it."


async def give_ticket(daemon, workspace, *, command: str, cwd: str, envelope: dict, reads: list[dict]) -> str:
    """Tell the box's init of a call that may run once; return its ticket. Problem 409, DriverError.

    `reads` are the plans of its reads at the code host (`code_host/reads.py`).
    """
    run = await daemon.thread(snapshots.open_run, workspace)
    owner = await daemon.owner_of(daemon.driver(workspace.environment.driver), run.pk) if run else None
    if owner is None or not workspace.held:
        raise conflict(NOT_HELD)
    await quarantine.collect_created(daemon, workspace, owner)  # of a call whose end no hook reported
    envelope, values = await redacted_files.prepare(daemon, workspace, envelope, owner.tree)
    asked = door.for_programs(await daemon.doors.ticket(workspace, reads)) if reads else None
    ticket = secrets.token_urlsafe(24)
    token = _opened(daemon, owner, ticket, envelope)
    variables = network.environment_variables(workspace, token) if "hosts" in envelope["network"] else {}
    more = {"variables": variables}
    if envelope.get("redacted"):
        more["redaction"] = {"command": redacted_files.redactor(), "hidden": values}
    try:
        return await daemon.thread(_ticket_text, owner, ticket, command, cwd, envelope, asked, more)
    except BaseException:
        daemon.network.passes(owner.run_id).end(token)
        raise


def _opened(daemon, owner, ticket: str, envelope: dict) -> str:
    """Let the command of a ticket reach the hosts that a rule opened to it; return its pass, "" for none.

    It is valid until the command's end is reported, but no longer than the command may run.
    """
    hosts = [entry for entry in envelope["network"] if entry not in NETWORK_WORDS]
    if not hosts:
        return ""
    token, passes = _pass_of(ticket), daemon.network.passes(owner.run_id)
    passes.add(token, hosts, seconds=envelope["seconds"] + TICKET_SECONDS if envelope.get("seconds") else None)
    return token


async def open_hosts(daemon, workspace, *, token: str, hosts: list[str]):
    """Let a command that an agent runs in the workspace reach these hosts, with this pass. Problem 409."""
    daemon.network.passes(await _run_of(daemon, workspace)).add(token, hosts, seconds=OPENED_SECONDS)


async def close_hosts(daemon, workspace, *, token: str):
    daemon.network.passes(await _run_of(daemon, workspace)).end(token)


async def _run_of(daemon, workspace) -> str:
    run = await daemon.thread(snapshots.open_run, workspace)
    if run is None or not network.has_managed_network(workspace):
        raise conflict("Its network is not up.")
    return str(run.pk)


def _pass_of(ticket: str) -> str:
    return salted_hmac("workspaces.runner.held_calls.pass", ticket, algorithm="sha256").hexdigest()


async def ended(daemon, workspace, *, ticket: str, since: str) -> dict:
    """Return {blocked, ports} of the command of a ticket, allowed `since` (ISO 8601), which has ended.

    `blocked` is what was refused to it: [{kind, what}]. Hosts are those that the proxy refused since then, perhaps to
    another program of the box. `ports` are those of the box that another port of this host leads to, each told only
    once: [{port, host_port}]. Problem 409, DriverError.
    """
    run = await daemon.thread(snapshots.open_run, workspace)
    owner = await daemon.owner_of(daemon.driver(workspace.environment.driver), run.pk) if run else None
    path, _, ticket = ticket.rpartition(":")
    if owner is None or str(owner.address.socket) != path:
        raise conflict(NOT_HELD)
    daemon.network.passes(run.pk).end(_pass_of(ticket))
    await daemon.network.flush(workspace.pk)
    hosts = await daemon.thread(refused_hosts, workspace, datetime.fromisoformat(since))
    ports = daemon.network.box_ports(run.pk)
    moved = await ports.moved() if ports else []
    made = await quarantine.collect_created(daemon, workspace, owner)
    blocked = [*await daemon.thread(_refused, owner, ticket), *made, *as_blocked(hosts)]
    return {"blocked": blocked, "ports": moved}


def _refused(owner, ticket: str) -> list[dict]:
    with InitClient(owner.address.socket) as init:
        return refusals(init.request("refused", ticket=ticket).get("blocked"))


def _ticket_text(owner, ticket: str, command: str, cwd: str, envelope: dict, reads: dict | None, more: dict) -> str:
    envelope = dict(with_repository(envelope, Path(owner.tree)))
    ring = {"envelope": envelope, "workspace": owner.tree, "home": str(home_of(owner.uid)), "shares_signals": True}
    ring |= more
    if reads is not None:
        envelope["read"] = [*envelope["read"], CODE_HOST]
        ring["reads"] = reads
    where = os.path.realpath(cwd)
    if not os.path.isdir(where):
        raise DriverError(f"There is no folder {cwd}.")
    with InitClient(owner.address.socket) as init:
        init.request("ticket", ticket=ticket, command=command, cwd=where, ring=ring, seconds=TICKET_SECONDS)
    return f"{owner.address.socket}:{ticket}"
