"""Row locks, and the one order in which they are taken: the team's turn first (docs/decisions/0100).

On PostgreSQL two transactions that lock the same rows in different orders wait for each other until the server ends
one of them. SQLite has one writer at a time, and its rows have no locks.
"""

from contextlib import contextmanager

from django.db import connection, models, transaction


def locked(rows: models.QuerySet) -> models.QuerySet:
    """Lock the rows that are read until the end of the transaction: in their order, or else in that of their keys.

    FOR NO KEY UPDATE: a new row that refers to one of them need not wait, which it would with FOR UPDATE. Rows that are
    joined are not locked (PostgreSQL cannot lock one that may be missing).
    """
    rows = rows if rows.ordered else rows.order_by("pk")
    return rows.select_for_update(of=("self",), no_key=True)


class LockingQuerySet(models.QuerySet):
    def locked(self):
        return locked(self)

    def take_turn(self, *pks):
        """Lock these rows, as the first thing in the caller's transaction.

        `Team.objects.take_turn(team_id)` begins each transaction that records an event of the team, or changes more
        than one row of what it has: so these transactions wait for each other here, where they hold nothing yet.
        """
        if connection.features.has_select_for_update:
            list(self.filter(pk__in=pks).locked().values_list("pk", flat=True))

    @contextmanager
    def turn(self, *pks):
        """Open a transaction that takes this turn: `with Team.objects.turn(team_id):`."""
        with transaction.atomic():
            self.take_turn(*pks)
            yield
