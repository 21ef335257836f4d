"""A team after some months of work, in bulk: workspaces with snapshots and checks, answered actions, a log."""

import hashlib
import json
import random
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from approvals.models import Action, AgentSession, Decision, Message, Revision, Status
from dashboard.models import Agent, Event, Membership, Team
from handrail_verify.log import GENESIS, chain_hash
from workspaces.models import (
    Command,
    Environment,
    Manifest,
    Operation,
    Phase,
    Snapshot,
    State,
    Workspace,
    WorkspaceLabel,
)

SPAN = timedelta(days=90)
PENDING = 60
COMMANDS = ["git push origin HEAD:main", "rm -rf build", "npm install left-pad", "make test"]
TIERS = [("low", "succeeded"), ("medium", "succeeded"), ("high", "succeeded"), ("high", "denied"), ("high", "expired")]


@transaction.atomic
def make(*, actions: int, workspaces: int, snapshots: int = 0, seed: int = 1):
    """Everything, in one team; returns (the person who looks, a workspace with much in it).

    `snapshots`: how many there are in all; without it 20 in each workspace and 300 in the first.
    """
    rng, now = random.Random(seed), timezone.now()
    team = Team.objects.create(slug="bench", name="Bench")
    person = get_user_model().objects.create_user("bench")
    Membership.objects.create(team=team, user=person, role="admin", desk_seen_at=now - timedelta(days=1))
    agents = Agent.objects.bulk_create(
        Agent(team=team, name=f"agent {n}", owner=person, last_seen_at=now - timedelta(minutes=n)) for n in range(20)
    )
    checks = {"tests": "make test", "lint": "ruff check ."}
    environment = Environment.objects.create(team=team, name="default", checks=checks)
    places = Workspace.objects.bulk_create(
        Workspace(
            team=team,
            key=f"repo-task-{n}",
            environment=environment,
            state=rng.choice([State.READY, State.PAUSED, State.PAUSED, State.STOPPED, State.FAILED]),
            created_by_agent=agents[n % 20],
            owner=person if n % 3 else None,
            ticket=f"PAY-{n}" if n % 2 else "",
            labels={"area": f"area-{n % 12}"} if n % 4 == 0 else {},
            uid=200_001 + n,
            last_active_at=now - SPAN * rng.random(),
        )
        for n in range(workspaces)
    )
    WorkspaceLabel.objects.bulk_create(
        (WorkspaceLabel(workspace=place, name="area", value=place.labels["area"]) for place in places if place.labels),
        batch_size=500,
    )
    _snapshots(rng, now, places, max(3, (snapshots - 300) // (workspaces - 1)) if snapshots else 20)
    _commands(rng, now, places, per_workspace=max(4, actions // workspaces // 4))
    asked = _actions(rng, now, team, agents, places, actions)
    _answers(person, asked)
    _conversations(asked)
    _log(rng, team, asked)
    return person, places[0]


def _moment(rng, now, share: float):
    return now - SPAN * (1 - share) - timedelta(seconds=rng.random())


def _snapshots(rng, now, places, each):
    rows = []
    for place in places:
        many = 300 if place is places[0] else each
        for number in range(1, many + 1):
            rows.append(
                Snapshot(
                    workspace=place,
                    number=number,
                    tree=hashlib.sha256(f"{place.pk}{number}".encode()).digest(),
                    kind="setup" if number == 1 else "action",
                    entries=8000 + number,
                    bytes=90_000_000,
                    added_bytes=rng.randrange(1_000_000),
                    created_at=_moment(rng, now, number / (many + 1)),
                )
            )
        place.next_snapshot = many + 1
    Snapshot.objects.bulk_create(rows, batch_size=500)
    body = {"git": {"branch": "main"}, "checks": {}}
    Manifest.objects.bulk_create((Manifest(snapshot=row, body=body, sha256="0" * 64) for row in rows), batch_size=500)
    first = {row.workspace_id: row for row in reversed(rows)}
    last = {row.workspace_id: row for row in rows}
    for number, place in enumerate(places):
        place.baseline, place.head = first[place.pk], last[place.pk]
        place.forked_from = places[0] if number % 10 == 5 else None
    Workspace.objects.bulk_update(places, ["baseline", "head", "next_snapshot", "forked_from"], batch_size=100)


def _commands(rng, now, places, per_workspace):
    operations, commands = [], []
    for place in places:
        for number in range(per_workspace):
            at = _moment(rng, now, number / per_workspace)
            operation = Operation(
                workspace=place,
                kind="command",
                phase=Phase.SETTLED,
                outcome={"ok": True},
                due_at=at,
                settled_at=at,
            )
            operations.append(operation)
            commands.append(
                Command(
                    workspace=place,
                    operation=operation,
                    argv=["bash", "-c", "make test"],
                    shown="make test",
                    check_name=rng.choice(["", "tests", "lint"]),
                    exit_status=rng.choice([0, 0, 0, 1]),
                    ended_at=at,
                    by={"type": "agent", "id": "1", "label": "agent 1"},
                )
            )
    Operation.objects.bulk_create(operations, batch_size=500)
    Command.objects.bulk_create(commands, batch_size=500)


def _actions(rng, now, team, agents, places, count):
    rows, revisions = [], []
    for number in range(1, count + 1):
        at = _moment(rng, now, number / count)
        tier, status = ("high", Status.PENDING) if number > count - PENDING else rng.choice(TIERS)
        # A quarter of everything happens in one workspace, as in life.
        place = places[0] if rng.random() < 0.25 else rng.choice(places)
        command = rng.choice(COMMANDS)
        canonical = json.dumps(
            {"tool": "Bash", "arguments": {"command": command}, "cwd": "/workspace", "workspace": place.key}
        ).encode()
        digest = hashlib.sha256(canonical).hexdigest()
        action = Action(
            team=team,
            number=number,
            agent=agents[number % len(agents)],
            workspace=place,
            mode="gate",
            tool="Bash",
            title=f"Run {command}",
            session=f"s{number}",
            call_hash=hashlib.sha256(f"{number}".encode()).hexdigest(),
            status=status,
            tier=tier,
            undo="no",
            digest=digest,
            created_at=at,
            expires_at=now + timedelta(hours=2) if status == Status.PENDING else at + timedelta(minutes=30),
            ended_at=None if status == Status.PENDING else at + timedelta(minutes=5),
        )
        rows.append(action)
        revisions.append(
            Revision(
                action=action,
                number=1,
                canonical=canonical,
                digest=digest,
                tier=tier,
                reasons=["Line 1 sends to a remote."],
                commands=[{"text": command}],
                created_at=at,
            )
        )
    Action.objects.bulk_create(rows, batch_size=500)
    Revision.objects.bulk_create(revisions, batch_size=500)
    return list(zip(rows, revisions, strict=True))


def _answers(person, asked):
    said = {"succeeded": "approve", "denied": "deny"}
    Decision.objects.bulk_create(
        (
            Decision(
                action=action,
                revision=revision,
                user=person,
                verdict=said[action.status],
                at=action.ended_at,
                final=True,
            )
            for action, revision in asked
            if action.tier == "high" and action.status in said
        ),
        batch_size=500,
    )


def _conversations(asked):
    """Make a session for each tenth action, with what a person said, the call, its result and the answer."""
    sessions = [
        AgentSession(
            team_id=action.team_id,
            agent_id=action.agent_id,
            workspace_id=action.workspace_id,
            dialect="claude-code",
            native_id=action.session,
            title="Make the tests pass",
            started_at=action.created_at,
            last_at=action.created_at,
            seq=4,
        )
        for action, _ in asked[::10]
    ]
    AgentSession.objects.bulk_create(sessions, batch_size=500)
    said = [("user", "text"), ("assistant", "call"), ("tool", "result"), ("assistant", "text")]
    Message.objects.bulk_create(
        (
            Message(
                session=session,
                seq=seq,
                at=session.started_at,
                role=role,
                kind=kind,
                text="Make the tests pass, please. " * 10,
                tool="Bash" if kind in ("call", "result") else "",
                source="hook",
            )
            for session in sessions
            for seq, (role, kind) in enumerate(said, 1)
        ),
        batch_size=500,
    )


def _log(rng, team, asked):
    """Asked and ended, as the gate records them, in one chain."""
    events, head = [], GENESIS
    moments = sorted(
        ((at, verb, action) for action, _ in asked for verb, at in _told(action)), key=lambda told: told[0]
    )
    for seq, (at, verb, action) in enumerate(moments, 1):
        event = Event(
            team=team,
            seq=seq,
            at=at,
            actor_type="agent",
            actor_id=str(action.agent_id),
            actor_label=f"bench's agent {action.number % 20}",
            verb=verb,
            subject_type="action",
            subject_id=str(action.pk),
            workspace_id=action.workspace_id,
            data={"title": action.title, "tier": action.tier},
            prev=head,
        )
        event.hash = head = chain_hash(event.as_export())
        events.append(event)
    Event.objects.bulk_create(events, batch_size=500)
    Team.objects.filter(pk=team.pk).update(event_seq=len(events), event_head=head)


def _told(action):
    yield "action.submitted", action.created_at
    if action.ended_at:
        yield f"action.{action.status}", action.ended_at
