"""Which transcripts a policy is shown on: those of connected folders, or of one that is to be connected."""

import os
from pathlib import Path

from approvals.evaluation import policies
from approvals.models import Policy
from approvals.past.transcripts import home_for
from workspaces.drivers.base import DriverError
from workspaces.drivers.folder.driver import user_env
from workspaces.models import Environment, Workspace
from workspaces.secrets.masking import without_credentials

DAYS = 30
MAX_FOLDERS = 50


def of_everything(team, days: int = DAYS) -> dict:
    """Return the arguments of past.report.make for the operator's own home: all sessions, the team's policy."""
    return _question(policies.for_display(team.pk), [], [str(Path.home())], os.environ.get("PATH", ""), days)


def of_folder(path: Path, team, days: int = DAYS) -> dict:
    """Return them for one folder: with the policy that holds there, or that would hold once it is connected."""
    own = next((w for w in _connected(team) if w.own_folder == str(path)), None)
    return _of_folders([str(path)], _policy(team, own.environment if own else None), days)


def of_environment(environment: Environment, days: int = DAYS) -> dict | None:
    """Return them for a connected folder's policy; None if the environment is none, or has no folder any more."""
    found = [w.own_folder for w in _connected(environment.team) if w.environment.name == environment.name]
    return _of_folders(found, _policy(environment.team, environment), days) if found else None


def of_team(team, days: int = DAYS) -> dict | None:
    """Return them for the team's policy: all its connected folders but those with their own. None without any."""
    own = set(
        Policy.objects.filter(team=team, active=True, environment__isnull=False).values_list(
            "environment__name", flat=True
        )
    )
    found = [w.own_folder for w in _connected(team) if w.environment.name not in own]
    return _of_folders(found[:MAX_FOLDERS], policies.for_display(team.pk), days) if found else None


def _policy(team, environment: Environment | None) -> Policy:
    return (environment and policies.own(team.pk, environment.name)) or policies.for_display(team.pk)


def _connected(team) -> list[Workspace]:
    found = Workspace.objects.kept().connected_folders().filter(team=team).select_related("environment__team")
    return [workspace for workspace in found if workspace.own_folder]


def _of_folders(folders: list[str], policy: Policy, days: int) -> dict | None:
    homes = {}
    for folder in folders:
        try:
            homes.setdefault(str(home_for(folder)), search_path(folder))
        except (OSError, KeyError, DriverError):  # the folder or its owner is gone
            continue
    return _question(policy, folders, list(homes), ":".join(homes.values()), days) if homes else None


def search_path(folder: str) -> str:
    """Return where programs of a connected folder are looked up, as bound files are."""
    user = user_env(os.stat(folder).st_uid)
    return f"{user['HOME']}/.local/bin:{user['HOME']}/bin:{user['PATH']}"


def _question(policy: Policy, folders: list[str], homes: list[str], path: str, days: int) -> dict:
    floor = policies.floor(policy)
    return {
        "text": policy.text,
        "floor": floor.text if floor else "",
        "folders": folders,
        "homes": homes,
        "search_path": path,
        "days": days,
    }


def masked(report):
    """Return a report without the credentials that stand in the addresses of its commands."""
    if isinstance(report, str):
        return without_credentials(report)
    if isinstance(report, dict):
        return {name: masked(value) for name, value in report.items()}
    return [masked(value) for value in report] if isinstance(report, list | tuple) else report
