"""Check a team's store."""

from workspaces.runner.steps.store_work import StoreKind, snapshots_of
from workspaces.store import Store

MAX_PROBLEMS = 50  # recorded, and files recorded for each


class StoreCheck(StoreKind):
    """Check head, index and packs; with `full` every byte."""

    def work(self, operation, blobs, options):
        found = Store.open(blobs).verify(full=operation.args["full"], **options)
        problems = [problem for problem in found.problems if not problem.harmless]
        named = snapshots_of(operation.team_id) if problems else {}
        return {
            "ok": found.ok,
            "full": found.full,
            "objects": found.objects,
            "bytes": found.bytes,
            "count": len(problems),
            "problems": [_with_files(problem, named) for problem in problems[:MAX_PROBLEMS]],
        }


def _with_files(problem, named: dict[str, list]) -> dict:
    """Return a problem with the damaged files, each as [workspace key, snapshot number, path]."""
    hurts = [
        [key, number, path.decode(errors="replace")]
        for tree, path in problem.hurts
        for key, number in named.get(tree, ())
    ]
    return {"where": problem.where, "what": problem.what, "count": len(hurts), "hurts": hurts[:MAX_PROBLEMS]}
