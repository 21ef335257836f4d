"""What a workspace's home has that its environment does not give, and how a lead keeps it for new workspaces."""

from django.db import transaction
from django.utils.translation import gettext as _

from dashboard.models import Actor, Event
from dashboard.problems import conflict, invalid
from workspaces import operations
from workspaces.drivers import capabilities
from workspaces.models import Environment, HomeLayer, Operation, State, Workspace
from workspaces.operations import runner_client
from workspaces.provisioning.install_places import PLACES
from workspaces.services.environments.versions import newest_of, save

KIND = "keep_installed"
_AT_REST_OR_UP = (State.READY, State.PAUSED, State.STOPPED)
NEW, CHANGED, SAME, GONE = "new", "changed", "same", "gone"


def why_not(workspace: Workspace) -> str:
    """Return why nothing of its home can be kept, as a sentence; "" if it can."""
    driver = workspace.environment.driver
    if capabilities.of(driver).own_folder:
        return _("A connected folder has no home of its own: its programs run as their user, in that user's home.")
    if capabilities.of(driver).files_need_run:
        return _(
            "The home of a microVM is on a disk of its own, which is not read from outside. What new workspaces need "
            "belongs in the setup script, whose layer keeps it."
        )
    if workspace.trashed_at or workspace.state not in _AT_REST_OR_UP:
        return _("It has no home now: only one that is up, paused or stopped has.")
    return ""


def root_words(driver: str) -> str:
    """Say what programs can install outside of the home with this driver."""
    if capabilities.of(driver).host_system:
        return _(
            "The system's folders are those of this host and read-only in a sandbox, so apt-get and a system-wide pip "
            "or npm install nothing there: nothing differs. What is missing has to be installed on the host."
        )
    if capabilities.of(driver).takes_image:
        return _(
            "The container's root is read-only while agents work, so it does not differ from the set-up layer. What "
            "apt-get has to install belongs in the setup script, whose layer keeps it."
        )
    return ""


def compare_with_layer(workspace: Workspace) -> dict:
    """Return what the home has and how that differs from the layer that it began with.

    {why_not, root, layer, newest_layer, complete, hidden, folders, gone}; a folder's `state` is new, changed or same.
    """
    newest = newest_of(workspace.environment)
    told = {
        "why_not": why_not(workspace),
        "root": root_words(workspace.environment.driver),
        "layer": as_json(workspace.home_layer),
        "newest_layer": as_json(newest.home_layer),
        "complete": True,
        "hidden": [],
        "folders": [],
        "gone": [],
    }
    if told["why_not"]:
        return told
    found = runner_client.ask("GET", workspace, "installed")
    kept = {folder["path"]: folder for folder in (workspace.home_layer.folders if workspace.home_layer else [])}
    folders = [_compared(folder, kept.get(folder["path"])) for folder in found["folders"]]
    gone = sorted(kept.keys() - {folder["path"] for folder in folders})
    return told | {"complete": found["complete"], "hidden": found["hidden"], "folders": folders, "gone": gone}


def _compared(folder: dict, kept: dict | None) -> dict:
    """Add `state` to a folder, and `state` and `was` to each of its packages."""
    if not folder["can_be_kept"]:
        return folder | {"state": ""}
    state = NEW if kept is None else SAME if kept["mark"] == folder["mark"] else CHANGED
    was = {(each["kind"], each["name"]): each["version"] for each in (kept or {"packages": []})["packages"]}
    packages = []
    for each in folder["packages"]:
        before = was.pop((each["kind"], each["name"]), None)
        own = NEW if before is None else SAME if before == each["version"] else CHANGED
        packages.append(each | {"state": own, "was": before or ""})
    packages += [
        {"kind": kind, "name": name, "version": "", "state": GONE, "was": v} for (kind, name), v in was.items()
    ]
    return folder | {"state": state, "packages": packages}


def as_json(layer: HomeLayer | None) -> dict | None:
    if layer is None:
        return None
    return {
        "workspace": layer.key,
        "by": layer.by.get("label", ""),
        "at": layer.created_at,
        "packages": layer.packages,
        "bytes": layer.bytes,
        "folders": [folder["path"] for folder in layer.folders],
    }


def keep_in_environment(workspace: Workspace, folders: list[str], *, replace: bool = False, by: Actor) -> Operation:
    """Keep folders of its home in the next version of its environment. Problem 409 or 422.

    `replace`: also if the environment has got files since this home began, which the new version will not have.
    """
    if words := why_not(workspace):
        raise conflict(words)
    folders = list(dict.fromkeys(folders))
    if not folders:
        raise invalid(_("Choose at least one folder."))
    if strange := next((folder for folder in folders if folder not in PLACES), None):
        raise invalid(
            _("%(folder)s can't be kept. These can: %(places)s.")
            % {
                "folder": strange[:100],
                "places": ", ".join(PLACES),
            }
        )
    former = newest_of(workspace.environment).home_layer
    if former is not None and former.pk != workspace.home_layer_id and not replace:
        words = _(
            "The environment has files of %(key)s, kept after this home began. They would not be in the new version."
        )
        raise conflict(words % {"key": former.key}, code="newer_layer")
    args = {"folders": folders, "former": former and str(former.pk)}
    return operations.submit(KIND, workspace=workspace, args=args, by=by)


@transaction.atomic
def go_back(environment: Environment, *, by: Actor) -> Environment:
    """Save the next version of an environment, with the layer before the present one or without. Problem 409."""
    latest = newest_of(environment)
    layer = latest.home_layer
    if layer is None:
        raise conflict(_("Nothing that was installed is kept in %(name)s.") % {"name": latest.name})
    fields = {"home_layer": layer.former, "minimum_isolation": latest.minimum_isolation}
    made = save(latest.team, latest.name, fields, base=latest, by=by)
    data = {
        "environment": made.name,
        "version": made.version,
        "left": layer.key,
        "now": layer.former and layer.former.key,
    }
    Event.objects.record(made.team, actor=by, verb="environment.layer_returned", subject=made, data=data)
    return made
