"""The engine's entry point: a tool call in, a verdict out; any failure asks a person."""

import logging
from dataclasses import replace

from . import bash, tools
from .conditions import acts_at
from .hidden_characters import hidden_in
from .paths import World
from .reach_of_tools import facts_of_call
from .step_budget import TooMuch, limited
from .verdict import Verdict, reason

logger = logging.getLogger(__name__)
MAX_INPUT = 1_000_000  # characters of all arguments together


def classify(
    tool,
    arguments,
    *,
    policy,
    cwd="/workspace",
    workspace_root="/workspace",
    home="/home/agent",
    context=None,
    reading=None,
):
    """Return the Verdict on one tool call.

    `context` may hold what is known of the environment: `files` written since it was trusted, paths that hold
    `secrets`, `scripts` {path: text} that commands run, programs `installed` with the project's packages, `downloaded`
    {path: host} of the files that earlier calls brought, `symlinks` {path: target}, `cwd`, `mcp_server`,
    `redirects_to`, `resolves_to`, and pairs such as `tool_sha256_approved` and `tool_sha256_now`; `held`: True if the
    kernel can hold the call in an envelope, and `hosts`, which its network allows; `programs`: {name as commands write
    it: {path, sha256}} of the files that programs resolve to; `mcp_servers`: {name, origin, runs, sha256} of each
    server that a tool's name may mean, from the agent's settings; and what the conditions of a policy are asked about:
    `tells_reach`: True if each command shall have its Reach.as_dict as `reach`;
    `agent` and `environment` by name, `isolation` of the workspace, `labels` {key: value}, `targets` that a call means
    which names none, `branch` of the workspace, `at`, the time as text in RFC 3339, `on_duty`: whether somebody who may
    approve is on duty, and `undo`: inside, outside or not. What is not known of these may meet a condition, so rules
    that make a call wait apply; with `only_stated` it meets none, but for `undo`.
    Other paths in it are relative to the workspace. Nothing in it may come from the agent itself.
    `workspace_root` is None without a workspace; then no path is inside one. `reading`: an empty dict, which may be
    given again with the same call to judge it by another policy in half the time.
    """
    try:
        with limited():
            return _classify(tool, arguments, policy, cwd, workspace_root, home, context, reading)
    except TooMuch:
        return _asks("it takes more steps to judge than a call may take", _use(tool))
    except Exception as error:
        # The one broad handler: an engine that fails must ask, and neither allow the call nor crash the gate.
        logger.exception("the policy engine failed")
        return _asks(f"the policy engine failed ({type(error).__name__})", "An unknown call")


def _asks(why, title):
    return Verdict("high", [reason("high", why)], undo="unknown", title=title)


def _classify(tool, arguments, policy, cwd, root, home, context, reading):
    context = context if isinstance(context, dict) else {}
    if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
        return _asks("this is not a tool call: it needs a tool's name and arguments", "An unknown call")
    changed = changed_since(context)
    if changed:
        return _asks(f"{changed} since it was approved", _use(tool))
    if hidden_in(tool) or not tool.isascii():
        return _asks("the tool's name holds characters that do not belong in one", "An unknown tool")
    if sum(len(str(value)) for value in arguments.values()) > MAX_INPUT:
        return _asks("it is longer than anybody could read", _use(tool))
    world = World.of(root, home, context.get("cwd") or cwd, context)
    world.trusted_programs, world.trusted_places = policy.trust.programs_in(context), policy.trust.places
    if tool == "Bash":
        return bash.classify(arguments, policy, world, context, reading)
    tells_reach = bool(context.get("tells_reach"))
    if not policy.blocks and not tells_reach:
        return tools.classify(tool, arguments, policy, world, context)
    facts = facts_of_call(tool, arguments, context)
    if any("undo" in block.conditions for block in policy.blocks):
        facts = replace(facts, undo=tools.classify(tool, arguments, policy.seen(facts), world, context).undo)
    verdict = tools.classify(tool, arguments, policy.seen(facts), world, context)
    found = acts_at(policy.targets, facts)
    more = ({"acts_at": found} if found else {}) | ({"reach": facts.reach.as_dict()} if tells_reach else {})
    verdict.commands = [entry | more for entry in verdict.commands]
    return verdict


def _use(tool):
    return f"Use {tool[:60]}"


def changed_since(context):
    """Return what has changed between the approval and now, or None."""
    for key, value in context.items():
        if isinstance(key, str) and key.endswith("_approved"):
            now = key.removesuffix("_approved") + "_now"
            if now in context and context[now] != value:
                return key.removesuffix("_approved").replace("_", " ") + " has changed"
    return None


def run_test(policy, test):
    """Return how one of a policy's own tests fails, or None."""
    context = {"only_stated": True} | (test.get("context") or {})
    verdict = classify(test["tool"], test["input"], policy=policy, context=context)
    if verdict.tier == test["tier"]:
        return None
    asked = str(next(iter(test["input"].values()), ""))[:80]
    return f"{test['tool']} {asked!r} is {verdict.tier}, not {test['tier']}."
