"""What a workspace's repository says about its set-up."""

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.web.api_base import PROBLEMS
from workspaces.api.lookup import find

router = Router(tags=["environments"])


class FileOut(Schema):
    path: str
    what: str = Field(description="whose file it is, or of what the dependencies are")
    fields: dict = Field(description="for `POST /environments`, by a lead: setup, checks, snapshot_ignore, agents, …")
    environment: str = Field(description="of handrail.toml: the environment that it names")
    policy: str = Field(description="of handrail.toml: the path of a policy in the repository, which is not read")
    notes: list[str] = Field(description="what else it says, and what becomes of it")
    errors: list[str] = Field(description="why it, or a part of it, can't be read")


class FilesOut(Schema):
    files: list[FileOut]


@router.get("/workspaces/{key}/repository-files", response={200: FilesOut} | PROBLEMS)
def repository_files(request, key: str):
    """Return what files of the repository say about its set-up, as read at creation. Nothing of it was run."""
    return Status(200, {"files": find(request, key).repository_files})
