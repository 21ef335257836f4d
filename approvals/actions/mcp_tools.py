"""MCP tools behind `handrail mcp-gate`, which says of each call what its server runs and how it describes the tool.

An approval binds both. What the gate says can only make a call ask: an agent could say it as well.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from approvals.actions.bound_files import MCP, Bound
from approvals.evaluation import policies
from approvals.evaluation.judge import current
from approvals.models import McpTool, Tier
from approvals.policy.verdict import reason

SERVER, TOOL = "mcp-server", "mcp-tool"  # kinds of what is bound
UNKNOWN = sha256(b"null").hexdigest()  # of the definition of a tool that its server does not describe
UNDESCRIBED = "its server did not say how it describes this tool"
CHANGED = "its server describes this tool differently than when the tool was first used or last approved"


@dataclass(frozen=True)
class Served:
    """`runs` is the command line or address of the server, `sha256` of its entry, `tool_sha256` of the definition."""

    runs: str
    sha256: str
    tool_sha256: str
    undo: dict | None = None  # how the server declares that a call is taken back (approvals.actions.declared_undo)

    @property
    def identity(self) -> dict:
        """What tells this server and tool from others."""
        return {"runs": self.runs, "sha256": self.sha256, "tool_sha256": self.tool_sha256}


def bound_with(call, bound: Bound) -> Bound:
    """Return what the call binds with its server and the definition of its tool, if the gate named them."""
    if call.served is None:
        return bound
    named = [(SERVER, call.served.runs, call.served.sha256), (TOOL, call.tool, call.served.tool_sha256)]
    entries = [
        {"kind": kind, "path": path, "state": MCP, "sha256": digest, "size": None} for kind, path, digest in named
    ]
    return Bound([*bound.files, *entries], bound.complete)


def stays_bound(revision, bound: Bound) -> Bound:
    """Return what an edit of the revision binds: its server and the definition of its tool stay."""
    return Bound([*bound.files, *_stated(revision)], bound.complete)


def _stated(revision) -> list[dict]:
    found = revision.files.filter(state=MCP).order_by("number")
    return list(found.values("kind", "path", "state", "sha256", "size"))


def with_doubts(call, found, team_id):
    """Return the verdict, which asks a person where the server is not the trusted one or the tool has changed."""
    doubts = [reason("high", doubt) for doubt in _doubts(call, found, team_id)] if call.served else []
    if not doubts or found.tier == Tier.FORBIDDEN:
        return found
    if found.is_allowed:
        return replace(found, tier=Tier.HIGH.value, reasons=[str(doubt) for doubt in doubts], undo="unknown")
    return replace(found, reasons=[*found.reasons, *map(str, doubts)])


def _doubts(call, found, team_id) -> list[str]:
    served, doubts = call.served, []
    named = policies.checked(found.policy)["trust"]["servers"] if found.policy else []
    name = call.tool.removeprefix("mcp__").partition("__")[0]
    meant = [(each["runs"], each["sha256"]) for each in named if each["name"] == name]
    if meant and (served.runs, served.sha256) not in meant:
        shown = f"{served.runs[:200]} (sha256 {served.sha256})"
        doubts.append(f"the server {name} is now {shown}, not the one that the policy trusts")
    if served.tool_sha256 == UNKNOWN:  # it counts as changed, and is never the known one
        return [*doubts, UNDESCRIBED]
    known, _ = McpTool.objects.get_or_create(
        team_id=team_id, tool=call.tool, server=served.sha256, defaults={"sha256": served.tool_sha256}
    )
    return doubts + ([CHANGED] if known.sha256 != served.tool_sha256 else [])


def accept(action):
    """Take the definition that a person has just approved as the known one."""
    if not action.tool.startswith("mcp__"):
        return
    digests = {entry["kind"]: entry["sha256"] for entry in _stated(current(action))}
    if SERVER in digests and digests.get(TOOL, UNKNOWN) != UNKNOWN:
        McpTool.objects.filter(team=action.team_id, tool=action.tool, server=digests[SERVER]).update(
            sha256=digests[TOOL]
        )
