"""Reads at the code host in a call: whether and how each is run for the agent outside the box of its folder."""

import os
from pathlib import Path

from approvals.evaluation.context.read_plans import NotRead, Repository, plan
from approvals.policy.programs.code_host import read_in
from workspaces.services import git_remotes, host_programs

__all__ = ["NotRead", "plans_for"]


def plans_for(commands: list, workspace) -> list[dict]:
    """Return the plan of each read of a call (`read_plans.plan`). Raise NotRead if one of them is not run so.

    `commands` are the entries of the call's verdict.
    """
    top = Path(workspace.own_folder)
    if top.stat().st_uid != os.getuid():
        raise NotRead("Handrail does not run as the owner of this folder")
    repository = Repository(top, workspace.remotes, git_remotes.configured(top))
    plans = {}
    for entry in commands:
        if not entry["code_host_read"]:
            continue
        read = read_in(entry["words"])
        if read is None:
            raise NotRead("its words are not certain before it runs")
        plans[read.words] = plan(read, entry["cwd"], repository)
        try:
            for url in plans[read.words]["urls"]:
                _check_place(url)
            host_programs.find(read.program)
        except host_programs.NoProgram as error:
            raise NotRead(str(error)) from None
    return list(plans.values())


def _check_place(url: str):
    """Raise NotRead for a remote on this machine that agents write: git reads a repository's configuration there."""
    path = git_remotes.local_path(url)
    if path is not None and (place := host_programs.written_by_agents(path)):
        raise NotRead(f"its remote {path} is in {place}, where agents write")
