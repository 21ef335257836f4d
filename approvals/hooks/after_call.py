"""What a shell call did once it has ended: whether what ran is what was allowed, and what its box refused to it."""

from contextlib import suppress

from django.db import transaction

from approvals.actions.transitions import record
from approvals.agents.hook_events import After
from approvals.evaluation.judge import content
from approvals.hooks import held_calls, opened_hosts
from approvals.models import Action
from dashboard.problems import Problem
from workspaces.drivers.handrail_run import HOW_TO_ASK
from workspaces.envelope.output_refusals import refusals_in, sentence
from workspaces.secrets.masking import masked

MAX_SHOWN = 500  # characters of a command that nobody allowed
OF_LOOKUPS = [{"kind": "socket", "what": f"{family} UDP"} for family in ("IPv4", "IPv6")]
ALARM = "ALARM: another command ran than was allowed."


def ran_differently(action: Action, heard: After, *, by) -> bool:
    """Compare the command that ran with the one that was answered; record an alarm if they differ.

    Only of shell calls: Claude Code itself completes the input of other tools (relative paths, defaults).
    """
    if action.tool != "Bash" or not isinstance(heard.arguments, dict):
        return False
    ran, allowed = str(heard.arguments.get("command")), content(action)["arguments"].get("command")
    is_held = action.envelope is not None
    if held_calls.ticket_in(ran, allowed) if is_held else ran == allowed:
        return False
    if opened_hosts.opened(action) and ran == opened_hosts.command_line(action):
        return False
    shown = masked(ran, action.workspace)
    with transaction.atomic():
        record(action, "action.ran_differently", by=by, data={"ran": shown.replace("\0", "␀")[:MAX_SHOWN]})
    return True


def seen(action: Action, heard: After, details: dict) -> tuple[list[dict], list[dict]]:
    """Return what the box refused to a call that ran in it, and which of its ports another port leads to since.

    Refused is what the kernel and the proxy reported, and files that the output of a failed call names: [{kind, what}].
    """
    if action.envelope is None:
        return [], []
    output = details.get("tail", "").encode("utf-8", "replace")
    named = refusals_in(output) if heard.failed else []
    told = _by_the_runner(action, heard)
    found = [*told["blocked"], *named]
    return [entry for number, entry in enumerate(found) if entry not in found[:number]], told["ports"]


def _by_the_runner(action: Action, heard: After) -> dict:
    command = content(action)["arguments"]["command"]
    ticket = held_calls.ticket_in(str((heard.arguments or {}).get("command")), command)
    with suppress(Problem):  # the box ended meanwhile, and its refusals with it
        if ticket:
            return held_calls.ended(action.workspace, ticket, action.consumed_at)
    return {"blocked": [], "ports": []}


def worth_telling(blocked: list[dict], *, failed: bool) -> list[dict]:
    """Return the refusals that the agent should hear of.

    Libraries open a datagram socket to sort the addresses of a name, and go on without it.
    """
    return [entry for entry in blocked if failed or entry not in OF_LOOKUPS]


def for_the_agent(blocked: list[dict], ports: list[dict]) -> str:
    """Return the sentences on refused accesses, how to ask for them, and ports; "" if there are none."""
    told = [f"{sentence(blocked)} {HOW_TO_ASK}"] if blocked else []
    told += [
        f"Port {each['port']} of the box is in use on this machine, or expected to be another service: a browser here "
        f"finds it at 127.0.0.1:{each['host_port']}. In the box it is {each['port']} as ever."
        for each in ports
    ]
    return f"Handrail: {' '.join(told)}" if told else ""
