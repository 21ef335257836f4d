"""Parse what a command stages and commits before it pushes, for a rehearsal by git (workspaces/runner/git/probe.py)."""

from approvals.evaluation.calls import beneath

from .argv import Parsed, after, git_verb, is_known, parse

VALUES = {
    "add": ("--chmod", "--pathspec-from-file"),
    "commit": ("-m", "--message", "-F", "--file", "--author", "--date", "-C", "-c", "--fixup", "--squash", "--trailer"),
    "checkout": ("-b", "-B"),
    "switch": ("-c", "-C", "--create"),
}
NEW_BRANCH = ("-b", "-B", "-c", "-C", "--create")
READS = ("status", "log", "diff", "show", "fetch", "branch", "tag", "remote", "rev-parse", "push")


def before(steps: list[dict], at: int, folder: str, root: str) -> tuple[list[dict], bool]:
    """Return ([step to rehearse], whether these are all changes) for the sub-commands before the push at `at`."""
    found, is_all = [], True
    for step in steps[:at]:
        if step.get("tier") == "low" or git_verb(step["words"]) in READS:
            continue
        taken = _step(step, folder, root)
        found += [taken] if taken else []
        is_all = is_all and taken is not None
    return found, is_all


def _step(step: dict, folder: str, root: str) -> dict | None:
    """Return a sub-command as a step of the rehearsal; None if it cannot be rehearsed."""
    verb, git = git_verb(step["words"]), after(step["words"], ("git",))
    if verb not in VALUES or beneath(".", step.get("cwd") or "/", root) != folder or git[1][0] != verb:
        return None
    parsed = parse(git[1][1:], VALUES[verb])
    if not all(map(is_known, parsed.operands)):
        return None
    if verb == "add":
        new = not parsed.has("-u", "--update")
        is_plain = not parsed.has("-p", "--patch", "-i", "-n", "--dry-run", "-N", "--pathspec-from-file")
        return {"do": "add", "paths": parsed.operands, "new": new} if is_plain else None
    return _commit(parsed) if verb == "commit" else _branch(parsed)


def _commit(parsed: Parsed) -> dict | None:
    if parsed.has("--dry-run", "-p", "--patch", "--interactive", "-i", "--include"):
        return None
    said = [text for text in parsed.values("-m", "--message")[:1] if is_known(text)]
    asked = {"all": parsed.has("-a", "--all"), "amend": parsed.has("--amend"), "paths": parsed.operands}
    return {"do": "commit", "message": said[0] if said else ""} | asked


def _branch(parsed: Parsed) -> dict | None:
    """Return the step for a new branch at HEAD; None for one with another start point, which would have other files."""
    named = parsed.values(*NEW_BRANCH)
    return {"do": "branch", "name": named[0]} if len(named) == 1 and not parsed.operands else None
