"""Submit the next revision of a workspace's source; workspaces/runner/operations/revise.py applies it."""

from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid
from workspaces import lifecycle, operations
from workspaces.changes.history import find_snapshot
from workspaces.lifecycle.activity import touch
from workspaces.models import Operation, RevisionHow, State
from workspaces.provisioning.git import addresses


def ask(
    workspace,
    source: dict,
    *,
    by: Actor,
    base: int | None = None,
    replace: bool = False,
    how: str | None = None,
    keep_notes: bool = False,
    then_resume: bool = False,
    then_check: bool = False,
) -> Operation:
    """Merge a revision into the files, or `replace` them; the operation's outcome lists the conflicts.

    `base` is the newest snapshot that the caller has seen: by default that of the last revision.
    `how`: merge | rebase | beside leaves a conflict in the files as git marks it; without it nothing is taken then.
    `keep_notes`: leave the notes of the workspace in the replaced files, which may be none ({}) then.
    `then_resume`: resume the workspace once the files are in place. `then_check`: run the checks of its environment
    then, if nothing conflicts.
    """
    source = lifecycle.check_source(workspace.team, source)
    if not source and not keep_notes:
        raise conflict("Give {git, ref?} or {upload}.")
    if how and (replace or (how != RevisionHow.MERGE and not source.get("git"))):
        raise invalid("An upload can only be merged, and `how` can't be combined with mode replace.", field="how")
    _refuse_another_source(workspace, source, by)
    lifecycle.must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="updated")
    if workspace.own_folder:
        raise conflict(f"{workspace.key} is a folder on this host; change its files there.")
    refuse_when_stopped(workspace.team_id)
    known = workspace.source.get("snapshot") or (workspace.baseline and workspace.baseline.number)
    if not (base or known):
        raise conflict(f"{workspace.key} has no snapshot of its source; give a snapshot as base.")
    args = {"source": source, "replace": replace, "base": find_snapshot(workspace, base or known).number}
    args |= {"base_given": True} if base else {}
    args |= {"how": how} if how else {}
    args |= {"keep_notes": True} if keep_notes else {}
    args |= {"then_resume": True} if then_resume else {}
    args |= {"then_check": True} if then_check else {}
    touch(workspace)
    return operations.submit("revise", workspace=workspace, by=by, args=args, exclusive=True)


def _refuse_another_source(workspace, source: dict, by: Actor):
    """Problem 403 for an agent that names another repository: a person's push goes to the workspace's source."""
    address = source.get("git")
    if not address or by.type != "agent" or address == workspace.remote:
        return
    known = addresses.check_git(workspace.remote).address if workspace.remote else ""
    if addresses.check_git(address).address != known:
        raise Problem(
            403,
            f"An agent can't change where {workspace.key} pushes to. A lead can take a revision of another repository.",
            code="other_source",
        )
