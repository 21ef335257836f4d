"""Two verbs of one team at once, for some seconds each pair: on PostgreSQL no transaction is ended for another one.

HANDRAIL_TEST_PAIR_SECONDS is the time for each pair.
"""

import itertools
import os
import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, connections

from approvals.actions import expiry, gate, grants
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentMessage, Grant
from approvals.sessions import messages
from dashboard.database import clock, retries
from dashboard.models import Actor
from dashboard.problems import Problem
from tests.approvals.conftest import PUSH
from tests.pages.conftest import make_workspace
from workspaces.host import paths
from workspaces.models import Workspace
from workspaces.runner import snapshots

SECONDS = float(os.environ.get("HANDRAIL_TEST_PAIR_SECONDS", "1.5"))
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time"),
]


class Desk:
    """What the verbs are about: one agent at work in one workspace, and a person who decides."""

    def __init__(self, workspace: Workspace, caller, person, tmp_path):
        self.workspace, self.caller, self.person = workspace, caller, person
        self.numbers = itertools.count()
        tree = paths.tree_of(workspace)
        (tree / "file").write_text("0")

    def ask(self) -> Action:
        call = Call("Bash", PUSH, workspace=self.workspace, session=f"s{next(self.numbers)}")
        return gate.submit(call, caller=self.caller)[0]

    # The verbs

    def submit(self):
        action = self.ask()
        if action.status == "pending":
            gate.cancel(action, caller=self.caller)

    def snapshot(self):
        (paths.tree_of(self.workspace) / "file").write_text(str(next(self.numbers)))
        workspace = Workspace.objects.select_related("team", "environment", "head").get(pk=self.workspace.pk)
        tree = snapshots.host_tree(workspace)
        tree.is_mapped = False
        snapshots.take(workspace, tree, kind="action", by=Actor.agent(self.caller.agent))

    def message(self):
        sent = messages.send(self.caller.agent, session="", caller=self.person, text="Go on.")
        messages.acknowledge(AgentMessage.objects.select_related("agent").get(pk=sent.pk), caller=self.caller)

    def grant(self):
        action = self.ask()
        if action.status == "pending":
            grants.approve_and_grant(action, caller=self.person, digest=action.digest)

    def revoke(self):
        for grant in Grant.objects.active(clock.now()):
            grants.revoke(grant.pk, caller=self.person)
        self.grant()

    def decide(self):
        action = self.ask()
        if action.status == "pending":
            gate.decide(action, Answer("deny", action.digest), caller=self.person)

    def sweep(self):
        late = Action.objects.filter(pk=self.ask().pk, status="pending")
        late.update(expires_at=clock.now() - timedelta(seconds=1))
        expiry.sweep([self.workspace.team_id])


VERBS = ("submit", "snapshot", "message", "grant", "revoke", "decide", "sweep")


@pytest.fixture
def desk(team, agent, caller, person, bob, tmp_path):
    workspace = make_workspace(team, agent, "pairs")
    workspace.snapshots.all().delete()
    paths.make_folders(workspace)
    return Desk(Workspace.objects.get(pk=workspace.pk), caller, person(bob), tmp_path)


def repeat(verb, until: float, done: list, failed: list):
    """Do it again and again; what another verb decided first is no failure."""
    try:
        while time.monotonic() < until and not failed:
            try:
                verb()
                done.append(verb.__name__)
            except Problem:  # the other one was first
                pass
    except Exception as error:
        failed.append(f"{verb.__name__}: {error!r}")
    finally:
        connections.close_all()


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations_with_replacement(VERBS, 2)])
def test_two_at_once_never_end_each_other(desk, one, other, monkeypatch):
    monkeypatch.setattr(retries, "TRIES", 1)  # what is tried again would hide it
    until, done, failed = time.monotonic() + SECONDS, [], []
    verbs = [getattr(desk, one), getattr(desk, other)]
    threads = [threading.Thread(target=repeat, args=(verb, until, done, failed)) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {one, other} == set(done)
