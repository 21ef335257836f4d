"""Take the next revision of a workspace's source: merge it into the files or replace them.

In a git repository git itself merges a revision from git (steps/revise_git.py), elsewhere three trees are merged
(steps/revise_files.py). A path that both sides changed to different results is a conflict: it is left in the files if
the caller said how to take the revision, else nothing is taken.
"""

import shutil
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from django.db import transaction

from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.changes import file_writes, history
from workspaces.drivers.base import DriverError
from workspaces.host import paths as workspace_paths
from workspaces.host import shared_files
from workspaces.models import ReasonCode, RevisionHow, Snapshot, Workspace
from workspaces.operations import needs_approval, uploads_elsewhere
from workspaces.operations.needs_approval import HOOK_FILES
from workspaces.provisioning import source_history, uploads
from workspaces.runner import files, notes, snapshots, source_files
from workspaces.runner.operations.restore import Restore, resume_if_asked
from workspaces.runner.refusals import CONFLICTS_NAMED, Refused
from workspaces.runner.run_spec import uid_of
from workspaces.runner.snapshot_tree import KeptFiles
from workspaces.runner.steps import revise_files, revise_git
from workspaces.services import commands
from workspaces.services.notes import versions
from workspaces.store import LocalTree, StoreError, import_archive
from workspaces.store.diff import MODE, reviewed
from workspaces.store.text import inside_git

MAX_NOTES = 1 << 20  # bytes of the notes that a clean start keeps


