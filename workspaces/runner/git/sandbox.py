"""Query a workspace's git repository, whose content, configuration and hooks the agent controls.

Git therefore runs in a sandbox made for one query: the tree and the agent's home read-only, nothing else of this host,
no network, as the workspace's own user, for two seconds, or for as many as who asks can wait; a bundle may take ten
minutes. Whatever the repository makes git run there reaches nothing and ends with the sandbox; objects or folders that
it names outside the tree do not exist there (docs/decisions/0010).
"""

import asyncio
import contextlib
import functools
import io
import json
import marshal
import os
import sys
from pathlib import Path
from typing import BinaryIO

from workspaces.drivers.base import DriverError
from workspaces.drivers.sandbox.driver import NOBODY, find_bwrap, find_python, system_binds
from workspaces.host import paths
from workspaces.models import Lfs, Workspace
from workspaces.runner.git import inside
from workspaces.runner.snapshot_tree import KeptTree
from workspaces.store import StoreError
from workspaces.store.guest.client import RemoteTree

SECONDS, GUEST_SECONDS = 2.0, 10.0  # an emulated guest is slow
MAX_SECONDS = 60.0  # for who can wait
LATE = "git did not answer in time."  # as probe.py says it too
BUNDLE_SECONDS = 600.0
ANSWER_BYTES, SAID_BYTES = 4 << 20, 2000
CHANGE_BYTES = 64 << 20  # of an answer that lists the paths which a merge changes
HERE = Path(__file__).resolve().parent
LAUNCH = HERE.parent.parent / "drivers" / "launch.py"


@functools.cache
def _programs():
    return find_bwrap(), find_python()


class NoAnswer(Exception):
    """A query failed; the message is a sentence."""


class Answer:
    """What a query prints, at most `limit` bytes of it: the workspace decides how much that is."""

    def __init__(self, file: BinaryIO, limit: int):
        self.file, self.left = file, limit

    def take(self, piece: bytes) -> None:
        self.left -= len(piece)
        if self.left < 0:
            raise NoAnswer("git's answer is too large.")
        self.file.write(piece)


async def ask(workspace: Workspace, tree, question: dict, *, seconds: float = SECONDS) -> dict:
    """Run one query of git/probe.py. Return its answer, or {"error": sentence} whatever the tree holds.

    A question can say `within` how many seconds it wants its answer. `late` of an error: git had too little time.
    """
    printed, seconds = io.BytesIO(), max(seconds, min(question.get("within", 0.0), MAX_SECONDS))
    try:
        await _run(workspace, tree, question, seconds, Answer(printed, ANSWER_BYTES))
        told = json.loads(printed.getvalue())
        return told | {"late": True} if told.get("error") == LATE else told
    except NoAnswer as error:
        return {"error": str(error), "late": str(error) == LATE}
    except ValueError:
        return {"error": "git gave no answer that makes sense."}


async def change(
    workspace: Workspace, tree: Path, program: str, request: dict, *, seconds: float, source: Path
) -> dict:
    """Run a program of this folder that may write the tree, a folder of this host; `source` is /source, read-only.

    Return its answer. Raise NoAnswer if it gives none: the tree may then be half changed.
    """
    printed = io.BytesIO()
    try:
        asked = await asyncio.to_thread(_asked, workspace, request, seconds)
        launch = await asyncio.to_thread(_launch, workspace, program, asked, tree, source)
        _, said = await _talk(launch, seconds, Answer(printed, CHANGE_BYTES))
        return json.loads(printed.getvalue())
    except (DriverError, OSError) as error:
        raise NoAnswer(f"git cannot work here: {error}") from None
    except ValueError:
        raise NoAnswer(f"git gave no answer that makes sense: {said}") from None


async def bundle(workspace: Workspace, tree, refs: list[str], into: Path, limit: int) -> None:
    """Write a bundle of refs to a file. Raise NoAnswer with what git said.

    The bundle is as untrusted as the repository: whoever uses it checks its objects and its commit.
    """
    question = {"what": "bundle", "own": True, "refs": refs}
    with open(into, "wb") as file:
        status, said = await _run(workspace, tree, question, BUNDLE_SECONDS, Answer(file, limit))
    if status != 0:
        raise NoAnswer(said or "it said nothing.")


async def _run(workspace, tree, question: dict, seconds: float, answer: Answer) -> tuple[int | None, str]:
    """Run one query; return its exit status and the end of what it said on standard error."""
    if isinstance(tree, KeptTree):
        raise NoAnswer(f"git can be asked when {workspace.key} is up.")
    try:
        if isinstance(tree, RemoteTree):
            seconds = max(seconds, GUEST_SECONDS)
            asked = await asyncio.to_thread(_asked, workspace, question, seconds)
            return await asyncio.to_thread(_run_in_guest, tree, asked, seconds, answer)
        asked = await asyncio.to_thread(_asked, workspace, question, seconds)
        launch = await asyncio.to_thread(_launch, workspace, "probe.py", asked, paths.tree_of(workspace))
    except (DriverError, StoreError, OSError) as error:
        raise NoAnswer(f"git cannot be asked here: {error}") from None
    return await _talk(launch, seconds, answer)


