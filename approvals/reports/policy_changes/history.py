"""Versions of a policy: compared, and made the active text again."""

from difflib import unified_diff

from approvals.evaluation import policies
from approvals.models import Policy
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import not_found
from workspaces.changes.diff import FileDiff, compare

FILE = "policy.toml"


def find(scope: Scope, number: int) -> Policy:
    """Return a version of the scope's policy. Problem 404."""
    version = scope.versions.filter(number=number).select_related("by", "environment").first()
    if version is None:
        raise not_found("version of this policy")
    return version


def difference(old: Policy, new: Policy) -> FileDiff:
    return compare(FILE, old.text.encode(), new.text.encode())


def patch(old: Policy, new: Policy) -> str:
    """Return the difference in the unified format, empty if there is none."""
    texts = [policy.text.splitlines(keepends=True) for policy in (old, new)]
    names = [f"{FILE} (version {policy.number})" for policy in (old, new)]
    lines = unified_diff(*texts, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def go_back(scope: Scope, version: Policy, *, caller, base: int | None = None) -> Policy:
    """Save the text of an old version as the next one. Problem 403, 409, 422 as for policies.save."""
    comment = f"Back to version {version.number}"
    where = {"team": scope.team, "environment": scope.row, "base": base}
    return policies.save(version.text, caller=caller, comment=comment, **where)
