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
from ..sealing import written
from .unmounting import WAIT_S, unmount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..sealing import Key

START_S = 60.0  # until it is mounted, on a busy machine
HERE = Path(__file__).resolve().parents[3]  # the folder of the package `workspaces`


def why_not() -> str:
    """Return why no snapshot can be mounted on this host, as a sentence; "" if it can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "This host has no FUSE that Handrail may use: /dev/fuse is missing or closed to it."
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed on this host (pip install 'handrail[mount]')."
    return ""


def start(
    address: str | os.PathLike,
    tree_id: str,
    place: Path,
    options: Sequence[str] = (),
    *,
    keys: Sequence[Key] = (),
    with_us: bool = True,
) -> subprocess.Popen:
    """Mount a tree of the store at `address` in the empty folder `place`; return the process that serves it.

    `options` are those of the command line, `keys` those of an encrypted store, handed over in memory. It ends with
    this process, however that ends; with `with_us=False` only by itself (`--until-unlocked`). Raise StoreError if it is
    not mounted within START_S seconds.
    """
    fd = _in_memory(keys)
    try:
        process = _spawn(fd, ["mount", address, tree_id, place, *options], with_us)
    finally:
        if fd is not None:
            os.close(fd)
    ready, _, _ = select.select([process.stdout], [], [], START_S)
    if ready and process.stdout.readline():
        process.stdout.close()
        process.stderr.close()
        return process
    process.kill()
    words = process.communicate()[1].decode(errors="replace").strip().splitlines()
    unmount(place)
    raise StoreError(f"the snapshot could not be mounted: {words[-1] if words else 'it took too long'}")


def _in_memory(keys: Sequence[Key]) -> int | None:
    """Return the descriptor of a file in memory with the keys; None without any."""
    if not keys:
        return None
    fd = os.memfd_create("keys")
    os.write(fd, written(keys).encode())
    return fd


def _spawn(keys: int | None, words: list, with_us: bool) -> subprocess.Popen:
    given = [] if keys is None else ["--keys", f"/dev/fd/{keys}"]
    command = [sys.executable, "-m", "workspaces.store", *given, *words, *(["--until-end-of-input"] if with_us else [])]
    return subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.PIPE if with_us else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=() if keys is None else (keys,),
        cwd=HERE,
        start_new_session=True,
    )


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
