"""Every tool that is not a shell: files, the web, MCP servers, sub-agents, and those nobody knows."""

import re

from . import mcp
from .coverage import decide_call
from .hidden import hidden_in
from .places import glob_may_hit_secret
from .rules import FILE_READERS, FILE_WRITERS
from .verdict import Verdict
from .web import BadAddress, domain_covers, is_private, parts_of
from .words import names

QUIET = names(
    """
    TodoWrite TodoRead TaskList TaskGet ExitPlanMode EnterPlanMode AskUserQuestion ToolSearch BashOutput
    TaskOutput TaskCreate TaskUpdate TaskStop KillShell KillBash
    """
)
PATH_KEYS = ("file_path", "notebook_path", "path")
VERBS = {"Write": "Write", "Edit": "Edit", "MultiEdit": "Edit", "NotebookEdit": "Edit", "Read": "Read", "LS": "List"}
CONTENT = ("content", "new_string", "new_source")


def classify(tool, arguments, policy, world, context):
    if tool in FILE_WRITERS or tool in FILE_READERS:
        return file_tool(tool, arguments, policy, world, context)
    if tool == "WebFetch":
        return web_fetch(arguments, policy, context)
    if tool == "mcp" or tool.startswith("mcp__"):
        return mcp.classify(tool, arguments, policy, world, context)
    return other_tool(tool, arguments, policy)


def file_tool(tool, arguments, policy, world, context):
    """Judge a read or an edit of one path; searches without a path look through the workspace."""
    path = next((arguments[key] for key in PATH_KEYS if arguments.get(key) is not None), None)
    writes = tool in FILE_WRITERS
    if path is None and not writes and tool != "Read":
        path = world.cwd
    if not isinstance(path, str) or not path:
        return Verdict("high", [f"Waits because {tool} names no path."], None, "partly", f"{tool} an unknown file")
    place = world.place(path)
    name = place.label(world.root)
    problem = _path_problem(place, tool, arguments, writes)
    verb = VERBS.get(tool, "Search")
    title = f"{verb} {name}"
    tier = "high" if problem else _mode_tier(policy.mode, writes)
    undo = "yes" if place.inside or not writes else "no"
    says = problem or (f"it changes {name}, which can be undone" if writes else f"it only reads {name}")
    family = FILE_WRITERS if writes else FILE_READERS

    def covers(rule):
        if place.unclear or (problem and not (not writes and rule.spec and "*" not in rule.spec)):
            return problem
        return None if rule.allows_path(place, world) else "another path"

    def meets(rule):
        same = rule.tool in family or (rule.tool in FILE_READERS and not writes)
        return same and (rule.spec is None or (place.unclear == "" and rule.meets_path(place, world)))

    return decide_call(
        policy, tier, says, title=title, undo=undo, meets=meets, covers=covers, tools=family,
        what="write" if writes else "read", targets=(name,),
    )  # fmt: skip


def _mode_tier(mode, writes):
    if mode == "everything":
        return "high"
    return "medium" if writes else "low"


def _path_problem(place, tool, arguments, writes):
    if place.unclear:
        return f"the path {place.unclear}"
    if not place.inside and not (place.system and not writes):
        return f"{place.shown} is outside the workspace"
    if writes and place.protected:
        return f"{place.shown} is a protected path"
    if place.secret:
        return f"secrets are kept in {place.shown}"
    if writes:
        texts = [arguments.get(key) for key in CONTENT]
        edits = arguments.get("edits")
        for edit in edits if isinstance(edits, list) else []:
            texts += [edit.get(key) for key in CONTENT] if isinstance(edit, dict) else []
        hidden = next((h for text in texts if isinstance(text, str) and (h := hidden_in(text, prose=True))), None)
        if hidden:
            return f"the new text holds a hidden character, {hidden}"
    pattern = arguments.get("pattern") if tool == "Glob" else arguments.get("glob")
    if tool == "Grep" and isinstance(pattern, str) and glob_may_hit_secret(pattern):
        return f"the pattern {pattern[:60]} looks where secrets are kept"
    if isinstance(pattern, str) and (pattern.startswith(("/", "~")) or ".." in pattern.split("/") or "$" in pattern):
        return f"the pattern {pattern[:60]} leaves the workspace"
    return ""


def web_fetch(arguments, policy, context):
    """Judge an address and each hop it is known to be redirected to."""
    hops = [arguments.get("url"), *_several(context.get("redirects_to"))]
    plain, says = [], ""
    for url in hops:
        try:
            plain.append(parts_of(url))
        except BadAddress as error:
            says = says or f"{str(url)[:80]} {error}"
    resolved = [str(a) for a in _several(context.get("resolves_to"))]
    inward = next((a for a in resolved if is_private(a)), None)
    host = plain[0][1] if plain else str(hops[0])[:60]
    says = says or (f"{host} leads to the private address {inward}" if inward else f"it contacts {host}")

    def covers(rule):
        if len(plain) < len(hops) or not (rule.spec or "").startswith("domain:"):
            return says
        if inward and not (is_private(plain[0][1])):
            return says
        gaps = (domain_covers(rule.spec[len("domain:") :], *hop) for hop in plain)
        return next((g for g in gaps if g), None)

    def meets(rule):
        if rule.tool != "WebFetch":
            return False
        spec = (rule.spec or "").removeprefix("domain:").lower()
        below = spec.removeprefix("*.")
        return rule.spec is None or any(spec == "*" or h == below or h.endswith("." + below) for _, h, _ in plain)

    return decide_call(
        policy, "high", says, title=f"Fetch a page from {host}", undo="no", meets=meets, covers=covers,
        tools=("WebFetch",), what="network", targets=(host,),
    )  # fmt: skip


def _several(value):
    return list(value) if isinstance(value, (list, tuple)) else [value] if value else []


def other_tool(tool, arguments, policy):
    """Judge tools without a path or an address: planning is quiet, sub-agents are gated call by call, others ask."""
    if tool in QUIET:
        tier, says, undo = "low", "it only plans", "yes"
    elif tool in ("Task", "Agent") and policy.mode != "everything":
        tier, says, undo = "low", "what the sub-agent does is asked for step by step", "yes"
    elif tool == "WebSearch":
        tier, says, undo = "high", "it sends its words to a search service", "no"
    else:
        tier, says, undo = "high", f"{tool[:60]} is a tool that Handrail does not know", "partly"
    spec = arguments.get("subagent_type") if tool in ("Task", "Agent") else None

    def named(rule):
        if rule.tool not in ((tool, "Agent", "Task") if tool in ("Task", "Agent") else (tool,)):
            return False
        return rule.spec is None or (isinstance(spec, str) and rule.spec == spec)

    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool[:60])
    return decide_call(
        policy, tier, says, title=f"Use {words}", undo=undo, meets=named,
        covers=lambda rule: None if named(rule) else "another tool", tools=(tool, "Agent", "Task"), what="run",
    )  # fmt: skip
