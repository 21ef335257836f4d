"""Cards that ask whether what a held program created at a protected path may be put back."""

import logging
from datetime import datetime, timedelta

from approvals.actions import gate
from approvals.actions.submission import MAX_EXPIRY_SECONDS
from approvals.evaluation.calls import BROKER, Call
from dashboard.database import clock
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.host import quarantine
from workspaces.host.quarantine import KEPT, Entry
from workspaces.models import Workspace
from workspaces.services import run_tokens

logger = logging.getLogger("handrail.gate")
TOOL = "Handrail.PutBack"
MAX_TEXT = 20_000  # characters of a file that its card shows


def sweep():
    """Make the cards of what is new in this host's quarantine, and delete what nobody put back in time."""
    for entry in quarantine.entries():
        workspace = Workspace.objects.select_related("team", "environment").filter(pk=entry.workspace).first()
        age = clock.now() - datetime.fromisoformat(entry.at)
        if workspace is None or workspace.purged_at or age > KEPT:
            quarantine.forget(entry)
        elif not entry.action and age < timedelta(seconds=MAX_EXPIRY_SECONDS):
            _ask(workspace, entry)


def _ask(workspace, entry: Entry):
    agent = run_tokens.agent_of(workspace)
    caller = Caller(roles={workspace.team_id: "agent"}, agent=agent)
    arguments = {"path": entry.path, "id": entry.id, "kind": entry.kind()} | _shown(entry)
    how = {"mode": BROKER, "own_verb": True, "expires_in_s": MAX_EXPIRY_SECONDS, "idempotency_key": entry.id}
    try:
        action, _ = gate.submit(Call(TOOL, arguments, workspace=workspace, **how), caller=caller)
    except Problem as problem:
        logger.warning("%s of %s stays in quarantine without a card: %s", entry.path, workspace.key, problem.detail)
        return
    entry.action = str(action.pk)
    entry.save()


def _shown(entry: Entry) -> dict:
    """Return what the card shows of it: the text of a file, the target of a symlink, the names in a folder."""
    match entry.kind():
        case "symlink":
            return {"target": str(entry.moved.readlink())}
        case "folder":
            names = sorted(str(path.relative_to(entry.moved)) for path in entry.moved.rglob("*"))
            return {"holds": names[:200]}
    try:
        text = entry.moved.read_bytes()[: MAX_TEXT + 1].decode()
    except UnicodeDecodeError:
        return {"bytes": entry.moved.stat().st_size}
    cut = {"bytes": entry.moved.stat().st_size} if len(text) > MAX_TEXT else {}
    return {"content": text[:MAX_TEXT]} | cut