async def _talk(launch: dict, seconds: float, answer: Answer) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(LAUNCH),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={}, start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            talk = _printed(process, marshal.dumps(launch), answer), _tail(process.stderr), process.wait()
            _, said, status = await asyncio.gather(*talk)
        return status, said
    except TimeoutError:
        raise NoAnswer(LATE) from None
    except OSError:
        raise NoAnswer("git gave no answer that makes sense.") from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # it may have just exited
            process.kill()  # bwrap --die-with-parent ends everything inside
        await process.wait()


def _asked(workspace: Workspace, question: dict, seconds: float) -> dict:
    """Return the question as the probe reads it: in how many seconds, and with which filter of git-lfs's files."""
    is_pulled = workspace.environment.lfs == Lfs.PULLED
    return question | {"seconds": seconds * 0.8, "lfs": inside.lfs_source().decode() if is_pulled else ""}


def _run_in_guest(tree: RemoteTree, question: dict, seconds: float, answer: Answer) -> tuple[int | None, str]:
    """Run the query inside the guest, which isolates it from this host.

    There store/guest/exec.py isolates it from the agent's programs.
    """
    asked = question | {"root": "/workspace"}
    argv = ["/usr/bin/python3", "-I", "-S", "-c", (HERE / "probe.py").read_text(), json.dumps(asked)]
    ended = tree.run_read_only(argv, seconds, answer.take)
    if ended["late"]:
        raise NoAnswer(LATE)
    return ended.get("status"), _last_line(str(ended.get("said", "")))


async def _printed(process, launch: bytes, answer: Answer) -> None:
    process.stdin.write(launch)
    await process.stdin.drain()
    process.stdin.close()
    while piece := await process.stdout.read(1 << 20):
        answer.take(piece)


async def _tail(stream) -> str:
    kept = b""
    while piece := await stream.read(1 << 16):
        kept = (kept + piece)[-SAID_BYTES:]
    return _last_line(kept.decode("utf-8", "replace"))


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "")[:300]


def _launch(workspace: Workspace, program: str, question: dict, tree: Path, source: Path | None = None) -> dict:
    """Return the request for drivers/launch.py: a sandbox with tree and home read-only, running the query.

    With a `source` beside it, as /source, the tree can be written.
    """
    bwrap, (python, prefix) = _programs()
    folders = {"tree": tree}
    if source is not None:
        folders["source"] = source
    home = paths.folder_of(workspace.pk) / "home"
    if home.is_dir() and not workspace.own_folder:
        folders["home"] = home
    if prefix is not None:
        folders["python"] = prefix
    is_root = os.getuid() == 0
    shown = {name: f"/tmp/{name}" if is_root else str(path) for name, path in folders.items()}
    binary = str(bwrap.path)
    if is_root and bwrap.folders:
        binary = f"/tmp/bwrap/{bwrap.path.relative_to(*bwrap.folders.values())}"
    root = workspace.own_folder or "/workspace"
    arguments = _arguments(shown, root, prefix)
    text = (HERE / program).read_text()
    own = workspace.uid if tree == paths.tree_of(workspace) else 0  # a copy has the users of the guest that it is of
    uid = (own or os.stat(tree).st_uid or NOBODY) if is_root else os.getuid()
    return {
        "argv": [binary, *arguments, python, "-I", "-S", "-c", text, json.dumps(question | {"root": root})],
        "env": {},
        "cwd": "/",
        "stage": {name: str(path) for name, path in (folders | bwrap.folders).items()} if is_root else {},
        "keep": [],
        "cgroups": [],
        "uid": uid,
        "gid": uid,
        "groups": [],
    }


def _arguments(shown: dict[str, str], root: str, python: Path | None) -> list[str]:
    """Return bwrap's arguments: what is seen inside, and where. The tree can be written if there is a source."""
    arguments = ["--unshare-user", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", *system_binds()]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/home/agent"]
    arguments += ["--bind" if "source" in shown else "--ro-bind", shown["tree"], root]
    if "source" in shown:
        arguments += ["--ro-bind", shown["source"], "/source"]
    if "home" in shown:
        arguments += ["--ro-bind", shown["home"], "/home/agent"]
    if python is not None:
        arguments += ["--ro-bind", shown["python"], str(python)]
    return [*arguments, "--remount-ro", "/", "--chdir", root, "--"]
