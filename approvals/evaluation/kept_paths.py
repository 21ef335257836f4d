"""No call can remove the manifest that Handrail mounts in a workspace: one that would is refused before it starts."""

from dataclasses import replace

from approvals.models import Tier
from approvals.policy.globs import shell_fits
from approvals.policy.paths import MANIFEST
from approvals.policy.verdict import reason

WORKSPACE = "/workspace"  # its own removal is refused when it starts, in words of its own
SAID = (
    "it removes {path}, which Handrail shows there, and would end half done; ask again without .handrail, "
    "such as with `git clean -e /.handrail` or `find . -not -path './.handrail*'`"
)


def refused(reading, workspace):
    """Return the verdict on a call (evaluation.PolicyResult), which is forbidden if it removes such a path."""
    if workspace is None or workspace.environment.capabilities.own_folder or reading.tier == Tier.FORBIDDEN:
        return reading
    path = f"{WORKSPACE}/{MANIFEST}"
    removed = (entry for step in reading.commands for entry in (step.get("opens") or {}).get("removes", ()))
    if not any(_is_above(entry, path) for entry in removed):
        return reading
    why = reason("forbidden", SAID.format(path=path))
    return replace(reading, tier=Tier.FORBIDDEN.value, reasons=[why], envelope=None)


def _is_above(pattern: str, path: str) -> bool:
    """Return whether a path with a shell's wildcards stands for one or a folder around it, but for the workspace."""
    wanted, parts = pattern.split("/"), path.split("/")
    return pattern != WORKSPACE and "**" not in wanted and len(wanted) <= len(parts) and all(map(_fits, wanted, parts))


def _fits(pattern: str, name: str) -> bool:
    return shell_fits(pattern, name) and not (name.startswith(".") and pattern[:1] in ("*", "?", "["))
