"""Take a revision into a workspace's git repository: git fetches and merges, or rebases, as `git pull` does.

The source is fetched beside the workspace first, with Handrail's own git; git/merge.py has the steps in its repository.
Whatever goes wrong, the safety snapshot is restored: the files are as before the revision, or as git leaves them.
"""

import os
import re
import shutil
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from dashboard.workers.failpoints import failpoint
from workspaces.changes import history
from workspaces.changes.guarded import needs_a_person
from workspaces.host import paths as workspace_paths
from workspaces.manifests.git_state import git_of
from workspaces.models import ReasonCode
from workspaces.operations import needs_approval
from workspaces.provisioning import source_history
from workspaces.provisioning.git import addresses, cloning, lfs, lfs_filter, mirroring, names
from workspaces.provisioning.git.running import git_in
from workspaces.runner import snapshots, source_files
from workspaces.runner.git.merge import BESIDE, MERGE, CannotMerge, Conflict, Fetched, Merging
from workspaces.runner.operations.snapshot import snapshot_made_since
from workspaces.runner.refusals import CONFLICTS_NAMED, Refused
from workspaces.runner.run_spec import uid_of
from workspaces.secrets.team_credentials import credential_of
from workspaces.store import Cancelled, LocalTree, StoreError
from workspaces.store.diff import MODE, Change, reviewed
from workspaces.store.objects import FOLDER

COMMIT = re.compile(r"[0-9a-f]{40,64}")
PERSONS = "It would change secret or protected files. A person has to take this revision."


def is_for(workspace, source: dict, tree) -> bool:
    """Return whether git merges the revision: both it and the workspace's files come from a git repository."""
    if not source.get("git") or not workspace.remote:
        return False
    with tree.files() as files:
        try:
            files.stat(b".git")
        except OSError:
            return False
    return True


def fetch(workspace, source: dict, tree, cancel) -> dict:
    """Clone the source beside the workspace; return the source with its commit and what `take` needs."""
    folder = _mirror_of(workspace)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    found = addresses.check_git(source["git"], source.get("ref", ""))
    credential = credential_of(workspace.team, found)
    coming = mirroring.mirror(found, folder, credential=credential, cancel=cancel)
    own = addresses.check_git(workspace.remote).address == found.address
    if pulling := source_files.pulling_for(workspace, cancel):
        head, wanted = _ends(tree, folder, coming.sha, is_asked=bool(found.ref) or not own, cancel=cancel)
        pulling.into(found, folder, head, wanted, partial(_missing, tree))
        mirroring.make_readable(folder)
        if pulling.has_files:
            source = source | {"lfs": lfs.together(workspace.source.get("lfs"), pulling.told)}
    return {"source": source, "coming": coming, "remote": found.address, "is_origin": own}


def _ends(tree, mirror: Path, coming: str, *, is_asked: bool, cancel) -> tuple[str, str]:
    """Return the commits of the tree and of the mirror between which a merge makes files others, "" if not known.

    The second one is chosen as git/merge_step.py does, by what the repository says of its current branch.
    """
    with tree.files() as files:
        here, upstream = git_of(files)
    head, name = (here or {}).get("sha") or "", (upstream or {}).get("name", "")
    head = head if COMMIT.fullmatch(head) else ""  # it may have been written to be an option of git's
    if is_asked or not name.startswith("origin/"):
        return head, coming
    with git_in(mirror, cancel) as git:
        ref = f"{names.HEADS}{name.removeprefix('origin/')}"
        return head, git(*cloning.VERIFY, f"{ref}^{{commit}}", check=False) or coming


def _missing(tree, contents: list[lfs.Content]) -> list[lfs.Content]:
    """Return the contents of git-lfs's files that the tree does not keep, whatever the source says of it."""

    def is_kept(content: lfs.Content) -> bool:
        with suppress(OSError, StoreError):
            return files.stat(os.fsencode(lfs_filter.place_of(".git", content.oid))).st_size == content.size
        return False

    with tree.files() as files:
        return [content for content in contents if not is_kept(content)]


