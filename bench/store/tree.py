"""The tree that everything is measured on: the dependencies of a real front-end project."""

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = [
    "react", "react-dom", "typescript", "webpack", "jest", "eslint", "@babel/core", "@babel/preset-env", "next",
    "date-fns", "lodash", "rxjs", "@mui/material", "@mui/icons-material", "aws-sdk",
]  # fmt: skip


def build(folder: Path) -> Path:
    """Install the packages once, with scripts off; about 84,000 entries and 585 MB."""
    if not (folder / "package-lock.json").exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("the benchmark's tree needs npm")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--prefix", "."]
        subprocess.run([npm, "install", *options, *PACKAGES], cwd=folder, check=True, capture_output=True)
    return folder


def walk(folder: str) -> int:
    """Count every entry the way a bare walk does: one scandir for each folder, one lstat for each entry."""
    count = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            entry.stat(follow_symlinks=False)
            count += 1
            if entry.is_dir(follow_symlinks=False):
                count += walk(entry.path)
    return count


def copies(source: Path, target: Path, entries: int) -> Path:
    """Make a tree of about so many entries: `source` as often as it fits, and a fair sample of it for the rest.

    The sample goes through the files in the order of their sizes, so that they are as large in it as in the whole.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    files = [Path(at, name) for at, _, names in os.walk(source) for name in names]
    files.sort(key=lambda path: (path.lstat().st_size, path))
    whole = walk(os.fspath(source))
    for number in range(-(-entries // whole)):
        share = min(1.0, (entries - number * whole) / whole)
        chosen = [path for place, path in enumerate(files, 1) if int(place * share) > int((place - 1) * share)]
        copy = target / f"copy{number}"
        copy.mkdir()
        names = b"\0".join(os.fsencode(path.relative_to(source)) for path in chosen)
        packed = ["tar", "-C", source, "--null", "-T", "-", "-cf", "-"]
        with subprocess.Popen(packed, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tar:
            with subprocess.Popen(["tar", "-C", copy, "-xf", "-"], stdin=tar.stdout) as out:
                tar.stdin.write(names)
                tar.stdin.close()
            if tar.wait() or out.returncode:
                raise SystemExit("the tree could not be copied")
    return target
