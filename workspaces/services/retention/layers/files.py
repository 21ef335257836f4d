"""Files that are kept on the host for some hours: uploads for new workspaces, and archives for download."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path

from django.db.models import Q, QuerySet

from dashboard.models import Team
from dashboard.text.visible_text import plain_size
from workspaces.host import shared_files
from workspaces.models import Workspace
from workspaces.provisioning import uploads
from workspaces.services import archives
from workspaces.services.retention.layers.base import Item, Layer, Terms
from workspaces.store import StoreError

SHORTEST = timedelta(hours=1)
ONE = "*-*-*-*-*"  # a folder that is called as a team or workspace


def teams_with_old_files(at: datetime) -> QuerySet:
    """Return the teams with a file that the shortest rule would delete."""
    sent, packed = _with_old_files(uploads.folder(), at - SHORTEST), _with_old_files(archives.folder(), at - SHORTEST)
    if not sent and not packed:
        return Team.objects.none()
    return Team.objects.filter(Q(pk__in=sent) | Q(workspaces__in=packed)).distinct()


def _with_old_files(folder: Path, cutoff: datetime) -> set[str]:
    """Return the names of the folders of a folder that have a file from before `cutoff`."""
    found = set()
    with suppress(StoreError):  # the bucket does not answer: another time
        for name in shared_files.folders_in(folder):
            if fnmatch(name, ONE) and any(kept.at < cutoff for kept in shared_files.kept_in(folder / name)):
                found.add(name)
    return found


class _Files(Layer):
    """Such files, also those that an interrupted write left on this host. The time of the last write counts."""

    in_hours = True
    unit = "hours"
    what: str

    def delete(self, scope, items):
        for item in items:
            shared_files.remove(Path(item.pk))

    def _old(self, found: list[shared_files.Kept], cutoff: datetime) -> Iterator[tuple[Path, str, datetime]]:
        """Yield (path, name, time) of the files that are older."""
        for path, size, at in found:
            if at < cutoff:
                yield path, f"{self.what} of {plain_size(size)}", at


class Uploads(_Files):
    name = "uploads"
    label = "Uploads"
    covers = "Archives that were uploaded for new workspaces. What was made from them stays."
    default = Terms(hours=2)
    by_environment = False
    what = "upload"

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        with suppress(StoreError):  # the bucket does not answer: another time
            for path, name, at in self._old(shared_files.kept_in(uploads.folder_of(scope.team.pk)), cutoff):
                yield Item(str(path), name, at)


class Archives(_Files):
    name = "archives"
    label = "Archives for download"
    covers = "Files of snapshots that were packed for a download. The snapshots stay, and can be packed again."
    default = Terms(hours=1)
    what = "archive"

    def due(self, scope):
        with suppress(StoreError):  # the bucket does not answer: another time
            yield from self._due(scope)

    def _due(self, scope) -> Iterator[Item]:
        packed = [name for name in shared_files.folders_in(archives.folder()) if fnmatch(name, ONE)]
        rows = Workspace.objects.filter(team=scope.team, pk__in=packed) if packed else Workspace.objects.none()
        for pk, key, environment in rows.values_list("pk", "key", "environment__name"):
            cutoff = scope.terms(self, environment).cutoff(scope.at)
            for path, name, at in self._old(shared_files.kept_in(archives.folder_of(pk)), cutoff):
                yield Item(str(path), name, at, pk, key)
