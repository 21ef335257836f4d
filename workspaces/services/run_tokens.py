"""The API token of the programs of a Run: derived for each program, and valid while the Run lasts."""

import uuid
from datetime import timedelta

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Agent, Token
from dashboard.people.tokens import derived, make_token, sha256
from dashboard.text.bounded_names import bounded
from workspaces import lifecycle, secrets
from workspaces.models import Checkpoint, Run, Workspace
from workspaces.services import network

MAX_NAME = 80  # characters of a secret's name
TOKEN = "HANDRAIL_TOKEN"  # the environment variable that holds it
TOKEN_HOURS = 24  # validity; extended while the Run is open


def agent_of(workspace: Workspace) -> Agent:
    """Return the agent that programs in the workspace act as.

    That is its creator, else the first bound one, else a new one that is bound to it.
    """
    found = workspace.created_by_agent or workspace.bound_agents.order_by("created_at").first()
    if found is None:
        found = _agent_named_for(workspace)
        workspace.bound_agents.add(found)
    return found


def _agent_named_for(workspace: Workspace) -> Agent:
    """Return a new `shop's agent`, or `shop's agent 566fef`: who has a name already acts for another workspace."""
    name = free = f"{workspace.key}'s agent"
    while True:
        agent, is_new = Agent.objects.get_or_create(team=workspace.team, name=free)
        if is_new:
            return agent
        free = f"{name} {uuid.uuid4().hex[:6]}"


def _plain_of(run: Run) -> str:
    """Return the token of the Run; programs resumed from kept memory have that of the Run in which they started.

    Unless that was a Run of another workspace, whose checkpoint this one continues from: its token is not valid here.
    """
    began = run.owner.get("began") or str(run.pk)
    is_own = began == str(run.pk) or Run.objects.filter(pk=began, workspace=run.workspace_id).exists()
    return derived(f"run:{began if is_own else run.pk}")


def search_for_former(workspace: Workspace, origin: str, began: str):
    """Search what a fork's programs write for the token of the workspace `origin`, whose memory they come from."""
    if began:
        secrets.search_for(workspace, bounded(f"{TOKEN} of {origin}", MAX_NAME), "agent", derived(f"run:{began}"))


def make(workspace: Workspace, run: Run):
    """Create the token of this Run's programs. It is derived for each program and never stored in the clear.

    While it is valid, what the programs write is searched for it like for a secret. Programs resumed from kept memory
    have theirs already: it becomes valid again unless somebody has revoked it.
    """
    plain = _plain_of(run)
    if not network.reaches_handrail(workspace):
        return
    known = Token.objects.filter(sha256=sha256(plain), workspace=workspace).first()
    if known is None:
        revoke(workspace.pk)  # tokens of suspended programs that will not be resumed
    elif known.revoked_at is not None:
        return
    secrets.search_for(workspace, TOKEN, "agent", plain)  # first: never hand out a token that is not searched for
    if known is None:
        _make(workspace, run, plain)
    else:
        Token.objects.filter(pk=known.pk, revoked_at=None).update(expires_at=_good_until())


@transaction.atomic
def _make(workspace: Workspace, run: Run, plain: str):
    agent = agent_of(workspace)
    how = {"expires_at": _good_until(), "for_run": True, "plain": plain}
    make_token(workspace.team, agent=agent, workspace=workspace, **how)
    lifecycle.record(workspace, Actor.system("runner"), "run.token_made", {"run": str(run.pk), "agent": agent.name})


def variables(workspace: Workspace, phase: str) -> dict[str, str]:
    """Return {HANDRAIL_TOKEN: token} for programs of the agent phase, else {}."""
    run = Run.objects.filter(workspace=workspace, ended_at=None).first()
    if phase != "agent" or run is None or not network.reaches_handrail(workspace):
        return {}
    return {TOKEN: _plain_of(run)}


def _good_until():
    return clock.now() + timedelta(hours=TOKEN_HOURS)


def _of_runs(workspace_id, tokens):
    return tokens.filter(workspace=workspace_id, for_run=True)


def extend(workspace_id):
    """Extend the workspace's valid tokens to TOKEN_HOURS from now."""
    _of_runs(workspace_id, Token.objects.live()).update(expires_at=_good_until())


def revoke(workspace_id):
    """Revoke the workspace's tokens. Files may contain them from now on, so they are no longer searched for.

    Those that programs in its checkpoints have only expire, so that these can go on with them after a restore.
    """
    with transaction.atomic():
        began = Checkpoint.objects.filter(workspace=workspace_id).exclude(began="").values_list("began", flat=True)
        kept = [sha256(derived(f"run:{pk}")) for pk in set(began)]
        rows = _of_runs(workspace_id, Token.objects.filter(revoked_at=None))
        rows.filter(sha256__in=kept, expires_at__gt=clock.now()).update(expires_at=clock.now())
        rows.exclude(sha256__in=kept).update(revoked_at=clock.now())
        secrets.stop_searching_for(workspace_id, TOKEN)


def suspend(workspace_id):
    """Expire the workspace's tokens while its programs are suspended; `make` extends them when these are resumed."""
    with transaction.atomic():
        _of_runs(workspace_id, Token.objects.live()).update(expires_at=clock.now())
        secrets.stop_searching_for(workspace_id, TOKEN)


def left_over():
    """Return the live tokens of workspaces without an open Run, however it ended."""
    up = Run.objects.filter(ended_at=None).values("workspace")
    return Token.objects.live().filter(for_run=True).exclude(workspace__in=up)


def sweep():
    """Revoke the tokens that are left over."""
    left_over().update(revoked_at=clock.now())
