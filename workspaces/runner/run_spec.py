"""Build the RunSpec that a driver starts for a workspace."""

import os
from dataclasses import replace

from workspaces import extensions
from workspaces.drivers.base import DriverError, Limits, RunSpec
from workspaces.host import paths
from workspaces.provisioning import agent_programs, git_identity, limits
from workspaces.runner import leashes
from workspaces.runner.code_host import copies
from workspaces.runner.git import inside
from workspaces.services import network


def spec_of(workspace, run_id, *, phase="agent", home=None, tree=None) -> RunSpec:
    """Return the RunSpec of a workspace. Raise DriverError for a folder workspace without a connected folder."""
    if workspace.environment.capabilities.own_folder and not workspace.own_folder:
        raise DriverError("This workspace uses the folder driver, but no folder is connected.")
    limit = limits.in_force(workspace.environment)
    env = workspace.environment.variables | {"HANDRAIL_WORKSPACE": workspace.key}
    if network.has_managed_network(workspace):
        env |= network.environment_variables(workspace)
    return RunSpec(
        run_id=str(run_id),
        workspace_id=str(workspace.pk),
        key=workspace.key,
        workspace=tree or paths.tree_of(workspace),
        home=home or paths.folder_of(workspace.pk) / "home",
        limits=Limits(limit["memory_bytes"], limit["cpus"], limit["pids"], limit["disk_bytes"]),
        env=env,
        phase=phase,
        in_box=workspace.held,
        shown_at=paths.tree_of(workspace) if workspace.held and tree else None,
        code_host=copies.folder_of(workspace.pk) if workspace.held and not tree and os.geteuid() != 0 else None,
        lead=workspace.lead_epoch,
        generation=workspace.disk_generation,
        image=workspace.base.get("layer_digest") or workspace.base.get("digest"),
        runtime_class=workspace.environment.runtime_class,
        team=workspace.team.slug,
        environment=str(workspace.environment_id),
        storage=workspace.environment.storage,
        agent_programs=agent_programs.folders_for(workspace.environment) if phase == "agent" else {},
        system_files=system_files_of(workspace) if phase == "agent" and network.reaches_handrail(workspace) else {},
        **uid_of(workspace),
    )


def agents_spec(workspace, run_id, **how) -> RunSpec:
    """Return the RunSpec to run an agent's programs with: `spec_of`, and whom they commit as. Asks the database."""
    spec = spec_of(workspace, run_id, **how)
    if workspace.environment.capabilities.own_folder:
        return spec  # the user's own identity counts
    trusted, names = leashes.trust_of(workspace)
    files = inside.files(workspace) | spec.system_files | trusted
    return replace(spec, system_files=files, env=git_identity.VARIABLES | names | dict(spec.env))


def system_files_of(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content} that other apps provide for the agent's programs."""
    found = {}
    for files_for in extensions.system_files:
        found |= files_for(workspace)
    return found


def uid_of(workspace) -> dict:
    # Only root can give a workspace a uid of its own; an ordinary user's workloads run as that user.
    if os.geteuid() != 0:
        return {}
    path = workspace.own_folder
    return {"uid": os.stat(path).st_uid if path else workspace.uid}
