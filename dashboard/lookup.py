"""Read rows for a response: one row by its id, or one page of a list."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet

from dashboard.problems import invalid, not_found

PAGE_SIZE = 50


def find(rows: QuerySet, pk, what: str):
    """Return the row with this id among `rows`, those that the caller may see. Problem 404 for any other id."""
    try:
        return rows.get(pk=pk)
    except (rows.model.DoesNotExist, ValidationError):
        raise not_found(what) from None


@dataclass(frozen=True)
class Page:
    """Rows of a list, and the cursor of the page after them; None on the last page."""

    rows: list
    cursor: str | None


def page_of(rows: QuerySet, cursor: str | None = None, *, by: str = "created_at", size: int = PAGE_SIZE) -> Page:
    """Return a page of the list, newest first by the column `by`. Problem 422 for a cursor that is not one.

    A cursor is the position of a row (keyset pagination), so rows that come or go between two pages shift nothing: no
    row that was there throughout is missed or repeated. Callers pass cursors on without reading them.
    """
    if cursor:
        moment, pk = _position(cursor, rows.model._meta.pk)
        rows = rows.filter(Q(**{f"{by}__lt": moment}) | Q(**{by: moment}, pk__lt=pk))
    found = list(rows.order_by(f"-{by}", "-pk")[: size + 1])
    shown = found[:size]
    return Page(shown, _cursor(shown[-1], by) if len(found) > size else None)


def _cursor(row, by: str) -> str:
    # "Z", as a "+00:00" in a URL would be read as a space.
    return f"{getattr(row, by).astimezone(UTC).isoformat().replace('+00:00', 'Z')}~{row.pk}"


def _position(cursor: str, pk_field) -> tuple:
    """Return the (time, id) of the last row before the page."""
    moment, found, pk = cursor.partition("~")
    try:
        moment = datetime.fromisoformat(moment)
        if not found or moment.tzinfo is None:
            raise ValueError(cursor)
        return moment.astimezone(UTC), pk_field.to_python(pk)
    except (ValueError, OverflowError, ValidationError):
        raise invalid("Invalid cursor.") from None
