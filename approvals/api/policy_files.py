"""The policy files of a team's repositories over HTTP: what each says, what it would newly allow, and adopting it."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from ninja import Router, Schema
from pydantic import Field

from approvals.api.policy import PolicyDifferenceOut, difference_out
from approvals.evaluation import policy_files
from approvals.models import PolicyFile
from approvals.reports.policy_changes import difference, scopes
from dashboard.problems import not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["policy"])


class PolicyFileOut(Schema):
    id: UUID
    repository: str = Field(description="its name; environment:NAME for workspaces that are from no repository")
    sha256: str = Field(description="of the content; empty if it can't be read")
    problem: str = Field(description="why everything asks because of it; empty if nothing is wrong")
    adopted: bool = Field(description="true: it may loosen the team's policy; false: it only tightens it")
    adopted_by: str | None
    workspace: str | None = Field(description="where it was first seen")
    seen_at: datetime


class PolicyFilesOut(Schema):
    files: list[PolicyFileOut] = Field(description="newest first")


class WholePolicyFileOut(PolicyFileOut):
    text: str


class Adopt(Strict):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = Field(description="of the content that was looked at")


@router.get("/policies/files", response={200: PolicyFilesOut} | PROBLEMS)
def list_files(request):
    """List the contents of policy files that were seen in workspaces. For people."""
    _must_be_person(request)
    return {"files": [_out(each) for each in policy_files.of_team(request.auth.team_ids[0])[:500]]}


@router.get("/policies/files/{policy_file_id}", response={200: WholePolicyFileOut} | PROBLEMS)
def read_file(request, policy_file_id: UUID):
    """Read one content of a policy file. For people."""
    found = _find(request, policy_file_id)
    return _out(found) | {"text": found.text}


@router.get("/policies/files/{policy_file_id}/diff", response={200: PolicyDifferenceOut} | PROBLEMS)
def compare_file(request, policy_file_id: UUID):
    """Say which classes of calls would newly run once this content is adopted. For people."""
    found = _find(request, policy_file_id)
    return difference_out(difference.of_file(scopes.of_file(found), found))


@router.post("/policies/files/{policy_file_id}/adopt", response={200: PolicyFileOut} | PROBLEMS)
def adopt_file(request, policy_file_id: UUID, body: Adopt):
    """Let this content loosen the team's policy within its floor. 409 if it is no policy, or another content."""
    return _out(policy_files.adopt(_find(request, policy_file_id), body.sha256, caller=request.auth))


@router.post("/policies/files/{policy_file_id}/let-go", response={200: PolicyFileOut} | PROBLEMS)
def let_file_go(request, policy_file_id: UUID):
    """End the adoption: from now on the file only tightens the team's policy."""
    return _out(policy_files.let_go(_find(request, policy_file_id), caller=request.auth))


def _must_be_person(request):
    if not request.auth.is_person:
        raise not_allowed("Only people can read the policy.")


def _find(request, policy_file_id: UUID) -> PolicyFile:
    _must_be_person(request)
    rows = PolicyFile.objects.visible_to(request.auth).select_related("team", "workspace__environment", "adopted_by")
    return lookup.find(rows, policy_file_id, "policy file")


def _out(file: PolicyFile) -> dict:
    same = {name: getattr(file, name) for name in ("id", "repository", "sha256", "problem", "seen_at")}
    by, workspace = file.adopted_by, file.workspace
    more = {"adopted": file.is_adopted, "adopted_by": by.get_username() if by else None}
    return same | more | {"workspace": workspace.key if workspace else None}
