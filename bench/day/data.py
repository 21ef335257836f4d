"""Where the product keeps its data: in one home, or in that of each host, with the snapshots in a bucket."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.day.agents import WITNESS


@dataclass
class Data:
    """`homes` is {host: its HANDRAIL_HOME}, with one host {"": HANDRAIL_HOME}; `bucket` the variables of a bucket."""

    homes: dict[str, Path]
    bucket: dict[str, str] = field(default_factory=dict)

    def home_of(self, host: str) -> Path | None:
        """Return the home with the files of a workspace that is on this host; None while it is on none."""
        return next(iter(self.homes.values())) if len(self.homes) == 1 else self.homes.get(host)

    def tree_of(self, host: str, workspace: str) -> Path | None:
        home = self.home_of(host)
        return home and home / "workspaces" / workspace / "tree"

    def hosts_with(self, workspace: str) -> list[str]:
        """Return the hosts on which the workspace has a tree."""
        return [host for host, home in self.homes.items() if (home / "workspaces" / workspace / "tree").is_dir()]

    def store_of(self, team: str) -> str:
        """Return the address of a team's store, for `python -m workspaces.store`."""
        if self.bucket:
            return f"{self.bucket['HANDRAIL_BUCKET']}/stores/{team}"
        return str(next(iter(self.homes.values())) / "stores" / team)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | self.bucket

    def is_aside(self, workspace: str, path: str, sha256: str) -> bool:
        """Return whether a host that was lost has come back with this file."""
        return any(holds(aside / "tree" / path, sha256) for aside in self._aside(workspace))

    def traces_of(self, workspace: str) -> list[str]:
        """Return the tags that ran in a workspace, one for each run, wherever it was.

        A move takes the agent's home along, so what two homes begin with alike ran once.
        """
        folders = [home / "workspaces" / workspace for home in self.homes.values()] + list(self._aside(workspace))
        found: list[str] = []
        for tags in sorted(map(_tags, folders), key=len):
            same = next((n for n, pair in enumerate(zip(found, tags, strict=False)) if pair[0] != pair[1]), None)
            same = min(len(found), len(tags)) if same is None else same
            found += tags[same:]
        return found

    def _aside(self, workspace: str) -> Iterator[Path]:
        for home in self.homes.values():
            if (aside := home / "quarantine" / f"returned-{workspace}").is_dir():
                yield aside


def holds(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _tags(folder: Path) -> list[str]:
    try:
        return (folder / "home" / WITNESS).read_text().split()
    except OSError:
        return []
