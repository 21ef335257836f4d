"""Mount the snapshots that a sandbox shows; each is served until nobody has the Run's lock any more."""

import os
from pathlib import Path

from workspaces.store.errors import StoreError
from workspaces.store.mount import process

from ..base import DriverError, RunSpec
from ..local import SNAPSHOTS
from ..reaping import reap_in_background


def mount(spec: RunSpec, folder: Path) -> dict[str, Path]:
    """Mount them in the folder of the Run, whose lock is held; return {name for launch.py: where it is mounted}."""
    return {f"snapshot-{number}": _mount(spec, folder, number) for number in spec.snapshots}


def _mount(spec: RunSpec, folder: Path, number: int) -> Path:
    shown, place = spec.snapshots[number], folder / SNAPSHOTS / str(number)
    place.mkdir(mode=0o755, parents=True)
    options = [*shown.options, "--until-unlocked", str(folder / "lock")]
    if os.geteuid() == 0:
        options += ["--owner", str(spec.uid), str(spec.uid), "--everyone"]  # the folders above are closed to others
    if shown.without:
        left_out = folder / f"without-{number}"
        left_out.write_bytes(b"\0".join(sorted(shown.without)))
        options += ["--without", str(left_out)]
    try:
        served = process.start(shown.store, shown.tree, place, options, keys=shown.keys, with_us=False)
    except StoreError as error:
        raise DriverError(f"Snapshot {number} could not be shown: {error}") from error
    reap_in_background(served)
    return place


def arguments(spec: RunSpec, places: dict[str, str]) -> list[str]:
    """Return bwrap's arguments that bind them at /snapshots/NUMBER."""
    if not spec.snapshots:
        return []
    binds = ["--perms", "0755", "--dir", "/snapshots"]
    for number in spec.snapshots:
        binds += ["--ro-bind", places[f"snapshot-{number}"], f"/snapshots/{number}"]
    return binds
