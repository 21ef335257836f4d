"""Put what a file of a repository suggests beside what an environment has, for its form."""

import copy

from workspaces.models import Environment, Workspace


def find(workspace: Workspace, path: str) -> dict | None:
    """Return the suggestion of one file of the workspace, if it suggests something for an environment."""
    return next((each for each in workspace.repository_files if each["path"] == path and each["fields"]), None)


def with_suggestion(base: Environment, fields: dict) -> Environment:
    """Return an unsaved copy with the suggested fields added; nothing that the environment has is lost."""
    made = copy.copy(base)
    for name in ("setup", "maintenance", "snapshot_ignore"):
        lines = fields.get(name, "")
        before = getattr(base, name)
        if lines and lines not in before:
            setattr(made, name, f"{before.rstrip()}\n{lines}" if before.strip() else lines)
    for name in ("checks", "variables"):
        setattr(made, name, fields.get(name, {}) | getattr(base, name))
    made.agents = list(dict.fromkeys([*base.agents, *fields.get("agents", [])]))
    made.working_directory = base.working_directory or fields.get("working_directory", "")
    return made
