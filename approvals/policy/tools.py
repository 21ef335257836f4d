"""Every tool except the shell: files, the web, MCP servers, sub-agents, and unknown ones."""

import re

from . import content_search, mcp, patches
from .coverage import decide_call
from .deeds import deed
from .hidden_characters import hidden_in
from .paths import glob_may_hit_secret
from .rules import FILE_READERS, FILE_WRITERS
from .shell_words import names
from .title_values import NAME
from .verdict import Verdict, reason, undo_of, worst
from .web import BadAddress, domain_covers, is_private, parts_of

QUIET = names(
    """
    TodoWrite TodoRead TaskList TaskGet ExitPlanMode EnterPlanMode AskUserQuestion ToolSearch BashOutput
    TaskOutput TaskCreate TaskUpdate TaskStop KillShell KillBash
    wait_agent close_agent list_agents get_goal create_goal update_goal list_mcp_resources list_mcp_resource_templates
    """
)
# What starts sub-agents or tells them what to do: each of their calls is judged by itself.
SUB_AGENTS = names("Agent Task Workflow spawn_agent send_input resume_agent")
PATH_KEYS = ("file_path", "notebook_path", "path")
VERBS = {"Write": "Write", "Edit": "Edit", "MultiEdit": "Edit", "NotebookEdit": "Edit", "Read": "Read", "LS": "List"}
CONTENT = ("content", "new_string", "new_source")
# Claude Code writes each plan to a file of its own before it presents it, also where it may change nothing else.
CLAUDE_PLAN = re.compile(r"/.+/\.claude/plans/[A-Za-z0-9][A-Za-z0-9_-]{0,99}\.md")


SHOWN_REASONS = 5  # for a patch of many files
PATCH_VERBS = {"add": "Write", "update": "Edit", "delete": "Delete"}


def classify(tool, arguments, policy, world, context):
    """Judge a call of any tool except Bash."""
    if tool == patches.TOOL:
        return patch_tool(arguments, policy, world, context)
    if tool in FILE_WRITERS or tool in FILE_READERS:
        return file_tool(tool, arguments, policy, world, context)
    if tool == "WebFetch":
        return web_fetch(arguments, policy, context)
    if tool == "mcp" or tool.startswith("mcp__"):
        return mcp.classify(tool, arguments, policy, world, context)
    return other_tool(tool, arguments, policy)


def file_tool(tool, arguments, policy, world, context, verb=None):
    """Judge a read or an edit of one path; searches without a path read the current folder."""
    path = next((arguments[key] for key in PATH_KEYS if arguments.get(key) is not None), None)
    writes = tool in FILE_WRITERS
    if path is None and not writes and tool != "Read":
        path = world.cwd
    if not isinstance(path, str) or not path:
        return Verdict("high", [reason("high", f"{tool} names no path")], None, "unknown", f"{tool} an unknown file")
    place = world.place(path)
    name = place.label(world.root)
    problem = _path_problem(place, tool, arguments, writes, world)
    opened = content_search.prints_lines(tool, arguments) and content_search.secret_opened(place, arguments, world)
    if opened and not problem:
        problem = f"the search opens {opened.rsplit('/', 1)[-1]}, where secrets are kept"
    verb = verb or VERBS.get(tool, "Search")
    title = f"{verb} {name}"
    # A plan is no change of the person's files, and its own card asks about it.
    tier = "high" if problem else _mode_tier(policy.mode, writes and not _is_plan(place))
    undo = file_undo(place, writes) if not opened else "no"  # what was read stays known
    changes = f"changes {name}, {'a plan of Claude Code' if _is_plan(place) else 'which is reversible'}"
    says = problem or (changes if writes else f"only reads {name}")
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


