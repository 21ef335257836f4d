"""Read rows for a response: one row by its id, or one page of a list."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from dashboard.database.prepared import Prepared
from dashboard.problems import invalid, not_found

PAGE_SIZE = 50


def find(rows: QuerySet, pk, what: str):
    """Return the row with this id among `rows`, those that the caller may see. Problem 404 for any other id."""
    try:
        return rows.get(pk=pk)
    except (rows.model.DoesNotExist, ValidationError):
        raise not_found(what) from None


def find_prepared(rows: Prepared, pk, what: str, **values):
    """Like `find`, for a prepared queryset with a slot `pk`."""
    try:
        return rows.rows(pk=pk, **values)[0]
    except (IndexError, ValidationError):
        raise not_found(what) from None


@dataclass(frozen=True)
class Page:
    """Rows of a list, and the cursor of the page after them; None on the last page."""

    rows: list
    cursor: str | None


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.astimezone(UTC)


@dataclass(frozen=True)
class Order:
    """The order of a list: a column or annotation that is never null, and how a cursor's text becomes its value."""

    by: str = "created_at"
    ascending: bool = False
    read: Callable[[str], object] = _moment


NEWEST = Order()


def page_of(rows: QuerySet, cursor: str | None = None, *, order: Order = NEWEST, size: int = PAGE_SIZE) -> Page:
    """Return a page of the list in this order, by default the newest first. Problem 422 for a cursor that is not one.

    A cursor is the position of a row (keyset pagination), so rows that come or go between two pages shift nothing: no
    row that was there throughout is missed or repeated. Callers pass cursors on without reading them.
    """
    by, after, sign = (order.by, "gt", "") if order.ascending else (order.by, "lt", "-")
    if cursor:
        value, pk = _position(cursor, order, rows.model._meta.pk)
        # The first condition is implied by the second; alone it lets the database begin in the middle of an index.
        rows = rows.filter(Q(**{f"{by}__{after}e": value}))
        rows = rows.filter(Q(**{f"{by}__{after}": value}) | Q(**{by: value, f"pk__{after}": pk}))
    rows = rows.order_by(f"{sign}{by}", f"{sign}pk")
    # First the ids alone: with the joined tables of the rows a database may sort all of them, not walk an index.
    found = list(rows.values_list("pk", flat=True)[: size + 1])
    shown = list(rows.filter(pk__in=found[:size]))
    return Page(shown, _cursor(shown[-1], by) if shown and len(found) > size else None)


def _cursor(row, by: str) -> str:
    value = getattr(row, by)
    if isinstance(value, datetime):
        # "Z", as a "+00:00" in a URL would be read as a space.
        value = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"{value}~{row.pk}"


def _position(cursor: str, order: Order, pk_field) -> tuple:
    """Return the (value of the order's column, id) of the last row before the page."""
    value, found, pk = cursor.rpartition("~")
    try:
        if not found:
            raise ValueError(cursor)
        return order.read(value), pk_field.to_python(pk)
    except (ValueError, OverflowError, ValidationError):
        raise invalid("Invalid cursor.") from None
