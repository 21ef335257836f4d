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
    """Make a tree of about so many entries: copies of the packages of `source`."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    packages, total, number = sorted((source / "node_modules").iterdir()), 0, 0
    while total < entries:
        number += 1
        for package in packages:
            if total >= entries:
                break
            if package.is_dir():
                copy = target / f"copy{number}" / package.name
                copy.parent.mkdir(exist_ok=True)
                subprocess.run(["cp", "-a", package, copy], check=True)
                total += 1 + walk(os.fspath(copy))
    return target
