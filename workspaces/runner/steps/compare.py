"""Compare the live tree of a workspace with its newest snapshot; the result is the proof."""

from dashboard.database import clock
from workspaces.models import Snapshot, Workspace
from workspaces.runner import snapshots
from workspaces.runner.job import Job
from workspaces.store import StoreError

BY_STAT = "size and times, and content where these differ"
BY_CONTENT = "every byte"
MAX_NAMED = 100  # differing paths listed in a proof


def compare_files(workspace, tree, against: Snapshot | None = None, *, full=False, lend=True, owner=None) -> dict:
    """Compare the live tree with a snapshot, by default the newest one; the other options as for `Store.compare`.

    Return {at, snapshot, entries, differ, names, how}: `differ` counts the differing paths, `names` lists the first.
    """
    against = against or workspace.head
    if against is None:
        return {"at": clock.now().isoformat(), "snapshot": None, "entries": 0, "differ": 0, "names": [], "how": "none"}
    found = snapshots.store_of(workspace).compare(against.tree_hex, tree, full=full, lend=lend, owner=owner)
    return {
        "at": clock.now().isoformat(),
        "snapshot": against.number,
        "entries": found.entries,
        "differ": len(found.differ),
        "names": [path.decode("utf-8", "backslashreplace") or "." for path in found.differ[:MAX_NAMED]],
        "how": BY_CONTENT if full else BY_STAT,
    }


async def take_missing_snapshot(job):
    """Take the missing end snapshot, if any, before anything starts. Raise StoreError if it still fails."""
    if not job.workspace.missing_snapshot:
        return
    try:
        await job.snapshot("end", "files of the last run")
    except StoreError as error:
        raise StoreError(f"A snapshot of its last state must be taken before anything starts: {error}") from error


async def compare_or_alarm(job: Job, *, full: bool = False) -> tuple[dict, dict]:
    """Compare the live tree with the newest snapshot; return (proof, alarm), the alarm {} when nothing differs.

    When something differs, the files are first kept as a `found` snapshot, before anything can change them.
    """
    async with job.open_tree() as tree:
        proof = await job.thread(compare_files, job.workspace, tree, full=full, lend=False)
    if not proof["differ"]:
        return proof, {}
    try:
        found = await job.snapshot("found", f"as found, not as snapshot {proof['snapshot']}")
    except StoreError as error:
        return proof, proof | {"found": None, "not_kept": str(error)}
    return proof, proof | {"found": found.number}


def save_proof(workspace, proof: dict, alarm: dict):
    """Save a proof and its alarm, if any. An alarm stays until a person answers it, whatever later proofs find."""
    rows = Workspace.objects.filter(pk=workspace.pk)
    rows.update(proof=proof, **({"alarm": alarm} if alarm else {}))
