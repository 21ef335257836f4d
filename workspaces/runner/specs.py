"""What a driver is asked to start for a workspace."""

import os

from workspaces import network, places
from workspaces.drivers.base import Limits, RunSpec


def spec_of(workspace, run_id, *, phase="agent", home=None, tree=None) -> RunSpec:
    """What the driver is asked to start for a workspace."""
    limits = workspace.environment.limits
    env = {"HANDRAIL_WORKSPACE": workspace.key}
    if network.is_led(workspace):
        env |= network.environment_variables()
    return RunSpec(
        run_id=str(run_id),
        workspace_id=str(workspace.pk),
        key=workspace.key,
        workspace=tree or places.tree_of(workspace),
        home=home or places.folder_of(workspace.pk) / "home",
        limits=Limits(limits.get("memory_bytes"), limits.get("cpus"), limits.get("pids"), limits.get("disk_bytes")),
        env=env,
        phase=phase,
        generation=workspace.disk_generation,
        image=workspace.base.get("layer_digest") or workspace.base.get("digest"),
        **uid_of(workspace),
    )


def uid_of(workspace) -> dict:
    # Only root can give a workspace a uid of its own; an ordinary user's workloads run as that user.
    if os.geteuid() != 0:
        return {}
    path = workspace.source.get("path")
    return {"uid": os.stat(path).st_uid if path else workspace.uid}