class Revise(Restore):
    """Merge or replace the files with a new revision; freezes and takes a safety snapshot first, like a restore.

    args: {source, replace: bool, base: snapshot number[, base_given: True][, how: "merge" | "rebase" | "beside"]
    [, keep_notes: True]}.
    Without `how` a revision that conflicts is not taken.
    """

    when_cancelled = "Nothing was changed."
    when_store_fails = "The revision was not taken: "
    counts_git = False

    async def perform(self, job):
        workspace = await job.refresh()
        source = job.args["source"]
        tree = await job.readable_tree()
        if not job.args["replace"] and await job.thread(revise_git.is_for, workspace, source, tree):
            try:
                await job.progress(step="files")
                job.fetched = await job.thread(revise_git.fetch, workspace, source, tree, job.cancel)
                return await super().perform(job)
            finally:
                await job.thread(revise_git.clean_up, workspace)
        if job.args.get("how", RevisionHow.MERGE) != RevisionHow.MERGE:
            raise Refused(f"{workspace.key} has no git repository that commits could be brought into.")
        noted = await job.thread(_noted, workspace) if job.args.get("keep_notes") else None
        job.fetched = await job.thread(_fetch, workspace, source, job.watch(step="files"), noted)
        return await super().perform(job)

    async def recover(self, job):
        """Finish or undo a merge of git's; anything else is done once more, after an interrupted swap of files."""
        if not job.operation.progress.get("git"):
            return await super().recover(job)
        await job.refresh()
        await job.recover_tree()
        job.fetched = None
        try:
            return await super().perform(job)
        finally:
            await job.thread(revise_git.clean_up, job.workspace)

    async def _put_back(self, job):
        workspace, replace = job.workspace, job.args["replace"]
        if job.operation.progress.get("git"):
            return await revise_git.recover(job, self)
        if isinstance(job.fetched, dict):
            return await revise_git.merge_fetched(job, job.fetched, self)
        source, tree_id = job.fetched
        if workspace.remote and not source.get("git"):
            source = source | {"remote": workspace.remote, "default_branch": workspace.default_branch}
        revision = workspace.source.get("revision", 1) + 1
        base = await job.thread(history.find_snapshot, workspace, job.args["base"])
        safety = await self._before(job, revision)
        await job.progress(step="restore", safety_snapshot=safety.number)
        store = await job.thread(snapshots.store_of, workspace)
        prepare = self._replaced if replace else self._merged
        wanted, paths, told = await prepare(job, store, base, safety, tree_id)
        how = {"journal": snapshots.journal_of(workspace), "owner": _owner(job), **job.watch()}
        how["keep"] = HOOK_FILES if job.by.type == "agent" else ()
        async with job.open_tree() as tree:
            done = await job.thread(store.restore, wanted, tree, paths=paths, **how)
        failpoint("revise.placed")
        taken = await self.snapshot(job, f"revision {revision}", safety)
        return {
            "ok": True,
            "revision": revision,
            "source": source | {"revision": revision, "snapshot": taken.number, source_history.TREE: tree_id},
            "snapshot": taken.number,
            "safety_snapshot": safety.number,
            **await self.sums(job, safety, taken, done),
            **told,
        }

    async def _before(self, job, revision: int) -> Snapshot:
        """Return the safety snapshot; after a runner crash the one taken then, as the files may have the revision."""
        if number := job.operation.progress.get("safety_snapshot"):
            if not job.driver.capabilities.freeze:
                await job.snapshot("safety", f"what came while revision {revision} was taken")
            return await job.thread(history.find_snapshot, job.workspace, number)
        return await job.snapshot("safety", f"before revision {revision}", **job.watch())

    async def snapshot(self, job, label: str, safety) -> Snapshot:
        """Snapshot the files once the revision is in them."""
        try:
            return await job.snapshot("revision", label)
        except (StoreError, DriverError, OSError) as error:
            reason = (
                f"The files of the revision are in place, but a snapshot of them could not be taken: {error}. "
                f"The files before are in snapshot {safety.number}."
            )
            raise Refused(reason, ReasonCode.STORE, safety_snapshot=safety.number, in_place=True) from error

    async def _merged(self, job, store, base, safety, coming: str) -> tuple[str, list[bytes], dict]:
        """Return (the tree to put in place, the paths of it, what the outcome says of the merge)."""
        name = f"revision {job.workspace.source.get('revision', 1) + 1}"
        how = {"name": name, "by": job.by, "cancel": job.cancel}
        base = base if job.args.get("base_given") else None
        merge = await job.thread(revise_files.merged, job.workspace, store, base, safety.tree_hex, coming, **how)
        conflicts = revise_files.conflict_fields(merge.conflicts)
        if conflicts and not job.args.get("how"):
            raise _refused("here and in the revision", safety, conflicts, len(merge.conflicts))
        if await job.thread(revise_files.needs_a_person, store, safety.tree_hex, merge, by=job.by):
            raise Refused(revise_git.PERSONS)
        return merge.tree, merge.paths, {"merged": not conflicts, "conflicts": conflicts}

    async def _replaced(self, job, store, base, safety, coming: str) -> tuple[str, None, dict]:
        told = await job.thread(_compare, store, base.tree_hex, safety.tree_hex, coming)
        if told["conflicts"]:
            named = [history.path_fields("path", path) for path in told["conflicts"][:CONFLICTS_NAMED]]
            raise _refused(f"here since snapshot {base.number}", safety, named, len(told["conflicts"]))
        if needs_approval.is_unapproved(job.by) and told["guarded"]:
            raise Refused(revise_git.PERSONS)
        return coming, None, {}

    def finish(self, job, outcome):
        if not outcome["ok"]:
            if outcome.get("in_place"):
                changed = {"missing_snapshot": outcome["reason"], "disk_generation": job.workspace.disk_generation + 1}
                Workspace.objects.filter(pk=job.workspace.pk).update(**changed)
            data = {"reason": outcome["reason"][:1000]}
            lifecycle.record(job.workspace, job.by, "workspace.revision_refused", data)
            return
        with Team.objects.turn(job.workspace.team_id):
            now = Workspace.objects.get(pk=job.workspace.pk)
            source = source_history.replaced(now, outcome["source"], until=outcome["safety_snapshot"])
            changed = {"source": source, "disk_generation": job.workspace.disk_generation + 1}
            if job.args["replace"]:
                changed["baseline"] = history.find_snapshot(job.workspace, outcome["snapshot"])
            Workspace.objects.filter(pk=job.workspace.pk).update(**changed)
            names = ("revision", "snapshot", "safety_snapshot", "created", "changed", "removed")
            data = {name: outcome[name] for name in names}
            lifecycle.record(job.workspace, job.by, "workspace.revised", data)
            resume_if_asked(job)
            _check_if_asked(job, outcome)


