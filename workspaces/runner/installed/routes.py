"""The runner's answer to what is installed in the home of a workspace."""

from aiohttp import web

from workspaces.host import paths
from workspaces.runner import files
from workspaces.runner.installed import home_scan
from workspaces.runner.led import led_workspace
from workspaces.store import LocalTree

SYSTEM_PROGRAMS = ("/usr/local/bin", "/usr/bin", "/bin")  # of the host, which sandboxes see
routes = web.RouteTableDef()


@routes.get("/workspaces/{id}/installed")
async def installed(request):
    """→ {"folders", "complete", "hidden"} of the home; see home_scan.py."""
    workspace = await led_workspace(request)
    return web.json_response(await request.app["daemon"].thread(_installed, workspace))


def _installed(workspace) -> dict:
    home = LocalTree(paths.tree_of(workspace), home=paths.folder_of(workspace.pk) / "home")
    with files.in_words(), home.files("home") as opened:
        found = home_scan.scan_home(opened)
    system = SYSTEM_PROGRAMS if workspace.environment.capabilities.host_system else ()
    return found | {"hidden": home_scan.hidden_by(found["folders"], system)}
