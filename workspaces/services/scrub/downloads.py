"""Files that wait to be used or downloaded: uploads, and archives of snapshots; unpacked while they are searched."""

from collections.abc import Callable, Iterator
from pathlib import Path

import zstandard

from workspaces.host import shared_files
from workspaces.models import Workspace
from workspaces.provisioning import uploads
from workspaces.services import archives
from workspaces.services.scrub.places import DOWNLOAD, Place
from workspaces.services.scrub.value import Wanted

PIECE = 4 << 20
_ZSTD = b"\x28\xb5\x2f\xfd"


def find(team, wanted: Wanted, tick: Callable[[], None]) -> Iterator[Place]:
    for what, key, path in _files(team):
        if _is_in(path, wanted, tick):
            yield Place(DOWNLOAD, what, path.name, workspace=key)


def purge(team, wanted: Wanted, tick: Callable[[], None]) -> Iterator[Place]:
    """Delete the files that hold the value."""
    for what, key, path in _files(team):
        if _is_in(path, wanted, tick):
            shared_files.remove(path)
            yield Place(DOWNLOAD, what, path.name, workspace=key)


def _files(team) -> Iterator[tuple[str, str, Path]]:
    for found in shared_files.kept_in(uploads.folder_of(team.pk)):
        yield "upload", "", found.path
    for pk, key in Workspace.objects.filter(team=team).values_list("pk", "key"):
        for found in shared_files.kept_in(archives.folder_of(pk)):
            yield "archive for download", key, found.path


def _is_in(path: Path, wanted: Wanted, tick) -> bool:
    before = b""
    try:
        for piece in _pieces(path):
            tick()
            if wanted.is_in(before + piece):
                return True
            before = (before + piece)[-wanted.longest :]
    except (OSError, zstandard.ZstdError):
        pass  # gone, or no archive as it says
    return False


def _pieces(path: Path) -> Iterator[bytes]:
    with shared_files.opened(path) as file:
        is_zstd = file.read(4) == _ZSTD
        file.seek(0)
        reader = zstandard.ZstdDecompressor().stream_reader(file) if is_zstd else file
        while piece := reader.read(PIECE):
            yield piece
