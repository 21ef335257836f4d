"""Undo that the server of an MCP tool declares: which tool of its takes a call back, with which arguments.

The gate sends the declaration with the call (docs/undo-outside.md), and what the result said of it with the outcome. It
is the server's own word: it adds a call that a person can ask for, and makes nothing run.
"""

from typing import Any

from approvals.actions import way_back_search
from approvals.actions.mcp_tools import SERVER
from approvals.actions.transitions import LIVE
from approvals.evaluation.judge import content, current, with_all
from approvals.models import Action, WayBack, WayBackState
from approvals.policy.mcp import NAME
from dashboard.problems import invalid
from dashboard.text import strict_json

ARGUMENT, RESULT, VALUE = "argument", "result", "value"
MAX_ARGUMENTS = 20
MAX_BYTES = 8 * 1024


def check(undo: dict) -> dict:
    """Return a declaration {tool, arguments: {name: {argument, result or value}}}. Problem 422 for any other."""
    tool, arguments = undo.get("tool"), undo.get("arguments")
    is_form = isinstance(tool, str) and NAME.fullmatch(tool) and "__" not in tool and isinstance(arguments, dict)
    if not is_form or len(arguments) > MAX_ARGUMENTS or len(strict_json.canonical(undo)) > MAX_BYTES:
        raise invalid("mcp.undo is {tool, arguments}, as docs/undo-outside.md describes it.")
    for source in arguments.values():
        if not isinstance(source, dict) or len(source) != 1 or next(iter(source)) not in (ARGUMENT, RESULT, VALUE):
            raise invalid("Each of mcp.undo.arguments is {argument}, {result} or {value}.")
    return undo


def note_with(action: Action, call):
    """Keep the way back that the server of the call declares, in the transaction in which the action is made."""
    if call.served is None or not call.served.undo:
        return
    undo = call.served.undo
    server = call.tool.removeprefix("mcp__").partition("__")[0]
    arguments = {name: _known(source, call.arguments) for name, source in undo["arguments"].items()}
    served = {"runs": call.served.runs, "sha256": call.served.sha256}
    made = {"tool": f"mcp__{server}__{undo['tool']}", "arguments": arguments, "served": served, "undo": undo}
    title = f"calls {undo['tool']} of {server}, which declares that this takes it back"
    found = {"state": WayBackState.FOUND, "title": title, "call": made, "steps": []}
    way_back_search.note(action, found, by=way_back_search.HANDRAIL)


def _known(source: dict, arguments: dict) -> Any:
    """Return the value of an argument; None while only the result says it."""
    ((kind, value),) = source.items()
    return value if kind == VALUE else arguments.get(value) if kind == ARGUMENT else None


def complete(action: Action, made: dict | None):
    """Complete the way back of an action that has succeeded with what its result said: {argument: value}."""
    row = WayBack.objects.filter(action=action, state=WayBackState.FOUND).first()
    if row is None or not is_declared(row):
        return
    call, made = row.call, made or {}
    wanted = {name for name, source in call["undo"]["arguments"].items() if RESULT in source}
    if not wanted <= made.keys() or any(made[name] is None for name in wanted):
        found = {"state": WayBackState.NONE, "why_not": way_back_search.NOT_SAID}
    else:
        arguments = call["arguments"] | {name: made[name] for name in wanted}
        found = {"state": WayBackState.READY, "title": row.title, "call": call | {"arguments": arguments}}
    way_back_search.note(action, found, by=way_back_search.HANDRAIL)


def is_declared(row: WayBack) -> bool:
    return bool(row.call) and "undo" in row.call


def compensation_for(call, agent) -> Action | None:
    """Return the live action that takes an earlier one back, if the gate makes exactly this call of its server now."""
    if call.served is None:
        return None
    asked = Action.objects.filter(
        LIVE, compensates__isnull=False, agent=agent, tool=call.tool, workspace=call.workspace
    )
    for action in with_all(asked.order_by("number")):
        bound = current(action).files.filter(kind=SERVER, sha256=call.served.sha256)
        if content(action)["arguments"] == call.arguments and bound.exists():
            return action
    return None
