"""Signatures of commits and tags made in workspaces: with the team's key, which no program of a workspace ever has."""

from dashboard.models import Actor
from dashboard.problems import conflict, invalid
from workspaces import lifecycle, secrets
from workspaces.models import Workspace
from workspaces.provisioning import git_identity
from workspaces.provisioning.git import signing
from workspaces.secrets import origins
from workspaces.services import network


def public_key_for(workspace: Workspace) -> str:
    """Return the public key that commits in a workspace are signed for, "" if they are not signed."""
    if not workspace.environment.sign_commits or not network.reaches_handrail(workspace):
        return ""
    secret = origins.signing_key_of(workspace.team_id)
    return secret.public_key if secret and secrets.state(secret) == secrets.SET else ""


def sign(workspace: Workspace, content: bytes, *, by: Actor) -> dict[str, str]:
    """Sign a commit or tag by the workspace's own committer; return {signature, sha, kind}. Problem 409, 422."""
    if not workspace.environment.sign_commits:
        raise conflict(f"Commits in workspaces of {workspace.environment.name} are not signed.")
    key = secrets.for_signing(workspace.team_id)
    if not key:
        raise conflict("The team has no signing key that is in force.")
    try:
        unsigned = signing.read(content)
    except signing.NotToSign as error:
        raise invalid(str(error), field="object") from None
    own = git_identity.identity(workspace)
    if unsigned.by != own:
        given = "{} <{}>".format(*unsigned.by)[:300]
        words = "Only commits by {} <{}> are signed here; this one is by".format(*own)
        raise invalid(f"{words} {given}.", field="object")
    signature = signing.sign(signing.key_of(key), content)
    told = {"kind": unsigned.kind, "sha": signing.sha_of(unsigned, signature)}
    lifecycle.record(workspace, by, "workspace.commit_signed", told | {"subject": unsigned.subject})
    return told | {"signature": signature}
