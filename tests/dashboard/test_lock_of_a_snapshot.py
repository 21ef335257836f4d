"""While a snapshot is noted, others can note what refers to its workspace: on PostgreSQL they waited for each other."""

from threading import Thread

import pytest
from django.db import connection, transaction

from dashboard.database import clock
from dashboard.models import Actor
from tests.pages.conftest import keep_tree, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces.models import Operation
from workspaces.runner import snapshots
from workspaces.store import LocalTree


@pytest.mark.django_db(transaction=True)
def test_an_operation_is_noted_while_a_snapshot_holds_its_workspace(team, workspace, tmp_path, monkeypatch):  # noqa: F811
    if connection.vendor == "sqlite":
        return  # it has one writer at a time and no row locks
    keep_tree(team, tmp_path / "files", {"a": "1"})
    noted, add = [], snapshots._add

    def note():
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL lock_timeout = '3s'")
            noted.append(Operation.objects.create(kind="command", workspace=workspace, due_at=clock.now()))
        connection.close()

    def add_while_another_notes(*args, **kwargs):
        made = add(*args, **kwargs)
        other = Thread(target=note)
        other.start()
        other.join()
        assert Operation.objects.filter(pk=noted[0].pk).exists()
        return made

    monkeypatch.setattr(snapshots, "_add", add_while_another_notes)
    taken = snapshots.take(workspace, LocalTree(tmp_path / "files"), kind="manual", by=Actor.system("test"))
    workspace.refresh_from_db()
    assert workspace.head.pk == taken.pk
