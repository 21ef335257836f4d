"""Start and end the processes that serve mounted snapshots."""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .unmounting import WAIT_S, unmount

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).resolve().parents[3]  # the folder of the package `workspaces`


def why_not() -> str:
    """Return why no snapshot can be mounted on this host, as a sentence; "" if it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "This host has no FUSE that Handrail may use: /dev/fuse is missing or closed to it."
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed on this host (pip install 'handrail[mount]')."
    return ""


def start(
    address: str | os.PathLike, tree_id: str, place: Path, options: Sequence[str] = (), *, with_us: bool = True
) -> subprocess.Popen:
    """Mount a tree of the store at `address` in the empty folder `place`; return the process that serves it.

    `options` are those of the command line. It ends with this process, however that ends; with `with_us=False` only by
    itself (`--until-unlocked`). Raise StoreError if it is not mounted within WAIT_S seconds.
    """
    until = ["--until-end-of-input"] if with_us else []
    command = [sys.executable, "-m", "workspaces.store", "mount", address, tree_id, place, *until, *options]
    process = subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.PIPE if with_us else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=HERE,
        start_new_session=True,
    )
    ready, _, _ = select.select([process.stdout], [], [], WAIT_S)
    if ready and process.stdout.readline():
        process.stdout.close()
        process.stderr.close()
        return process
    process.kill()
    words = process.communicate()[1].decode(errors="replace").strip().splitlines()
    unmount(place)
    raise StoreError(f"the snapshot could not be mounted: {words[-1] if words else 'it took too long'}")


def end(process: subprocess.Popen, place: Path) -> None:
    """End the process, and make sure that nothing is mounted at its place. Blocking, at most WAIT_S seconds."""
    process.terminate()
    try:
        process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()
    unmount(place)
