"""Artifacts that a new workspace begins with."""

import re

from dashboard.people.access import Caller
from dashboard.problems import invalid
from workspaces.models import Artifact

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # of an artifact; also of its folder
MAX_NAMES = 20
FOLDER = "artifacts"  # in the workspace; each artifact has a folder with its name below it


def chosen(team, names: list[str], source: dict, caller: Caller) -> list[dict]:
    """Return [{id, name}] of the newest artifacts with these names of the source's repository. Problem 422.

    An agent finds only those of workspaces that it sees.
    """
    names = list(dict.fromkeys(names))
    if not names:
        return []
    if len(names) > MAX_NAMES:
        raise invalid(f"At most {MAX_NAMES} artifacts can be carried.")
    if not source.get("git"):
        raise invalid("Artifacts go to a workspace of the same repository: give its git address.")
    known = [name for name in names if NAME.fullmatch(name)]
    rows = Artifact.objects.visible_to(caller).kept().filter(team=team, repository=source["git"], name__in=known)
    newest = {row.name: row for row in rows.order_by("created_at")}
    if missing := [name for name in names if name not in newest]:
        raise invalid(f"There is no artifact named {missing[0]!r} of this repository.")
    return [{"id": str(newest[name].pk), "name": name} for name in names]
