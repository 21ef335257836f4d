"""Keep what was installed in a home for the workspace's environment: in the store, and in its next version."""

import hashlib

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.problems import Problem
from workspaces.host import paths
from workspaces.models import Environment, HomeLayer, State
from workspaces.provisioning.install_places import paths_of
from workspaces.runner import secret_scan, snapshots
from workspaces.runner.installed.home_scan import scan_home
from workspaces.runner.job import Job, Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.snapshot_tree import KeptFiles
from workspaces.services import environments
from workspaces.store import LocalTree

MAX_BYTES = 4 << 30  # of a layer: each new workspace gets a copy


class KeepInstalled(Kind):
    """Store the chosen folders of the home and save the environment's next version with them.

    args: {folders, former: id of the layer that is replaced, or None}. Nothing is kept if a secret's value is in them.
    Performed again after a crash, it finds the version that it saved.
    """

    when_store_fails = "Nothing was kept: "

    async def perform(self, job):
        await job.require(State.READY, State.PAUSED, State.STOPPED)
        await job.mark_started()
        if done := await job.thread(_saved, job):
            return done
        async with job.lock():
            tree_id = await job.thread(_store, job)
        found = await job.thread(_installed_in, job, tree_id)
        return await job.thread(_save, job, tree_id, found)


class Chosen:
    """Leave everything out but these paths, as a `LeavesOut` of the store."""

    def __init__(self, chosen: list[str]):
        self._chosen = [path.encode() for path in chosen]
        self.digest = hashlib.sha256(b"\0".join(self._chosen)).hexdigest()

    def __call__(self, path: bytes, is_folder: bool) -> bool:
        is_inside = any(path == one or path.startswith(one + b"/") for one in self._chosen)
        is_on_the_way = is_folder and any(one.startswith(path + b"/") for one in self._chosen)
        return not (is_inside or is_on_the_way)


def _store(job: Job) -> str:
    """Store the chosen folders of the live home; return the tree. Raise SecretFound with each place of a value."""
    folder = paths.folder_of(job.workspace.pk)
    tree = LocalTree(folder / "home", cache=folder / "home-scan")
    tree.rules = lambda: Chosen(paths_of(job.args["folders"]))
    inspector = secret_scan.strict_inspector_of(job.workspace)
    # Every file is read: one that the cache knows would not be searched.
    how = {"inspect": inspector, "before_commit": inspector.before_commit, "thorough": True}
    return snapshots.store_of(job.workspace).snapshot(tree, **how, **job.watch()).tree


def _installed_in(job: Job, tree_id: str) -> list[dict]:
    """Return what the stored folders have. Raise Refused for nothing, or too much."""
    found = scan_home(KeptFiles(snapshots.store_of(job.workspace), tree_id), job.args["folders"])
    if not found["complete"]:
        raise Refused("Nothing was kept: there are too many files. Choose fewer folders.")
    if not found["folders"]:
        raise Refused("Nothing was kept: the folders are empty now.")
    if (size := sum(folder["bytes"] for folder in found["folders"])) > MAX_BYTES:
        raise Refused(f"Nothing was kept: {size:,} bytes are more than {MAX_BYTES:,}. Choose fewer folders.")
    return found["folders"]


def _saved(job: Job) -> dict | None:
    layer = HomeLayer.objects.filter(operation=job.operation.pk).first()
    made = layer and layer.environments.order_by("version").first()
    return made and {"ok": True, "environment": str(made.pk), "version": made.version}


@transaction.atomic
def _save(job: Job, tree_id: str, folders: list[dict]) -> dict:
    """Save the layer, the environment's next version and the event. Raise Refused if another one was kept meanwhile."""
    workspace = job.workspace
    Team.objects.take_turn(workspace.team_id)
    base = environments.newest_of(workspace.environment)
    if (base.home_layer_id and str(base.home_layer_id)) != job.args["former"]:
        raise Refused(f"Nothing was kept: {base.name} got other files meanwhile. Look again.")
    layer = HomeLayer.objects.create(
        team_id=workspace.team_id,
        tree=bytes.fromhex(tree_id),
        folders=folders,
        bytes=sum(folder["bytes"] for folder in folders),
        key=workspace.key,
        former=base.home_layer,
        operation=job.operation.pk,
        by=job.by.as_json,
        created_at=clock.now(),
    )
    made = _next_version(base, layer, job)
    type(workspace).objects.filter(pk=workspace.pk).update(home_layer=layer)
    data = {
        "environment": made.name,
        "version": made.version,
        "folders": job.args["folders"],
        "packages": layer.packages,
        "bytes": layer.bytes,
    }
    about = {"actor": job.by, "subject": made, "workspace": workspace}
    Event.objects.record(workspace.team_id, verb="environment.layer_kept", data=data, **about)
    return {"ok": True, "environment": str(made.pk), "version": made.version}


def _next_version(base: Environment, layer: HomeLayer, job: Job) -> Environment:
    fields = {"home_layer": layer, "minimum_isolation": base.minimum_isolation}
    try:
        return environments.save(base.team, base.name, fields, base=base, by=job.by)
    except Problem as problem:
        raise Refused(f"Nothing was kept: {problem.detail}") from problem
