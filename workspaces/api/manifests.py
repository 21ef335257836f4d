"""Manifests of resumes, the comparison of any two manifests, and the public key that verifies them."""

from ninja import Router, Schema, Status

from dashboard.keys import log_key
from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS
from dashboard.web.pages import as_uuid
from handrail_verify.signed import ALGORITHM
from workspaces.api.lookup import find, number_of
from workspaces.manifests import compare, keep
from workspaces.models import Manifest

router = Router(tags=["snapshots"])


class KeyOut(Schema):
    algorithm: str
    key: str


class ComparedOut(Schema):
    a: str
    b: str
    differences: dict[str, list]


@router.get("/workspaces/{key}/runs/{run_id}/manifest", response={200: dict} | PROBLEMS)
def of_run(request, key: str, run_id: str):
    """Return the manifest of a resume, signed like that of a snapshot."""
    rows = Manifest.objects.filter(run=as_uuid(run_id), run__isnull=False, run__workspace=find(request, key))
    manifest = rows.first()
    if manifest is None:
        raise not_found("manifest")
    return Status(200, keep.download_of(manifest))


@router.get("/workspaces/{key}/snapshots/{n}/manifest/compare", response={200: ComparedOut} | PROBLEMS)
def compared(request, key: str, n: str, other: str = ""):
    """Compare it with another of the team: KEY/NUMBER (a snapshot) or KEY/run/ID (a resume); by default the newest."""
    workspace = find(request, key)
    first = keep.find(request.auth, f"{key}/{number_of(n) or 0}", team_id=workspace.team_id)
    newest = f"{key}/{workspace.head.number if workspace.head else 0}"
    second = keep.find(request.auth, other or newest, team_id=workspace.team_id)
    told = compare.differences(first.body, second.body)
    return Status(200, {"a": keep.name_of(first), "b": keep.name_of(second), "differences": told})


@router.get("/manifests/key", response={200: KeyOut} | PROBLEMS)
def public_key(request):
    """Return the public key that verifies manifests: `python -m handrail_verify manifest FILE --key KEY`."""
    return Status(200, {"algorithm": ALGORITHM, "key": log_key.public_key()})
