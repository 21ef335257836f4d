"""Network access of a workspace: what it may reach, what it tried to reach, and allowing a host."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.models import Allowance, Contact
from workspaces.services import box_ports, host_ports, network

router = Router(tags=["network"])


class NewAllowance(schemas.Strict):
    host: str = Field(min_length=1, max_length=300, description="example.org, *.example.org")
    port: int | None = Field(None, ge=1, le=65535, description="without it 80 and 443")
    scope: Literal["once", "workspace", "environment"] = "workspace"
    phase: Literal["setup", "agent"] = "agent"


class AllowanceOut(Schema):
    id: str
    host: str
    scope: str
    phase: str
    by: str
    created_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None


class ContactOut(Schema):
    host: str
    port: int
    method: str
    phase: str
    code: str = Field(description="why not, for programs: not_listed, unresolved, …; empty for what was allowed")
    why: str = Field(description="why not; empty for what was allowed")
    count: int
    sent: int
    received: int
    first_at: datetime
    last_at: datetime


class ForwardedOut(Schema):
    port: int
    host_port: int = Field(description="where it is reached on 127.0.0.1 of the runner's host")


class HostPorts(schemas.Strict):
    ports: list[int] = Field(max_length=16, description="of 127.0.0.1 on the runner's host")


class NetworkOut(Schema):
    phase: str
    lists: dict[str, list[str]]
    blocked: list[ContactOut]
    unresolved: list[ContactOut]
    allowed: list[ContactOut]
    allowances: list[AllowanceOut]
    trouble: str = Field(description="why its programs cannot reach the proxy now; empty when they can")
    ports: list[ForwardedOut] = Field(description="ports of a held folder's box that are forwarded to its host")
    host_ports: list[int] = Field(description="ports of its host's loopback that a held folder's box reaches")


def allowance_out(one: Allowance) -> dict:
    names = ("scope", "phase", "created_at", "expires_at", "ended_at")
    return {"id": str(one.pk), "host": one.rule, "by": one.by.get("label", "")} | {n: getattr(one, n) for n in names}


def contact_out(row: Contact) -> dict:
    return {name: getattr(row, name) for name in ContactOut.model_fields}


@router.get("/workspaces/{key}/network", response={200: NetworkOut} | PROBLEMS)
def get_network(request, key: str):
    """Return the allow lists, the counted blocked and allowed attempts, newest first, and the hosts people allowed."""
    found = network.state_of(find(request, key))
    rows = {name: [contact_out(row) for row in found[name]] for name in ("blocked", "unresolved", "allowed")}
    told = {name: found[name] for name in ("phase", "lists", "trouble", "ports", "host_ports")}
    return Status(200, told | rows | {"allowances": [allowance_out(one) for one in found["allowances"]]})


@router.post("/workspaces/{key}/network/allow", response={201: AllowanceOut, 202: schemas.AskedOut} | PROBLEMS)
def allow_host(request, key: str, wish: NewAllowance):
    """Allow a host immediately. For an agent, a person decides first: the response names the action."""
    workspace = find(request, key)
    checked = network.check_request(workspace, wish.model_dump(exclude_none=True))
    if request.auth.is_person:
        must_allow(request.auth, workspace, checked["scope"])
    return Status(201, allowance_out(network.allow(workspace, checked, by=request.auth.actor)))


def must_allow(caller, workspace, scope: str):
    """Problem 403 unless the person's role may allow hosts, or for the scope "environment" manage environments."""
    verb = "manage_environments" if scope == "environment" else "allow_host"
    if not caller.can(verb, workspace.team_id):
        raise not_allowed("You don't have permission to do this.")


@router.delete("/workspaces/{key}/network/ports/{port}", response={200: NetworkOut} | PROBLEMS)
def close_port(request, key: str, port: int):
    """Stop forwarding a port of a held folder's box to its host, until its program stops listening."""
    box_ports.close(find(request, key, "use_workspace"), port, by=request.auth.actor)
    return get_network(request, key)


@router.put("/workspaces/{key}/network/host-ports", response={200: NetworkOut} | PROBLEMS)
def set_host_ports(request, key: str, wish: HostPorts):
    """Let a held folder's box reach exactly these ports of its host's loopback, such as a database's."""
    host_ports.set_ports(find(request, key, "manage_environments"), wish.ports, by=request.auth.actor)
    return get_network(request, key)


@router.delete("/workspaces/{key}/network/allowances/{id}", response={200: AllowanceOut} | PROBLEMS)
def revoke_allowance(request, key: str, id: UUID):
    """Revoke an allowance. Open connections that it allowed end within seconds, except one allowed once."""
    workspace = find(request, key, "allow_host")
    allowance = network.find_allowance(workspace, id)
    network.revoke(allowance, by=request.auth.actor)
    allowance.refresh_from_db()
    return Status(200, allowance_out(allowance))
