"""Querysets compiled once, for the queries of each call: Django writes one for longer than SQLite answers it."""

from collections.abc import Callable
from copy import copy
from types import SimpleNamespace

from django.db import connection
from django.db.models import Expression, Field, QuerySet


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
    """A queryset that `build` returns, with a Slot for each value that differs from one run to the next."""

    def __init__(self, build: Callable[[], QuerySet]):
        self._build, self._compiled = build, None

    def rows(self, **values) -> list:
        """Return the queryset's rows for these values of its slots."""
        if self._compiled is None:
            queryset = self._build()
            compiler = queryset.query.get_compiler(queryset.db)
            self._compiled = queryset, compiler, *compiler.as_sql()
        queryset, compiler, sql, params = self._compiled
        with connection.cursor() as cursor:
            cursor.execute(sql, [each.value_of(values) if isinstance(each, Slot) else each for each in params])
            found = cursor.fetchall()
        query, compiler = copy(queryset.query), copy(compiler)  # of this run alone: threads share the compiled ones
        query.get_compiler = lambda *_, **__: compiler
        compiler.execute_sql = lambda *_, **__: [found]
        source = SimpleNamespace(db=queryset.db, query=query, _fields=queryset._fields, _known_related_objects={})
        return list(queryset._iterable_class(source))
