"""Let a held command read a secret file of its workspace, with the file's values redacted in what it prints.

A person allows it on the page of a call that met the mask of such files, or of one that asks to run without its
envelope because of it. It holds for exactly this command in this folder, for a while, and can be revoked like any
grant. Such a call reaches no host: what it reads can leave it only through its output and the files that it writes.
"""

import posixpath
from dataclasses import replace
from datetime import timedelta

from approvals.actions import grants, own_agents
from approvals.actions.answer import DENY, Answer
from approvals.actions.decisions import decide, may_approve_scope
from approvals.evaluation import calls
from approvals.evaluation.calls import Call, root_of
from approvals.evaluation.judge import PolicyResult, content, with_all
from approvals.models import Action, Grant, Status
from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.problems import Problem, invalid, not_allowed
from workspaces.operations import runner_client

HOURS, USES = 8, 100
MAX_EARLIER = 20  # calls with refusals that are compared with one that asks to run without an envelope
RUNNER_TIMEOUT = 4  # seconds
NOT_OFFERED = "No call of this action met the mask of this file, or its values can't be redacted."
GO_ON = (
    "{path} may be read by this command in its box now, with its values redacted. Make the same call again, without "
    "dangerouslyDisableSandbox."
)


# Giving --------------------------------------------------------------------------------------------------------------


def offers(action: Action) -> list[str]:
    """Return the secret files that a person can let the action's command read, as paths in the workspace."""
    held = _masked_call(action)
    if held is None:
        return []
    try:
        files = runner_client.ask("POST", action.workspace, "redacted-files", body=b"{}", timeout=RUNNER_TIMEOUT)[
            "files"
        ]
    except Problem:  # the runner is away, or the workspace has no files to look at
        return []
    read = _secrets_tried(held)
    return [file for file in files if posixpath.join(root_of(action.workspace), file) in read]


def allow_read(action: Action, *, caller, path: str) -> Grant:
    """Let the action's command read the file from its next call on; a pending action is denied, which says so.

    Problem 403, 409 as `decide`, 422 if it is not offered.
    """
    if not caller.is_person or not caller.can("decide", action.team_id) or not may_approve_scope(action, caller):
        raise not_allowed("Only a reviewer, lead or admin can let a command read a secret file.")
    own_agents.refuse(action, caller)
    if path not in offers(action):
        raise invalid(NOT_OFFERED)
    call = content(_masked_call(action))
    with Team.objects.turn(action.team_id):
        grant = Grant.objects.create(
            team_id=action.team_id,
            agent=action.agent,
            workspace=action.workspace,
            rules=[{"reads": path, "exactly": _exactly(call["arguments"], call["cwd"], action.workspace)}],
            says=f"Reading {path}, redacted, by: {call['arguments']['command']}"[:300],
            by=caller.user,
            expires_at=clock.now() + timedelta(hours=HOURS),
            uses_left=USES,
        )
        # The event log must not contain the call's arguments.
        says = f"Reading {path}, redacted, by exactly the command of A-{action.number}"
        about = {"says": says, "agent": str(action.agent_id), "until": grant.expires_at.isoformat()}
        about |= {"action": str(action.pk), "number": action.number}
        Event.objects.record(
            action.team_id,
            actor=caller.actor,
            verb="grant.given",
            subject=grant,
            workspace=action.workspace,
            data=about,
        )
        if action.status == Status.PENDING:
            decide(action, Answer(DENY, action.digest, GO_ON.format(path=path)), caller=caller)
    return grant


def _masked_call(action: Action) -> Action | None:
    """Return the call that met the mask: the action itself, or an earlier one that it repeats without an envelope."""
    if action.workspace is None or action.tool != "Bash" or action.workspace.trashed_at:
        return None
    if action.envelope is not None and _secrets_tried(action):
        return action
    arguments = content(action)["arguments"]
    if action.status != Status.PENDING or not arguments.get("dangerouslyDisableSandbox"):
        return None
    of_agent = Action.objects.filter(agent=action.agent_id, workspace=action.workspace_id, tool=action.tool)
    for earlier in with_all(of_agent.exclude(blocked=[]).order_by("-number"))[:MAX_EARLIER]:
        call = content(earlier)
        if call["arguments"].get("command") == arguments.get("command") and _secrets_tried(earlier):
            return earlier
    return None


def _secrets_tried(action: Action) -> set[str]:
    return {entry["what"] for entry in action.blocked if entry["kind"] == "read"}


def _exactly(arguments: dict, cwd: str | None, workspace) -> str:
    return calls.sha256(calls.canonical("Bash", {"command": arguments.get("command")}, cwd, workspace))


# Using ---------------------------------------------------------------------------------------------------------------


def find(call: Call, found: PolicyResult, agent) -> list[Grant]:
    """Return active grants that let a call read secret files, which runs in an envelope. Counts no use."""
    if call.tool != "Bash" or call.workspace is None or not found.is_allowed or found.envelope is None:
        return []
    live = Grant.objects.active(clock.now()).filter(team=agent.team_id, agent=agent, workspace=call.workspace)
    reading = [
        grant for grant in live.select_related("by", "agent", "team") if any("reads" in rule for rule in grant.rules)
    ]
    same = _exactly(call.arguments, call.cwd, call.workspace) if reading else ""
    return [grant for grant in reading if grant.rules[0]["exactly"] == same and grants.holds(grant)]


def widen(found: PolicyResult, reading: list[Grant], workspace) -> PolicyResult:
    """Count a use of each grant, and return the verdict with an envelope that lets their files be read."""
    used = [grant for grant in reading if grants.use(grant)]
    if not used:
        return found
    network = [entry for entry in found.envelope["network"] if entry == "loopback"]
    paths = [posixpath.join(root_of(workspace), grant.rules[0]["reads"]) for grant in used]
    envelope = found.envelope | {"network": network, "redacted": list(dict.fromkeys(paths))}
    said = [
        f"{grant.by.get_username()} lets it read {grant.rules[0]['reads']} until {clock.in_utc(grant.expires_at)}, "
        "with its values redacted and without the network."
        for grant in used
    ]
    return replace(found, envelope=envelope, reasons=[*found.reasons, *said])
