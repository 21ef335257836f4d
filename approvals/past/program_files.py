"""Find the file that a program's name stands for, and its digest, as the runner does for the gate.

It reads no system folders and no larger files (workspaces.runner.bound_files), so none of these could be trusted.
"""

import hashlib
import os
import stat
from pathlib import Path

MAX_PROGRAM = 64 * 1024**2  # bytes
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/", "/nix/", "/snap/", "/proc/", "/sys/", "/dev/")


class ProgramFiles:
    """Looks programs up on one PATH, and remembers them."""

    def __init__(self, search_path: str):
        self.folders = [folder for folder in search_path.split(":") if folder.startswith("/")]
        self.known: dict[str, dict | None] = {}

    def find(self, name: str) -> dict | None:
        """Return {path, sha256} of the first program of this name; None if there is none."""
        if name not in self.known:
            self.known[name] = self._find(name)
        return self.known[name]

    def find_package(self, name: str, root: str) -> dict | None:
        """Return {path, sha256} of the program that the packages of the project in `root` brought; None without."""
        key = f"{root}/node_modules/.bin/{name}"
        if key not in self.known:
            self.known[key] = self._find(name, [f"{root}/node_modules/.bin"]) if root.startswith("/") else None
        return self.known[key]

    def _find(self, name: str, folders: list | None = None) -> dict | None:
        if not name or "/" in name or "\0" in name or not name.isprintable():
            return None
        for folder in self.folders if folders is None else folders:
            path = Path(folder, name)
            try:
                if path.is_file() and os.access(path, os.X_OK):
                    real = path.resolve(strict=True)
                    if not str(real).startswith(SYSTEM):
                        return {"path": str(path), "sha256": _digest(real)}
            except OSError:
                continue
        return None


def _digest(path: Path) -> str:
    """Return the SHA-256 of a regular file; OSError if it is none or too large."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_PROGRAM:
            raise OSError(f"{path} is no program that can be read")
        return hashlib.file_digest(file, "sha256").hexdigest()
