"""Evidence for deletions: number and size of the files, and whether git tracks them."""

import json

from approvals.evaluation.calls import beneath
from approvals.evaluation.own_verbs import gathers
from dashboard.text.counts import counted
from dashboard.text.visible_text import plain_size
from workspaces.operations import runner_client

from .argv import after, git_verb, is_known, parse
from .findings import UNKNOWN, Finding

PROGRAMS = ("rm", "rmdir", "unlink", "shred")


def is_delete(step: dict) -> bool:
    return step.get("what") == "delete" or is_clean(step)


def is_clean(step: dict) -> bool:
    return git_verb(step["words"]) == "clean"


def delete(place, step: dict) -> Finding:
    """Return what a sub-command deletes: for `rm` and the like its operands, for other programs an upper limit."""
    if is_clean(step):
        return clean(place, step)
    found = after(step["words"], PROGRAMS)
    if found is None:
        return _weighed(place, step, step["targets"], at=place.root, most=True)
    operands = parse(found[1], ("-n", "--iterations") if found[0] == "shred" else ()).operands
    return _weighed(place, step, operands, at=step.get("cwd"), most=False)


def _weighed(place, step: dict, operands: list[str], *, at: str | None, most: bool) -> Finding:
    finding = Finding(step["line"], step["text"], [])
    known = [operand for operand in operands if is_known(operand)]
    if not at or not known:
        finding.says.append("Deletes files. Which ones is unknown until it runs.")
        return finding
    paths = {operand: beneath(operand, at, place.root) for operand in known}
    patterns = [path for path in paths.values() if path is not None]
    if patterns:
        answer = place.ask("tree-stats", {"patterns": patterns})
        say_weight(finding, answer, "Deletes at most" if most else "Deletes")
    if outside := [operand for operand, path in paths.items() if path is None]:
        finding.says.append(f"Outside the workspace, not checked: {', '.join(outside[:5])}.")
    if len(known) < len(operands):
        finding.says.append("Deletes more files, unknown until it runs.")
    return finding


@gathers("Handrail.Delete")
def whole(place, arguments: dict, text: str) -> Finding:
    """Return the evidence for moving the workspace to the trash."""
    finding = Finding(1, text, [])
    say_weight(finding, place.ask("tree-stats", {"patterns": [""]}), "Moves")
    finding.names = []
    finding.says.append("A final snapshot is kept until the trash is emptied.")
    return finding


def clean(place, step: dict) -> Finding:
    """Return what `git clean` with these flags would delete, as git lists it."""
    finding = Finding(step["line"], step["text"], [])
    parsed = parse(after(step["words"], ("git",))[1], ("-C", "-c", "-e", "--exclude"))
    where, *paths = parsed.operands
    folder = beneath((parsed.values("-C") or ["."])[-1], step.get("cwd") or "/", place.root)
    if (
        where != "clean"
        or folder is None
        or parsed.has("-c", "--git-dir", "--work-tree")
        or not all(map(is_known, paths))
    ):
        finding.says.append(UNKNOWN)
    elif parsed.has("-n", "--dry-run"):
        finding.says.append("Dry run: deletes nothing.")
    else:
        flags = "".join(flag for flag in "dxX" if parsed.has(f"-{flag}"))
        answer = place.ask("git-clean", {"folder": folder, "flags": flags, "paths": paths})
        say_weight(finding, answer, "Deletes at most" if parsed.has("-e", "--exclude") else "Deletes")
    return finding


def say_weight(finding: Finding, told: dict, verb: str):
    """Add sentences about a TreeStats (workspaces/runner/measure/tree_stats.py), given as JSON, to the finding."""
    if "error" in told:
        finding.says.append(f"Deletes files. Can't tell how many: {told['error']}")
        return
    finding.names, finding.more = told["paths"], max(0, told["matches"] - len(told["paths"]))
    if told["matches"]:
        least = "" if told["complete"] else "at least "
        folders = f" and {counted(told['folders'], 'folder')}" if told["folders"] else ""
        size = plain_size(told["bytes"])
        finding.says.append(f"{verb} {least}{counted(told['files'], 'file')}{folders}, {size}.")
        finding.says += _by_git(told)
    else:
        finding.says.append("None of it exists now.")
        return
    if told["missing"]:
        finding.says.append(f"Does not exist now: {', '.join(told['missing'][:5])}.")


def _by_git(told: dict) -> list[str]:
    said, mine = [], told["tracked"] + told["untracked"]
    if told["untracked"] and told["tracked"]:
        said.append(f"{told['tracked']:,} tracked by git, {told['untracked']:,} not.")
    elif told["tracked"]:
        said.append("All tracked by git." if mine > 1 else "Tracked by git.")
    elif told["untracked"]:
        said.append("None of them tracked by git." if mine > 1 else "Not tracked by git.")
    if told["unknown"]:
        said.append(f"Can't tell whether git tracks {counted(told['unknown'], 'file')}.")
    if told["history"]:
        said.append(f"{counted(told['history'], 'file')} in .git: deletes git history too.")
    return said


class Place:
    """A workspace's live tree, queried through the runner while there is time left."""

    def __init__(self, workspace, root: str, time_limit):
        self.workspace, self.root, self.time_limit = workspace, root, time_limit

    def ask(self, what: str, question: dict) -> dict:
        """Return the runner's response as JSON. Problem when it is unreachable or refuses."""
        left = self.time_limit.left
        body = json.dumps(question | {"within": left} if what.startswith("git-") else question).encode()
        return runner_client.ask("POST", self.workspace, what, body=body, timeout=left)
