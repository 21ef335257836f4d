"""Two hosts submit an operation with the same key at the same moment: both get the one that was created."""

import threading

import pytest
from django.db import connection, connections, transaction

from dashboard.models import Actor
from tests.pages.conftest import make_workspace
from workspaces import operations
from workspaces.models import Operation

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="on SQLite one host has the database to itself"),
]


def test_both_get_the_operation_of_the_first(team, agent):
    workspace, first_is_in, first_may_commit = make_workspace(team, agent, "w"), threading.Event(), threading.Event()
    got = []

    def submit():
        operation = operations.submit("snapshot", workspace=workspace, by=Actor.system("sweep"), dedupe="one")
        got.append(operation.pk)

    def first():
        try:
            with transaction.atomic():
                submit()
                first_is_in.set()
                first_may_commit.wait(20)
        finally:
            connections.close_all()

    def second():
        try:
            with transaction.atomic():  # which goes on after the refusal of the row
                submit()
                assert Operation.objects.count() == 1
                got.append("went on")
        finally:
            connections.close_all()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert first_is_in.wait(20)
    threads[1].start()
    while not waits_for_a_row():
        threads[1].join(0.05)
        assert threads[1].is_alive()
    first_may_commit.set()
    for thread in threads:
        thread.join(20)
    [operation] = Operation.objects.all()
    assert got == [operation.pk, operation.pk, "went on"]


def waits_for_a_row() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted")
        return cursor.fetchone()[0] > 0
