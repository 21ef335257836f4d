"""A team of which much holds one value: rows, a recording, snapshots."""

import json

import pytest

from approvals.models import ActionMessage, AgentMessage, SessionPrompt
from dashboard.database import clock
from dashboard.models import Actor
from tests.pages.conftest import ask, decide, keep_tree, make_command, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces.host import paths
from workspaces.models import Snapshot
from workspaces.services.scrub.value import Wanted

VALUE = 'leaked/value "of" a Token+42'
BY = Actor.system("test")


@pytest.fixture
def wanted():
    return Wanted(VALUE)


@pytest.fixture
def recorded(workspace):  # noqa: F811
    """`recorded(pieces, ended=True)`: a command whose recording is in files of these bytes, one after another."""

    def make(*pieces: bytes, ended=True, **fields):
        command = make_command(workspace, ended_at=clock.now() if ended else None, **fields)
        folder = paths.program_of(workspace.pk, command.operation_id)
        folder.mkdir(parents=True)
        at = 0
        for piece in pieces:
            (folder / (f"output.{at:020}" if at else "output")).write_bytes(piece)
            at += len(piece)
        (folder / "spec.json").write_text(json.dumps({"argv": command.argv}))
        return command

    return make


@pytest.fixture
def kept(team, workspace, tmp_path):  # noqa: F811
    """`kept(number, files)`: give a snapshot of the workspace these files, and make it its newest one if it is new."""

    def make(number: int, files: dict[str, str]) -> Snapshot:
        tree = keep_tree(team, tmp_path / f"files-{number}", files)
        found = workspace.snapshots.filter(number=number).first()
        if found:
            Snapshot.objects.filter(pk=found.pk).update(tree=tree)
            found.refresh_from_db()
            return found
        row = {"entries": 1, "bytes": 1, "added_bytes": 1, "created_at": clock.now(), "kind": "manual"}
        workspace.head = Snapshot.objects.create(workspace=workspace, number=number, tree=tree, **row)
        workspace.save()
        return workspace.head

    return make


@pytest.fixture
def said(agent, bob, ask):  # noqa: F811
    """What people and the agent said with the value in it: (about a card, to the agent, asked by its session)."""
    action, now = ask(), clock.now()
    return (
        ActionMessage.objects.create(action=action, kind="question", user=bob, text=f"Why {VALUE}?", at=now),
        AgentMessage.objects.create(agent=agent, user=bob, text=f"Use {VALUE}", at=now),
        SessionPrompt.objects.create(agent=agent, session="s", text=f"a\n{VALUE}", at=now),
    )