def clean_up(workspace) -> None:
    for folder in (_mirror_of(workspace), _copy_of(workspace)):
        shutil.rmtree(folder, ignore_errors=True)


def _mirror_of(workspace) -> Path:
    return workspace_paths.folder_of(workspace.pk) / "revision"


def _copy_of(workspace) -> Path:
    return workspace_paths.folder_of(workspace.pk) / "merging"


async def merge_fetched(job, fetched: dict, kind) -> dict:
    """Merge what was fetched; return the outcome. On any failure the files are as before."""
    revision = job.workspace.source.get("revision", 1) + 1
    safety = await job.snapshot("safety", f"before revision {revision}", **job.watch())
    await job.progress(step="merge", safety_snapshot=safety.number, git=True)
    failpoint("revise.saved")
    try:
        told = await _merged(job, fetched, safety)
        await job.progress(step="snapshot", taken=told)
    except BaseException:
        await _restore(job, safety)
        raise
    failpoint("revise.merged")
    return await _finished(job, safety, told, kind)


async def recover(job, kind) -> dict:
    """After a runner crash: finish a revision that is in the files whole, else restore what was there before it."""
    progress = job.operation.progress
    safety = await job.thread(history.find_snapshot, job.workspace, progress["safety_snapshot"])
    if told := progress.get("taken"):
        return await _finished(job, safety, told, kind)
    await job.snapshot("safety", "as the runner left it when it stopped", unless_same=True)
    await _restore(job, safety)
    reason = f"The runner stopped while git merged. The files are as they were before, in snapshot {safety.number}."
    raise Refused(reason, ReasonCode.RUNNER_STOPPED, safety_snapshot=safety.number)


async def _merged(job, fetched: dict, safety) -> dict:
    """Let git fetch and merge in the tree; return what it did. Raise Refused before a file of the tree is changed."""
    how, by = job.args.get("how"), job.by
    remote, is_origin = fetched["remote"], fetched["is_origin"]
    rehearse = how is None or (how != BESIDE and by.type == "agent")
    try:
        async with _place(job, safety) as tree:
            where = job.workspace, tree.path, _mirror_of(job.workspace), remote
            steps = await job.thread(Merging, *where, is_origin=is_origin)
            asked = bool(fetched["source"].get("ref"))
            came = await steps.fetch(fetched["coming"], asked=asked, how=how or MERGE, rehearse=rehearse)
            failpoint("revise.fetched")
            if job.cancel.is_set():
                raise Cancelled("cancelled before git merged")
            conflicts, head = [], came.head
            if how != BESIDE:
                _check(job, came, safety, how)
                head, conflicts = await steps.merge(came, how or MERGE)
                failpoint("revise.placed")
                if by.type == "agent":
                    _refuse_to_agents(by, await job.thread(_changed_files, job.workspace, safety, tree), safety)
    except CannotMerge as error:
        raise _refused(str(error), safety, [Conflict(path, []) for path in error.paths]) from None
    return {
        "source": _source_after(job.workspace, fetched, came.coming, how),
        "merged": how != BESIDE and not conflicts,
        "conflicts": named(conflicts),
        "sha": head,
    }


def _source_after(workspace, fetched: dict, sha: str, how: str | None) -> dict:
    """Return the workspace's source once the commit is merged; that of another repository leaves it as it was.

    So do commits that are brought beside. What the source says of its submodules and the like stays: a merge leaves
    their files as they are. An upload is later merged from the files that the source first came with, as before.
    """
    names = ("ref", source_history.TREE, *addresses.TOLD)
    kept = {name: workspace.source[name] for name in names if name in workspace.source} | {"git": workspace.remote}
    if not fetched["is_origin"] or how == BESIDE:
        return kept
    asked = {name: value for name, value in fetched["source"].items() if name != "ref" or value}
    return {"ref": ""} | kept | asked | {"sha": sha}


def _check(job, came: Fetched, safety, how: str | None) -> None:
    """Raise Refused for a conflict that nobody asked to be left in the files, and for what needs a person."""
    if came.conflicts and how is None:
        words = "1 path was" if len(came.conflicts) == 1 else f"{len(came.conflicts):,} paths were"
        raise _refused(f"{words} changed here and in the revision; nothing was taken.", safety, came.conflicts)
    if job.by.type == "agent":
        _refuse_to_agents(job.by, came.changed, safety)


