"""Querysets compiled once, for the queries of each call: Django writes one for longer than SQLite answers it."""

from collections.abc import Callable, Mapping
from copy import copy
from types import SimpleNamespace
from uuid import UUID

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Expression, Field, QuerySet, UUIDField, prefetch_related_objects


class Slot(Expression):
    """The place of a value in a prepared queryset; the field says how the database takes the value."""

    def __init__(self, name: str, field: Field):
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler, connection):
        return "%s", [self]

    def value_of(self, values: dict):
        return self.output_field.get_db_prep_value(values[self.name], connection)


class Prepared:
    """A queryset that `build` returns, with a Slot for each value that differs from one run to the next.

    `marks`, {name: id}: ids that stand for values as well.
    """

    def __init__(self, build: Callable[[], QuerySet], marks: Mapping[str, UUID] | None = None):
        self._build, self._marks, self._compiled = build, marks or {}, None

    def _compile(self) -> tuple:
        queryset = self._build()
        compiler = queryset.query.get_compiler(queryset.db)
        sql, params = compiler.as_sql()
        slots = [Slot(name, UUIDField()) for name in self._marks]
        marked = {slot.value_of(self._marks): slot for slot in slots}
        return (
            queryset,
            compiler,
            sql,
            [marked.get(each, each) if isinstance(each, str | UUID) else each for each in params],
        )

    def rows(self, **values) -> list:
        """Return the queryset's rows for these values of its slots."""
        try:
            queryset, compiler, sql, params = self._compiled = self._compiled or self._compile()
        except EmptyResultSet:  # it can have no row
            return []
        with connection.cursor() as cursor:
            cursor.execute(sql, [each.value_of(values) if isinstance(each, Slot) else each for each in params])
            found = cursor.fetchall()
        query, compiler = copy(queryset.query), copy(compiler)  # of this run alone: threads share the compiled ones
        query.get_compiler = lambda *_, **__: compiler
        compiler.execute_sql = lambda *_, **__: [found]
        source = SimpleNamespace(db=queryset.db, query=query, _fields=queryset._fields, _known_related_objects={})
        rows = list(queryset._iterable_class(source))
        prefetch_related_objects(rows, *queryset._prefetch_related_lookups)
        return rows
