"""Signatures of commits and tags that programs inside of a workspace make."""

import base64
import binascii
from typing import Literal

from ninja import Router, Schema, Status
from pydantic import Field

from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.provisioning.git.signing import MOST_BYTES
from workspaces.services import signatures

router = Router(tags=["workspaces"])


class ToSign(schemas.Strict):
    object: str = Field(
        max_length=2 * MOST_BYTES, description="a commit or tag of git without its signature, in base64"
    )
    namespace: Literal["git"] = "git"


class SignatureOut(Schema):
    signature: str = Field(description="as `ssh-keygen -Y sign` writes it")
    sha: str = Field(description="the hash of the object with the signature")
    kind: str = Field(description="commit or tag")


@router.post("/workspaces/{key}/signatures", response={200: SignatureOut} | PROBLEMS)
def sign(request, key: str, wish: ToSign):
    """Sign a commit or a tag with the team's key. For the token of the workspace's own programs; git calls it."""
    workspace, token = find(request, key, "use_workspace"), request.auth.token
    if token is None or not token.for_run or token.workspace_id != workspace.pk:
        raise not_allowed("Only programs inside of the workspace have commits signed.")
    try:
        content = base64.b64decode(wish.object, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("The object must be base64.", field="object") from None
    return Status(200, signatures.sign(workspace, content, by=request.auth.actor))
