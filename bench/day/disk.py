"""A small disk of the day's own for all data of the product, which can be filled."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SIZE = 6_000_000_000  # bytes; the file takes only what is used


class Disk:
    """A folder on a file system in a file, where this user may mount one; `can_be_full` says whether it is."""

    def __init__(self, *, mount: bool = True):
        self.folder = Path(tempfile.mkdtemp(prefix="hr-day-", dir="/var/tmp"))
        self.mount = self.folder / "disk"
        self.mount.mkdir()
        self.can_be_full = mount and os.geteuid() == 0 and self._mount()

    def _mount(self) -> bool:
        image = self.folder / "image"
        with image.open("wb") as file:
            file.truncate(SIZE)
        for command in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(self.mount)]):
            if subprocess.run(command, capture_output=True, check=False).returncode:
                return False
        return True

    @property
    def _ballast(self) -> Path:
        return self.mount / "ballast"

    def fill(self):
        """Fill the disk."""
        with self._ballast.open("ab") as file:
            free = os.statvfs(self.mount)
            for size in (free.f_bavail * free.f_frsize, 1 << 24, 1 << 20, 1 << 12):
                try:
                    while size:
                        end = file.seek(0, os.SEEK_END)
                        os.posix_fallocate(file.fileno(), end, size)
                except OSError:
                    pass

    def empty(self):
        self._ballast.unlink(missing_ok=True)

    def clean_up(self):
        if self.can_be_full:
            subprocess.run(["umount", "--lazy", str(self.mount)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