def _check_if_asked(job, outcome: dict):
    """Start the checks that were asked for with the revision; a workspace that is not up has none started."""
    if job.args.get("then_check") and not outcome.get("conflicts"):
        for name in job.workspace.environment.checks:
            with suppress(Problem), transaction.atomic():
                commands.run_command(job.workspace, {"check": name}, by=job.by)


def _refused(where: str, safety, conflicts: list[dict], count: int) -> Refused:
    words = "1 path was" if count == 1 else f"{count:,} paths were"
    reason = f"{words} changed {where}; nothing was taken."
    return Refused(reason, ReasonCode.CONFLICTS, conflicts=conflicts, safety_snapshot=safety.number)


def _owner(job) -> tuple[int, int] | None:
    return job.driver.file_owner(uid_of(job.workspace).get("uid"))


def _noted(workspace) -> bytes | None:
    """Return the file of notes in the newest snapshot, None if it has none."""
    opened = KeptFiles(snapshots.store_of(workspace), workspace.head.tree_hex)
    return notes.read(opened, versions.PATH, MAX_NOTES)


def _fetch(workspace, source: dict, watch: dict, noted: bytes | None = None) -> tuple[dict, str]:
    """Fetch a revision into the store; `noted` is put into it as the file of notes.

    Return (the source, with the commit it resolved to; the store tree id of its files, kept for an hour).
    """
    folder = workspace_paths.folder_of(workspace.pk) / "revision"
    for left in folder.parent.glob("revision*"):
        _remove_beside(left)
    folder.mkdir(mode=0o755)
    try:
        if upload := source.get("upload"):
            with shared_files.opened(uploads_elsewhere.find(workspace.team_id, upload)) as archive:
                import_archive(archive, folder, uploads.LIMITS, **watch)
        elif source:
            source = source_files.clone(workspace, source, folder, watch["cancel"])
        tree = LocalTree(folder)
        if noted is not None:
            files.write(tree, versions.PATH, noted)
        return source, snapshots.store_of(workspace).snapshot(tree, cancel=watch["cancel"]).tree
    finally:
        _remove_beside(folder)


def _remove_beside(folder: Path):
    """Remove a folder while the operation goes on: that takes as long as all the rest of it.

    What a runner that stops leaves is removed with the next revision, or with the workspace.
    """
    gone = folder.with_name(f"revision-{uuid.uuid4().hex}")
    with suppress(FileNotFoundError):
        folder.rename(gone)
    threading.Thread(target=shutil.rmtree, args=(gone, True), name="revision-remove", daemon=True).start()


def _compare(store, base: str, live: str, coming: str) -> dict:
    """Return {conflicts: paths that a replacement changes and that were changed here since `base`, guarded}.

    `guarded`: those that need a person for an agent.
    """
    differ, taken = set(), []
    for change in reviewed(store.diff(live, coming)):
        if not _is_of_owner_alone(change):
            taken.append(change)
            differ |= {change.path, change.old_path or change.path}
    since = set()
    for change in reviewed(store.diff(base, live)):
        if _is_somebodys(change.path):
            since |= {change.path, change.old_path or change.path}
    return {"conflicts": sorted(differ & since), "guarded": sorted(file_writes.guarded_of(taken))}


def _is_of_owner_alone(change) -> bool:
    """Return True for a change of owner only: fetched files belong to Handrail's user until they are in place."""
    return change.kind == MODE and change.old.mode == change.new.mode


def _is_somebodys(path: bytes) -> bool:
    """Return True for a path whose change is the user's or an agent's work.

    Files in `.git` change when git only reads; of those, only a moved branch counts.
    """
    return not inside_git(path) or path.startswith(b".git/refs/heads/")
