"""Bind an agent to a workspace, so that it may work there, and unbind it."""

from typing import Annotated

from ninja import Router, Status
from pydantic import Field, StringConstraints

from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find, workspace_out
from workspaces.services import agent_bindings

router = Router(tags=["agents"])


class Binding(schemas.Strict):
    agent: Annotated[str, StringConstraints(min_length=1, max_length=80)] = Field(description="its name in the team")


@router.post("/workspaces/{key}/agents", response={200: schemas.WorkspaceOut, 201: schemas.WorkspaceOut} | PROBLEMS)
def bind_agent(request, key: str, body: Binding):
    """Let an agent work in the workspace, beside those that may already; 200 if it could before. For a lead or admin.

    `PATCH …/{key} {agents}` replaces all that are bound.
    """
    workspace = find(request, key, "manage_agents")
    added = agent_bindings.add(workspace, body.agent, by=request.auth.actor)
    return Status(201 if added else 200, workspace_out(workspace))


@router.delete("/workspaces/{key}/agents/{agent}", response={200: schemas.WorkspaceOut} | PROBLEMS)
def unbind_agent(request, key: str, agent: str):
    """Unbind an agent: the workspace is not found for it from now on. 409 codes: not_bound, created_it."""
    workspace = find(request, key, "manage_agents")
    agent_bindings.remove(workspace, agent, by=request.auth.actor)
    return Status(200, workspace_out(workspace))
