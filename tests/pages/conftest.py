"""Rows as pages show them: actions asked for at the gate, workspaces without a runner."""

import hashlib
import re
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from dashboard.database import clock
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token
from workspaces import operations
from workspaces.host import paths
from workspaces.models import Command, Environment, Manifest, Operation, Phase, Runner, Snapshot, State, Workspace
from workspaces.runner.daemon import Daemon
from workspaces.runner.ledger import Ledger
from workspaces.store import LocalTree, Store

PUSH = {"command": "git push origin main"}  # high: cannot be undone
FORCE = {"command": "git push --force origin main"}  # critical: two people
LIST = {"command": "pwd"}  # low: runs without asking


@pytest.fixture
def ask(agent_token):
    """`ask(PUSH)`: the agent asks at the gate; returns the action."""

    def submit(arguments=PUSH, *, tool="Bash", token=None, **more):
        caller = caller_by_token(find_token(token or agent_token))
        return gate.submit(Call(tool=tool, arguments=arguments, **more), caller=caller)[0]

    return submit


@pytest.fixture
def decide():
    """`decide(action, "deny", by=bob)`: an answer given elsewhere."""

    def answer(action, verdict="approve", *, by, **more):
        caller = caller_of(by)
        return gate.decide(gate.find(action.pk, caller=caller), Answer(verdict, action.digest, **more), caller=caller)

    return answer


@pytest.fixture
def workspace(team, agent):
    """One that is ready, with two snapshots; nothing runs in it."""
    return make_workspace(team, agent, "repo-task-1")


def make_workspace(team, agent, key, state=State.READY, **fields):
    environment = Environment.objects.get_or_create(team=team, name="default", version=1)[0]
    made = Workspace.objects.create(
        team=team,
        key=key,
        environment=environment,
        state=state,
        created_by_agent=agent,
        last_active_at=clock.now(),
        uid=300_000 + Workspace.objects.count(),
        **fields,
    )
    for number in (1, 2):
        made.head = Snapshot.objects.create(
            workspace=made,
            number=number,
            tree=hashlib.sha256(f"{made.pk}{number}".encode()).digest(),
            parent=made.head,
            kind="setup" if number == 1 else "manual",
            label="" if number == 1 else "before lunch",
            entries=12,
            bytes=3456,
            added_bytes=100,
            created_at=clock.now() - timedelta(hours=3 - number),
        )
        body = {"repository": "https://git.example.org/x", "git": {"branch": f"b{number}", "sha": "ab" * 20}}
        Manifest.objects.create(snapshot=made.head, body=body, sha256="0" * 64)
        if number == 1:
            made.baseline = made.head
    made.next_snapshot = 3
    made.save()
    return made


def make_command(workspace, shown="make test", phase=Phase.SETTLED, exit_status=0, **fields):
    outcome = {"ok": True} if phase == Phase.SETTLED else None
    operation = Operation.objects.create(
        workspace=workspace, kind="command", phase=phase, due_at=clock.now(), outcome=outcome
    )
    return Command.objects.create(
        workspace=workspace,
        operation=operation,
        argv=["bash", "-c", shown],
        shown=shown,
        exit_status=exit_status if phase == Phase.SETTLED else None,
        by={"type": "person", "id": "1", "label": "alice"},
        **fields,
    )


def keep_tree(team, folder, files: dict[str, str]) -> bytes:
    """Store a tree with these files in the team's store; return its id."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    place = paths.store_of(team.pk)
    place.parent.mkdir(parents=True, exist_ok=True)
    store = Store.open(place) if place.exists() else Store.create(place)
    return bytes.fromhex(store.snapshot(LocalTree(folder), thorough=True).tree)


@pytest.fixture
def command(workspace):
    return make_command(workspace)


@pytest.fixture
def runner(db, tmp_path, settings):
    """A runner whose loops do not run: `runner()` carries out what is due, in this thread and its transaction."""
    daemon = Daemon()
    daemon.thread = lambda function, *args, **kwargs: sync_to_async(function)(*args, **kwargs)
    daemon.row = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=clock.now())
    daemon.ledger = Ledger(tmp_path / "ledger")

    def carry_out():
        for due in list(operations.claimable(daemon.row)):
            async_to_sync(daemon._work)(operations.claim(due, daemon.row), False)

    carry_out.daemon = daemon
    yield carry_out
    daemon.ledger.close()


@pytest.fixture
def read():
    """`read(client, address)`: a page that answers 200, with one space for several, as browsers show it."""

    def get(client, address, status=200):
        response = client.get(address)
        assert response.status_code == status, (address, response.status_code)
        return re.sub(" {2,}", " ", response.content.decode())

    return get


def tight(html: str) -> str:
    """Return a page without whitespace beside its tags, to compare what stands next to each other."""
    return re.sub(r"\s*(<[^>]*>)\s*", r"\1", html)
