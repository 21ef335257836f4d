"""The sessions of agents' programs: found or begun, their end, and the tokens that they used."""

from datetime import timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import F

from approvals.agents.lines import MAX_ID
from approvals.models import AgentSession
from dashboard.database import clock
from dashboard.text.bounded_names import bounded

MAX_TITLE = 120  # characters
WRITE_EVERY = timedelta(seconds=5)  # at most one write of a sign of life in this time
CENTS = Decimal("0.000001")  # prices in US dollars are rounded to this


def session_of(agent, dialect: str, native_id: str, *, workspace=None, parent=None, **noted) -> AgentSession:
    """Return the session with this id, begun if it is new. `noted`: what is known; empty values change nothing."""
    now = clock.now()
    known = AgentSession.objects.filter(agent=agent, dialect=dialect, native_id=bounded(native_id, MAX_ID)).first()
    if known and not _changes(known, now, workspace, parent, noted):
        return known
    with transaction.atomic():
        found, _ = AgentSession.objects.get_or_create(
            agent=agent,
            dialect=dialect,
            native_id=bounded(native_id, MAX_ID),
            defaults={"team_id": agent.team_id, "workspace": workspace, "started_at": now, "last_at": now},
        )
        changed = _changes(found, now, workspace, parent, noted)
        for name, value in changed.items():
            setattr(found, name, value)
        if changed:
            found.save(update_fields=list(changed))
    return found


def _changes(found: AgentSession, now, workspace, parent, noted: dict) -> dict:
    """Return what a sign of life of the session changes in its row."""
    changed = {name: value for name, value in noted.items() if value and getattr(found, name) != value}
    if parent and found.parent_id is None and parent.pk != found.pk:
        changed["parent"] = parent
    if workspace and found.workspace_id is None:
        changed["workspace"] = workspace
    if found.ended_at or found.end_reason:
        changed |= {"ended_at": None, "end_reason": ""}
    if changed or now - found.last_at > WRITE_EVERY:
        changed["last_at"] = max(now, found.last_at)
    return changed


def end(session: AgentSession, reason: str):
    AgentSession.objects.filter(pk=session.pk).update(ended_at=clock.now(), end_reason=reason[:100])


def started_by(parent: AgentSession, native_id: str, call_id: str) -> AgentSession | None:
    """Return the session of a sub-agent that a call of `parent` has started, begun if it is new."""
    root, now = parent.parent or parent, clock.now()
    if not native_id or len(native_id) > MAX_ID or native_id == root.native_id:
        return None
    known = {"agent_id": root.agent_id, "dialect": root.dialect, "native_id": native_id}
    about = {"team_id": root.team_id, "workspace_id": root.workspace_id, "started_at": now, "last_at": now}
    child, _ = AgentSession.objects.get_or_create(**known, defaults=about | {"parent": root})
    AgentSession.objects.filter(pk=child.pk, parent=root, call_id="").update(call_id=bounded(call_id, MAX_ID))
    return child


def count_tokens(session: AgentSession, lines, totals: list[int] | None):
    """Add the tokens of these lines of a transcript, or store the transcript's totals of the whole session."""
    names = ("tokens_in", "tokens_out", "tokens_cached")
    if totals:
        told = dict(zip(names, totals, strict=True))
    else:
        told = {name: F(name) + sum(getattr(line, name) for line in lines) for name in names}
    AgentSession.objects.filter(pk=session.pk).update(**told)


def note_of_transcript(session: AgentSession, lines, unknown: int, title: str, cost: float | None):
    """Note the model that answered last, name and price if they are told, and how many rows were not understood."""
    model = next((line.model for line in reversed(lines) if line.model), "")
    noted = {"unknown": F("unknown") + unknown} | ({"model": model[:100]} if model else {})
    if cost is not None:
        noted["cost"] = Decimal(str(cost)).quantize(CENTS)
    if title and not session.title:
        noted["title"] = " ".join(title.split())[:MAX_TITLE]
    AgentSession.objects.filter(pk=session.pk).update(**noted)
