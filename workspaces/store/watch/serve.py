"""Watch a tree while a command runs: snapshots that are taken by `python -m workspaces.store` meanwhile use the watch.

The watching process takes them, asked through the socket that STORE_WATCH names: one JSON object a line each way.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from ..errors import StoreError
from ..repository import Store
from ..tree import LocalTree
from .watched import Watched

SOCKET = "STORE_WATCH"  # the variable of the command in which it finds the socket


def snapshot_by_watch(store: str, folder: str, options: dict) -> dict | None:
    """Ask the process that watches the folder for a snapshot; None if nobody watches it. Raise StoreError."""
    address = os.environ.get(SOCKET, "")
    if not address:
        return None
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(address)
        except OSError:
            return None
        asked = {"store": os.path.abspath(store), "folder": os.path.realpath(folder), "options": options}
        link.sendall(json.dumps(asked).encode() + b"\n")
        with link.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b'{"error": "the process that watches has ended"}')
    if "error" in answer:
        raise StoreError(answer["error"])
    return answer["snapshot"]


def watch(folder: Path, command: list[str], shown) -> int:
    """Run the command and return its exit status; `shown(snapshot)` are the fields of a snapshot as JSON."""
    tree = LocalTree(os.path.realpath(folder))
    tree.watched = Watched()
    with tempfile.TemporaryDirectory(prefix="handrail-watch-") as private, socket.socket(socket.AF_UNIX) as door:
        address = os.path.join(private, "socket")
        door.bind(address)
        door.listen()
        threading.Thread(target=_serve, args=(door, tree, shown), daemon=True).start()
        try:
            return subprocess.run(command, env=os.environ | {SOCKET: address}, check=False).returncode
        finally:
            tree.watched.close()


def _serve(door: socket.socket, tree: LocalTree, shown) -> None:
    while True:
        try:
            link, _ = door.accept()
        except OSError:
            return  # closed: the command has ended
        with link, link.makefile("rwb") as lines:
            for line in lines:
                lines.write(json.dumps(_answer(json.loads(line), tree, shown)).encode() + b"\n")
                lines.flush()


def _answer(asked: dict, tree: LocalTree, shown) -> dict:
    if asked["folder"] != os.fspath(tree.path):
        return {"snapshot": None}
    try:
        return {"snapshot": shown(Store.open(asked["store"]).snapshot(tree, hold=0, **asked["options"]))}
    except (StoreError, OSError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return {"error": str(error)}


__all__ = ["snapshot_by_watch", "watch"]
