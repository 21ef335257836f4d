"""Previews of ports: an address that a person opens in a browser."""

from ninja import Router, Status
from pydantic import Field

from dashboard.web.api_base import PROBLEMS
from workspaces.api import schemas
from workspaces.api.lookup import find
from workspaces.services import previews

router = Router(tags=["workspaces"])


class NewPreview(schemas.Strict):
    port: int = Field(ge=1, le=65535, description="on which a program of the workspace listens")


class PreviewOut(schemas.Schema):
    url: str = Field(description="opens the preview once, within a minute; then the browser keeps it for eight hours")


@router.post("/workspaces/{key}/previews", response={201: PreviewOut} | PROBLEMS)
def open_preview(request, key: str, wish: NewPreview):
    """Open a port of a workspace in a browser, on a host name of its own. For people: an agent reaches it inside."""
    workspace = find(request, key, "preview")
    return Status(201, {"url": previews.open_for(workspace, wish.port, caller=request.auth)})
