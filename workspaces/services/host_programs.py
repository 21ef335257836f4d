"""Programs of this host that are run with a person's credentials: found on a fixed path, and changed by no agent."""

import os
import stat
from pathlib import Path

from django.conf import settings

from workspaces.drivers.box import HOME_CACHES
from workspaces.models import Workspace


class NoProgram(Exception):
    """The program is not installed where it is looked for, or could have been put there by others."""


def find(name: str) -> Path:
    """Return the file of a program in the first folder of HANDRAIL_CODE_HOST_PATH that has it. Raise NoProgram."""
    for folder in settings.HANDRAIL_CODE_HOST_PATH.split(":"):
        path = Path(folder, name)
        if folder.startswith("/") and os.path.lexists(path):
            real = Path(os.path.realpath(path))
            _check(real)
            return real
    raise NoProgram(f"{name} is not installed in {settings.HANDRAIL_CODE_HOST_PATH}")


def _check(path: Path):
    """Raise NoProgram if anybody but root and our own user, or an agent in its box, could replace the file."""
    if not path.is_file() or not os.access(path, os.X_OK):
        raise NoProgram(f"{path} is no program")
    for each in (path, *path.parents):
        found = each.stat()
        if found.st_uid not in (0, os.getuid()) or found.st_mode & stat.S_IWOTH:
            raise NoProgram(f"{each} can be changed by other users")
    if place := written_by_agents(path):
        raise NoProgram(f"{path} is in {place}, where agents write")


def written_by_agents(path: Path) -> Path | None:
    """Return the folder around a path that agents of this host can write; None if there is none."""
    folders = Workspace.objects.connected_folders().values_list("source", flat=True)
    paths = [Path(source["path"]) for source in folders if source.get("path")]
    places = [*paths, *(Path.home() / name for name in HOME_CACHES), settings.HANDRAIL_HOME.resolve()]
    return next((place for place in places if path.is_relative_to(place)), None)
