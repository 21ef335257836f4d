"""The engine's one entry: a tool call in, a verdict out; whatever goes wrong on the way asks a person."""

import logging

from . import bash, tools
from .hidden import hidden_in
from .places import World
from .verdict import Verdict

logger = logging.getLogger(__name__)
MAX_INPUT = 1_000_000  # characters of all arguments together


def classify(
    tool, arguments, *, policy, cwd="/workspace", workspace_root="/workspace", home="/home/agent", context=None
):
    """Return the Verdict on one tool call.

    `context` may hold what is known of the world: `files` that were put there since it was trusted, `symlinks`
    {path: target}, `cwd`, `mcp_server`, `redirects_to`, `resolves_to`, and pairs such as `tool_sha256_approved` and
    `tool_sha256_now`. Paths in it are relative to the workspace.
    """
    try:
        return _classify(tool, arguments, policy, cwd, workspace_root, home, context)
    except Exception as error:
        # The one broad handler: an engine that fails must ask, never let through and never take the gate down.
        logger.exception("the policy engine failed")
        return Verdict(
            "high", [f"Waits because the policy engine failed ({type(error).__name__})."], title="Something unclear"
        )


def _classify(tool, arguments, policy, cwd, root, home, context):
    context = context if isinstance(context, dict) else {}
    if not isinstance(tool, str) or not tool or not isinstance(arguments, dict):
        return Verdict(
            "high",
            ["Waits because this is not a tool call: it needs a tool's name and arguments."],
            title="Something unclear",
        )
    changed = changed_since(context)
    if changed:
        return Verdict("high", [f"Waits because {changed} since it was approved."], title=f"Use {tool[:60]}")
    if hidden_in(tool) or not tool.isascii():
        return Verdict(
            "high",
            ["Waits because the tool's name holds characters that do not belong in one."],
            title="An unknown tool",
        )
    if sum(len(str(value)) for value in arguments.values()) > MAX_INPUT:
        return Verdict("high", ["Waits because it is longer than anybody could read."], title=f"Use {tool[:60]}")
    world = World.of(root, home, context.get("cwd") or cwd, context)
    if tool == "Bash":
        return bash.classify(arguments, policy, world, context)
    return tools.classify(tool, arguments, policy, world, context)


def changed_since(context):
    """Return what differs between the time of the approval and now, or None."""
    for key, value in context.items():
        if isinstance(key, str) and key.endswith("_approved"):
            now = key.removesuffix("_approved") + "_now"
            if now in context and context[now] != value:
                return key.removesuffix("_approved").replace("_", " ") + " has changed"
    return None


def run_test(policy, test):
    """Return how a policy's own test fails, or None."""
    verdict = classify(test["tool"], test["input"], policy=policy, context=test.get("context"))
    if verdict.tier == test["tier"]:
        return None
    asked = str(next(iter(test["input"].values()), ""))[:80]
    return f"{test['tool']} {asked!r} is {verdict.tier}, not {test['tier']}."
