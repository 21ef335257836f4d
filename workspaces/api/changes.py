"""Changes of a workspace, and their export."""

from django.http import HttpResponse
from ninja import Query, Router, Status

from dashboard.web.api_base import PROBLEMS
from dashboard.web.pages import download
from workspaces import operations
from workspaces.api import schemas
from workspaces.api.lookup import CONTROLLED, ended_well, find
from workspaces.changes import downloads, history
from workspaces.changes.comparisons import Comparison, compare, find_point, lines_of
from workspaces.changes.forks import compare_forks
from workspaces.services import git_export, pull_requests

router = Router(tags=["changes"])


@router.get(
    "/workspaces/{key}/diff", response={200: schemas.ChangesOut} | PROBLEMS, tags=["changes"], exclude_unset=True
)
def diff(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live"), ignored: bool = False):
    """Return the changes between two points as JSON, or as a unified diff with Accept: text/x-diff.

    A point is a snapshot's number or "live", for another workspace of the team with its key before that: "fork:12".
    `ignored` says of each change whether git ignores it or a tool builds it. A diff has such files with ignored=true.
    `additions` and `deletions` are null where lines were not counted: the file is `too_large`, or time ran out. `total`
    is of the files outside `.git`, without ignored ones unless ignored=true; with `are_all` false it is a lower bound.
    `implied` is true of a folder that came or went with what is in it, which has changes of its own.
    """
    comparison = _compared(request, key, from_, to)
    if "text/x-diff" in request.headers.get("Accept", ""):
        return _patch_response(comparison, ignored)
    rows = history.rows_of(comparison.store, comparison.trees, owners=comparison.owners, all_folders=True)
    comparison.count([*rows, *comparison.rows], history.COUNT_SECONDS)
    left_out, total = comparison.left_out, lines_of(comparison.written(with_ignored=ignored))
    changes = [change.as_json() | {"ignored": change.path in left_out} for change in rows]
    return Status(200, {"changes": changes} | ({"total": total._asdict()} if changes else {}))


@router.get("/workspaces/{key}/beside/{other}", response={200: schemas.BesideOut} | PROBLEMS, tags=["changes"])
def compare_with_fork(request, key: str, other: str, at: str = "live", other_at: str = "live", ignored: bool = False):
    """Return what two workspaces that come from one snapshot have changed since then, file by file.

    `state` of a file: left or right if only one of them changed it, alike or different if both did. `conflict` says
    that git could not merge the two changes. `at` and `other_at`: a snapshot's number or "live".
    """
    workspace = find(request, key)
    points = find_point(at, workspace, request.auth), find_point(f"{other}:{other_at}", workspace, request.auth)
    return Status(200, compare_forks(*points, with_ignored=ignored).as_json())


@router.get("/workspaces/{key}/patch", response={200: None} | PROBLEMS, tags=["changes"])
def patch(request, key: str, from_: str = Query(..., alias="from"), to: str = Query("live"), ignored: bool = False):
    """Return the changes between two points as a patch for `git apply`; files that git ignores with ignored=true."""
    return _patch_response(_compared(request, key, from_, to), ignored)


@router.get("/workspaces/{key}/bundle", response={200: None} | PROBLEMS, tags=["changes"])
def bundle(request, key: str):
    """Return a git bundle of the commits in the workspace: HEAD, branches and tags."""
    workspace = find(request, key)
    ended_well(operations.wait(git_export.bundle(workspace, by=request.auth.actor), 120))
    return download(request, downloads.read_bundle(workspace), f"{workspace.key}.bundle")


@router.post("/workspaces/{key}/push", response={202: schemas.PushOut | schemas.AskedOut} | PROBLEMS, tags=["changes"])
def push(request, key: str, wish: schemas.NewPush):
    """Push HEAD to a branch of the source repository. For an agent, a person decides first.

    With `sha` only if HEAD is that commit. The outcome of a push that arrived has `pushed`: {branch, sha, from}. Else
    nothing is pushed, and `reason_code` is moved (with `shown`, `now`), behind (`missing`: [{sha, subject}]), refused
    (`remote`: what the host said), token or source.
    """
    workspace = find(request, key, "use_workspace")
    operation = operations.wait(git_export.push(workspace, wish.branch, sha=wish.sha, by=request.auth.actor), 120)
    return Status(202, {"operation": str(operation.pk), "state": operation.phase, "outcome": operation.outcome})


@router.post(
    "/workspaces/{key}/pull-requests",
    response={202: schemas.PushOut | schemas.AskedOut} | PROBLEMS,
    tags=["changes"],
)
def open_pull_request(request, key: str, wish: schemas.NewPullRequest):
    """Push HEAD to a branch and open a pull request at the code host. For an agent, a person decides first.

    The token is a secret of the team that no program of the workspace gets. An open pull request of the branch into the
    base is found; a title or body in the request replaces its own. An outcome that is not ok but has `pushed` says that
    the commit is there: send the same request again.
    """
    workspace = find(request, key, "use_workspace")
    operation = operations.wait(pull_requests.open_one(workspace, wish.dict(), by=request.auth.actor), 120)
    return Status(202, {"operation": str(operation.pk), "state": operation.phase, "outcome": operation.outcome})


@router.get("/workspaces/{key}/pull-requests", response={200: schemas.PullRequestsOut} | PROBLEMS, tags=["changes"])
def list_pull_requests(request, key: str):
    """List the pull requests that were opened for the workspace."""
    names = schemas.PullRequestOut.model_fields
    rows = pull_requests.of(find(request, key))[:200]
    return {"pull_requests": [{name: getattr(row, name) for name in names} for row in rows]}


def _compared(request, key: str, from_: str, to: str) -> Comparison:
    workspace = find(request, key)
    return compare(*(find_point(point, workspace, request.auth) for point in (from_, to)))


def _patch_response(comparison: Comparison, ignored: bool) -> HttpResponse:
    name = f"{comparison.new.workspace.key}-{comparison.old.at}-{comparison.new.at}.patch"
    body = b"".join(comparison.patch(with_ignored=ignored))
    headers = CONTROLLED | {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(body, content_type="text/x-diff", headers=headers)
