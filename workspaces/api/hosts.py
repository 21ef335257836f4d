"""The hosts that share the database, for admins; and a workspace's move to another one."""

from datetime import datetime
from typing import Literal

from ninja import Field, Router, Schema, Status

from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find, team_for, workspace_out
from workspaces.services import hosts
from workspaces.services.hosts import moving, returned

router = Router(tags=["hosts"])


class Promised(Schema):
    runs: int
    memory_bytes: int
    cpus: float


class HostOut(Schema):
    name: str
    state: Literal["ready", "draining", "unreachable", "lost"]
    since: datetime | None = Field(description="since when it is in this state; null while it is ready")
    address: str = Field(description="host:port at which the webs of other hosts reach its runner")
    version: str
    parts: list[str]
    heard: dict[str, datetime | None] = Field(description="when each part was last heard of, where PostgreSQL is used")
    drivers: dict[str, dict] = Field(description="{driver: {available, isolation, reason}}")
    room: dict = Field(description="what it may promise: runs, memory_bytes, cpus; 0 for no limit")
    promised: Promised
    workspaces: int
    snapshots_of: list[str] = Field(description="teams whose snapshots are on this host alone; none with a bucket")


class Hosts(Schema):
    hosts: list[HostOut]


class Stays(Schema):
    key: str
    team: str
    words: str = Field(description="where it goes and when, or why it stays")


class Drained(HostOut):
    told: list[Stays] = Field(description="what becomes of each workspace there")


class NewPlace(schemas.Strict):
    host: str | None = Field(None, max_length=120)
    environment: str | None = Field(None, max_length=80)


class Returned(schemas.Strict):
    key: schemas.Key | None = Field(None, description="of the fork with what came back; without one it is dropped")


@router.get("/hosts", response={200: Hosts} | PROBLEMS)
def list_hosts(request):
    """Return the hosts that share the database, with what each may promise and has promised. For an admin."""
    team_for(request, "read_hosts")
    return Status(200, {"hosts": hosts.shown()})


@router.post("/hosts/{host}/drain", response={200: Drained} | PROBLEMS)
def drain_host(request, host: str, now: bool = False):
    """Give a host no new workspaces, and move those that are there once they are idle; with `now` at once.

    For a superuser.
    """
    _superuser(request)
    told = hosts.drain(hosts.find(host), by=request.auth.actor, now=now)
    said = [{"key": each.key, "team": each.team.slug, "words": words} for each, words in told]
    return Status(200, _shown(host) | {"told": said})


@router.post("/hosts/{host}/undrain", response={200: HostOut} | PROBLEMS)
def undrain_host(request, host: str):
    """Give a host new workspaces again. For a superuser."""
    _superuser(request)
    hosts.undrain(hosts.find(host), by=request.auth.actor)
    return Status(200, _shown(host))


@router.post("/hosts/{host}/lost", response={200: HostOut} | PROBLEMS)
def lose_host(request, host: str):
    """Say that a silent host is lost: its workspaces come back on others from their newest snapshots.

    For a superuser.
    """
    _superuser(request)
    hosts.declare_lost(hosts.find(host), by=request.auth.actor)
    return Status(200, _shown(host))


@router.post("/workspaces/{key}/move", response={202: schemas.WorkspaceOut} | PROBLEMS)
def move(request, key: str, wish: NewPlace):
    """Move a workspace to another host, or under another environment, whose driver may be another one.

    Its programs end; it is resumed there if it was up. Its place changes once every byte was compared there.
    """
    workspace = find(request, key, "move_workspace")
    if not request.auth.is_person:
        raise not_allowed("A person moves workspaces.")
    environment = moving.environment_named(workspace, wish.environment, request.auth) if wish.environment else None
    moving.move(workspace, hosts.find(wish.host) if wish.host else None, environment, by=request.auth.actor)
    return Status(202, workspace_out(workspace))


@router.post("/workspaces/{key}/returned", response={202: schemas.WorkspaceOut} | PROBLEMS)
def answer_return(request, key: str, wish: Returned):
    """Keep the files that a lost host came back with as a fork with this key, or leave them behind."""
    workspace = find(request, key, "move_workspace")
    returned.answer(workspace, wish.key or "", by=request.auth.actor)
    return Status(202, workspace_out(workspace))


def _superuser(request):
    if not hosts.may_manage(request.auth):
        raise not_allowed("Only a superuser says so of a host: it has workspaces of all teams.")


def _shown(host: str) -> dict:
    return next(each for each in hosts.shown() if each["name"] == host)