def _refuse_to_agents(by, changed: list[bytes], safety) -> None:
    guarded = needs_approval.is_unapproved(by) and any(map(needs_a_person, changed))
    if guarded or any(map(needs_approval.is_hook_file, changed)):
        raise Refused(PERSONS, safety_snapshot=safety.number)


def _changed_files(workspace, safety, tree: LocalTree) -> list[bytes]:
    """Return the files that are not as in the safety snapshot: what git did may be other than it rehearsed."""
    store = snapshots.store_of(workspace)
    found = []
    for change in _differing(store, safety.tree_hex, store.snapshot(tree).tree):
        if not all(entry is None or entry.kind == FOLDER for entry in (change.old, change.new)):
            found += {change.path, change.old_path or change.path}
    return found


def _refused(reason: str, safety, conflicts: list[Conflict]) -> Refused:
    if not conflicts:
        return Refused(f"{reason.rstrip('.')}. Nothing was taken.", safety_snapshot=safety.number)
    told = {"conflicts": named(conflicts), "safety_snapshot": safety.number}
    return Refused(reason, ReasonCode.CONFLICTS, **told)


def named(conflicts: list[Conflict]) -> list[dict]:
    return [history.path_fields("path", found.path) | {"lines": found.lines} for found in conflicts[:CONFLICTS_NAMED]]


@asynccontextmanager
async def _place(job, safety):
    """Yield the tree of this host in which git works: the workspace's own, or a copy of one that is in a guest.

    What changed in the copy is then put into the guest, all of it or nothing.
    """
    async with job.open_tree() as tree:
        if isinstance(tree, LocalTree):
            yield tree
            return
        store = await job.thread(snapshots.store_of, job.workspace)
        copy = await job.thread(_make_copy, store, safety.tree_hex, _copy_of(job.workspace))
        yield LocalTree(copy)
        await job.thread(_put_in, job, store, safety.tree_hex, tree, copy)


def _make_copy(store, tree_id: str, folder: Path) -> Path:
    """Make a folder with a copy of the tree, and with all that making it leaves if the runner is killed."""
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / "tree"
    copy.mkdir(mode=0o755, parents=True)
    store.restore(tree_id, LocalTree(copy), journal=folder / "journal")
    return copy


def _put_in(job, store, before: str, tree, copy: Path) -> None:
    after = store.snapshot(LocalTree(copy)).tree
    differ = set()
    for change in _differing(store, before, after):
        differ |= {change.path, change.old_path or change.path}
    owner = job.driver.file_owner(uid_of(job.workspace).get("uid"))
    journal = snapshots.journal_of(job.workspace)
    store.restore(after, tree, journal=journal, paths=sorted(differ), owner=owner)


def _differing(store, before: str, after: str) -> list[Change]:
    """Return what differs, but for entries of which only the owner is another."""
    found = reviewed(store.diff(before, after))
    return [change for change in found if change.kind != MODE or change.old.mode != change.new.mode]


async def _restore(job, safety) -> None:
    """Make the files those of the safety snapshot."""
    store = await job.thread(snapshots.store_of, job.workspace)
    async with job.open_tree() as tree:
        await job.thread(tree.recover, snapshots.journal_of(job.workspace))
        await job.thread(store.restore, safety.tree_hex, tree, journal=snapshots.journal_of(job.workspace))


async def _finished(job, safety, told: dict, kind) -> dict:
    """Snapshot the merged files; return the outcome."""
    revision = job.workspace.source.get("revision", 1) + 1
    label = f"revision {revision}"
    taken = await job.thread(snapshot_made_since, job, "revision", label) or await kind.snapshot(job, label, safety)
    failpoint("revise.taken")
    source = told["source"] | {"revision": revision, "snapshot": taken.number}
    return told | {
        "ok": True,
        "revision": revision,
        "source": source,
        "snapshot": taken.number,
        "safety_snapshot": safety.number,
        **await kind.sums(job, safety, taken, None),
    }
