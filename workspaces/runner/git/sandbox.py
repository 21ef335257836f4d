"""Query a workspace's git repository, whose content, configuration and hooks the agent controls.

Git therefore runs in a sandbox made for one query: the tree and the agent's home read-only, nothing else of this host,
no network, as the workspace's own user, for two seconds. Whatever the repository makes git run there reaches nothing
and ends with the sandbox; objects or folders that it names outside the tree do not exist there (docs/decisions/0010).
"""

import asyncio
import contextlib
import functools
import json
import marshal
import os
import sys
from pathlib import Path

from workspaces import paths
from workspaces.drivers.base import DriverError
from workspaces.drivers.sandbox import NOBODY, find_bwrap, find_python, system_binds
from workspaces.models import Workspace
from workspaces.runner.snapshot_tree import KeptTree
from workspaces.store import StoreError
from workspaces.store.guest.client import RemoteTree

SECONDS, GUEST_SECONDS = 2.0, 10.0  # an emulated guest is slow
ANSWER_BYTES = 4 << 20
HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parent.parent / "drivers" / "launch.py"


@functools.cache
def _programs():
    return find_bwrap(), find_python()


async def ask(workspace: Workspace, tree, question: dict, *, seconds: float = SECONDS) -> dict:
    """Run one query of git/probe.py. Return its answer, or {"error": sentence} whatever the tree holds."""
    if isinstance(tree, KeptTree):
        return {"error": f"git can be asked when {workspace.key} is up."}
    if isinstance(tree, RemoteTree):
        return await asyncio.to_thread(_ask_in_guest, tree, question)
    try:
        launch = await asyncio.to_thread(_launch, workspace, question | {"seconds": seconds * 0.8})
    except DriverError as error:
        return {"error": f"git cannot be asked here: {error}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(LAUNCH),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={}, start_new_session=True, limit=ANSWER_BYTES,
    )  # fmt: skip
    try:
        answer = await asyncio.wait_for(_answer(process, marshal.dumps(launch)), seconds)
        return json.loads(answer)
    except TimeoutError:
        return {"error": "git did not answer in time."}
    except (ValueError, OSError):
        return {"error": "git gave no answer that makes sense."}
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have just exited
            process.kill()  # bwrap --die-with-parent ends everything inside
        await process.wait()


def _ask_in_guest(tree: RemoteTree, question: dict) -> dict:
    """Run the query inside the guest, which isolates it from this host.

    There store/guest/exec.py isolates it from the agent's programs.
    """
    asked = question | {"seconds": GUEST_SECONDS * 0.8, "root": "/workspace"}
    argv = ["/usr/bin/python3", "-I", "-S", "-c", (HERE / "probe.py").read_text(), json.dumps(asked)]
    try:
        answer = tree.run_read_only(argv, GUEST_SECONDS)
        return json.loads(answer) if answer is not None else {"error": "git did not answer in time."}
    except (DriverError, StoreError, OSError) as error:
        return {"error": f"git cannot be asked here: {error}"}
    except ValueError:
        return {"error": "git gave no answer that makes sense."}


async def _answer(process, launch: bytes) -> bytes:
    process.stdin.write(launch)
    await process.stdin.drain()
    process.stdin.close()
    answer = b""
    while len(answer) < ANSWER_BYTES and (chunk := await process.stdout.read(1 << 16)):
        answer += chunk
    return answer


def _launch(workspace: Workspace, question: dict) -> dict:
    """Return the request for drivers/launch.py: a sandbox with tree and home read-only, running the query."""
    bwrap, (python, prefix) = _programs()
    tree = paths.tree_of(workspace)
    folders = {"tree": tree}
    home = paths.folder_of(workspace.pk) / "home"
    if home.is_dir() and not workspace.source.get("path"):
        folders["home"] = home
    if prefix is not None:
        folders["python"] = prefix
    is_root = os.getuid() == 0
    shown = {name: f"/tmp/{name}" if is_root else str(path) for name, path in folders.items()}
    binary = str(bwrap.path)
    if is_root and bwrap.folders:
        binary = f"/tmp/bwrap/{bwrap.path.relative_to(*bwrap.folders.values())}"
    arguments = ["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", *system_binds()]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/home/agent"]
    root = workspace.source.get("path") or "/workspace"
    arguments += ["--ro-bind", shown["tree"], root]
    if "home" in shown:
        arguments += ["--ro-bind", shown["home"], "/home/agent"]
    if prefix is not None:
        arguments += ["--ro-bind", shown["python"], str(prefix)]
    arguments += ["--remount-ro", "/", "--chdir", root, "--"]
    source = (HERE / "probe.py").read_text()
    uid = (workspace.uid or os.stat(tree).st_uid or NOBODY) if is_root else os.getuid()
    return {
        "argv": [binary, *arguments, python, "-I", "-S", "-c", source, json.dumps(question | {"root": root})],
        "env": {},
        "cwd": "/",
        "stage": {name: str(path) for name, path in (folders | bwrap.folders).items()} if is_root else {},
        "keep": [],
        "cgroups": [],
        "uid": uid,
        "gid": uid,
        "groups": [],
    }
