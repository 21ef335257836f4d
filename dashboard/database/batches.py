"""Read many rows a part at a time, with no cursor open in between."""

from collections.abc import Iterator

from django.db.models import QuerySet

SIZE = 500


def in_batches(rows: QuerySet, size: int = SIZE) -> Iterator:
    """Yield the rows in their order: the keys of all are read first, then `size` rows with each query.

    Django's `iterator` keeps a cursor open until the last row. On SQLite a connection with one cannot write once
    another has written: "database is locked", however long it would wait. Here whoever handles a row may write. A row
    that is deleted meanwhile, or changed so that it is not one of them, is left out.
    """
    keys = list(rows.values_list("pk", flat=True))
    for at in range(0, len(keys), size):
        yield from rows.filter(pk__in=keys[at : at + size])