def patch_tool(arguments, policy, world, context):
    """Judge a patch as the edits in it; the strictest tier among them is the patch's."""
    try:
        edits = patches.read_patch(arguments)
    except patches.BadPatch as error:
        return Verdict("high", [reason("high", f"the patch {error}")], None, "unknown", "Apply a patch")
    found = [_patched(edit, path, policy, world, context) for edit in edits for path in edit.paths]
    tier = worst([verdict.tier for verdict in found])
    strictest = [verdict for verdict in found if verdict.tier == tier]
    reasons = list(dict.fromkeys(text for verdict in strictest for text in verdict.reasons))
    if len(reasons) > SHOWN_REASONS:
        reasons = [*reasons[:SHOWN_REASONS], reason(tier, f"{len(reasons) - SHOWN_REASONS} more of its files as well")]
    rule = next((verdict.rule for verdict in strictest if verdict.rule), None)
    steps = [step for verdict in found for step in verdict.commands]
    return Verdict(tier, reasons, rule, undo_of(found), _joined([verdict.title for verdict in found]), steps)


def _patched(edit, path, policy, world, context):
    """Judge what a patch does to one path."""
    goes = edit.verb == "delete" or (edit.moved_to and path == edit.path)
    verb = "Move" if goes and edit.moved_to else "Write" if edit.moved_to else PATCH_VERBS[edit.verb]
    change = {"file_path": path, "content": edit.added}
    verdict = file_tool(patches.TOOL, change, policy, world, context, verb)
    verdict.commands = [step | {"what": "delete"} if goes else step for step in verdict.commands]
    return verdict


def _joined(titles):
    """Return one headline for several: the first three, and the number of the others."""
    shown = [titles[0], *(title[:1].lower() + title[1:] for title in titles[1:3])]
    return ", ".join(shown) + (f" and {len(titles) - 3} more" if len(titles) > 3 else "")


def file_undo(place, writes):
    """Return what a snapshot can undo: not the reading of a secret, and only partly a hook, which may have run."""
    if not writes:
        return "no" if place.secret else "yes"
    if place.unclear:
        return "unknown"
    return "no" if not place.inside else "partly" if place.protected else "yes"


def _mode_tier(mode, writes):
    if mode == "everything":
        return "high"
    return "medium" if writes else "low"


def _path_problem(place, tool, arguments, writes, world):
    if place.unclear:
        return f"the path {place.unclear}"
    is_plan = _is_plan(place)
    if not place.inside and not (place.system and not writes) and not is_plan:
        return f"{place.shown} is {world.outside}"
    if writes and place.protected and not is_plan:
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


def _is_plan(place):
    """Return whether a path outside the workspace is, without any known link, a file in which Claude Code plans."""
    return not place.inside and all(CLAUDE_PLAN.fullmatch(end) for end in (place.lexical, *place.reals))


def web_fetch(arguments, policy, context):
    """Judge an address and each known redirect of it."""
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
    says = says or (f"{host} leads to the private address {inward}" if inward else f"contacts {host}")

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
    """Judge tools without a path or an address: planning is allowed, sub-agents are judged call by call, others ask."""
    if tool in QUIET:
        tier, says, undo = "low", "only plans", "yes"
    elif tool in SUB_AGENTS and policy.mode != "everything":
        tier, says, undo = "low", "each step of the sub-agent is checked by itself", "yes"
    elif tool == "WebSearch":
        tier, says, undo = "high", "sends its words to a search service", "no"
    else:
        tier, says, undo = "high", f"Handrail doesn't know the tool {tool[:60]}", "unknown"
    spec = arguments.get("agent_type" if tool == "spawn_agent" else "subagent_type") if tool in SUB_AGENTS else None

    def named(rule):
        if rule.tool not in ((tool, "Agent", "Task") if tool in SUB_AGENTS else (tool,)):
            return False
        return rule.spec is None or (isinstance(spec, str) and rule.spec == spec)

    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", tool[:60].replace("_", " "))
    title = deed("", tool, arguments) if undo == "unknown" and NAME.fullmatch(tool) else f"Use {words}"
    return decide_call(
        policy, tier, says, title=title, undo=undo, meets=named,
        covers=lambda rule: None if named(rule) else "another tool", tools=(tool, "Agent", "Task"), what="run",
    )  # fmt: skip
