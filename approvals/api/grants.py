"""Grants over HTTP: give on an action, list, revoke."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.actions import gate, grant_scopes, grants, secret_reads
from approvals.api.actions import Digest
from approvals.models import Grant
from approvals.models import Status as ActionStatus
from dashboard.database import clock
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["actions"])


class NewGrant(Strict):
    """A grant to make together with the approval."""

    digest: Digest
    covers: Literal[grant_scopes.NAMES] = Field("exact", description="a scope that GET …/scopes names for this action")
    minutes: Annotated[int, Field(ge=1, le=grants.MAX_MINUTES)] = 30
    uses: Annotated[int, Field(ge=1, le=grants.MAX_USES)] = 20


class GrantOut(Schema):
    id: UUID
    says: str = Field(description="what it covers")
    agent: str
    workspace: str | None
    by: str
    created_at: datetime
    expires_at: datetime
    uses_left: int
    revoked_at: datetime | None


class GrantsOut(Schema):
    grants: list[GrantOut]


def _grant(grant: Grant) -> dict:
    names = {"agent": str(grant.agent), "by": grant.by.get_username()}
    names["workspace"] = grant.workspace.key if grant.workspace else None
    same = ("id", "says", "created_at", "expires_at", "uses_left", "revoked_at")
    return names | {name: getattr(grant, name) for name in same}


@router.post("/actions/{action_id}/grant", response={201: GrantOut} | PROBLEMS)
def give_grant(request, action_id: UUID, body: NewGrant):
    """Approve the revision with this digest, and grant the same call, or edits in its folder, for a while."""
    action = gate.find(action_id, caller=request.auth)
    return Status(201, _grant(grants.approve_and_grant(action, caller=request.auth, **body.dict())))


class ScopeOut(Schema):
    name: str = Field(description="for `covers`")
    label: str = Field(description="what it covers")
    never: str = Field(description="what it does not cover, beside what no grant covers")
    examples: list[int] = Field(description="numbers of asked calls of the last seven days that it would have covered")


class ScopesOut(Schema):
    scopes: list[ScopeOut]


@router.get("/actions/{action_id}/scopes", response={200: ScopesOut} | PROBLEMS)
def list_scopes(request, action_id: UUID):
    """List what a grant given on this action could cover, the narrowest first; none if it is decided."""
    action = gate.find(action_id, caller=request.auth)
    scopes = grant_scopes.of_action(action) if action.status == ActionStatus.PENDING else []
    found = [(scope, grants.examples(action, scope)) for scope in scopes]
    rows = [scope._asdict() | {"examples": [past.number for past in covered]} for scope, covered in found]
    return Status(200, {"scopes": rows})


class SecretFile(Strict):
    path: Annotated[str, Field(max_length=4096)] = Field(description="a secret file, as a path in the workspace")


@router.post("/actions/{action_id}/let-read", response={201: GrantOut} | PROBLEMS)
def let_read(request, action_id: UUID, body: SecretFile):
    """Let this action's command read a secret file that was masked for it, for eight hours, its values redacted.

    Only people give this. It holds for exactly this command in this folder, which then reaches no host. A pending
    action that asks to run without its envelope because of the mask is denied, with words that say so.
    """
    action = gate.find(action_id, caller=request.auth)
    return Status(201, _grant(secret_reads.allow_read(action, caller=request.auth, path=body.path)))


@router.get("/grants", response={200: GrantsOut} | PROBLEMS)
def list_grants(request):
    """List the active grants that the caller may see."""
    found = Grant.objects.visible_to(request.auth).active(clock.now()).order_by("expires_at")
    return Status(200, {"grants": [_grant(g) for g in found.select_related("agent__owner", "workspace", "by")[:500]]})


@router.post("/grants/{grant_id}/revoke", response={200: GrantOut} | PROBLEMS)
def revoke_grant(request, grant_id: UUID):
    """Revoke a grant and cancel the unused approvals that it gave."""
    return Status(200, _grant(grants.revoke(grant_id, caller=request.auth)))
