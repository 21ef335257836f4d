"""The rows of a team: each text, JSON and binary column of each model that leads to the team by foreign keys.

A new model is searched without being named anywhere; what a purge does with it is in rules.py.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_

from django.apps import apps
from django.db import DataError, IntegrityError, models, transaction
from django.db.models import Q

from dashboard.database.batches import in_batches
from dashboard.database.row_locks import locked
from dashboard.models import Team
from workspaces.models import Workspace
from workspaces.secrets import rotation
from workspaces.services.scrub import rules
from workspaces.services.scrub.places import ROW, SECRET, Place
from workspaces.services.scrub.value import MARK, Wanted

APPS = ("dashboard", "workspaces", "approvals")
TICK = 500  # rows between two looks at whether to stop


@dataclass(frozen=True)
class Part:
    """One model: the ways from its rows to their team, and its columns that may hold a text."""

    model: type
    paths: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.model._meta.verbose_name)

    def rows(self, team):
        return self.model._base_manager.filter(reduce(or_, (Q(**{path: team.pk}) for path in self.paths)))


@cache
def parts() -> tuple[Part, ...]:
    """Return what is searched, the same for each team."""
    found = []
    for model in apps.get_models():
        if model._meta.app_label in APPS and not model._meta.proxy:
            paths, columns = paths_to_team(model), _columns(model)
            if paths and columns:
                found.append(Part(model, paths, columns))
    return tuple(found)


def paths_to_team(model, seen: frozenset = frozenset()) -> tuple[str, ...]:
    """Return lookups from a row to its team's id: one that no row lacks, or else all that some have."""
    if model is Team:
        return ("pk",)
    optional: list[str] = []
    required: list[tuple[str, ...]] = []
    for column in model._meta.concrete_fields:
        if column.remote_field is None or column.related_model in seen | {model}:
            continue
        below = tuple(f"{column.name}__{path}" for path in paths_to_team(column.related_model, seen | {model}))
        if below and not column.null:
            required.append(below)
        optional += below
    return min(required, key=lambda paths: (len(paths), len(paths[0])), default=tuple(optional))


def _columns(model) -> tuple[str, ...]:
    encrypted = {rows.model for rows, _ in rotation.encrypted_columns()} if "value" not in rules.of(model).read else ()
    return tuple(
        column.name
        for column in model._meta.concrete_fields
        if isinstance(column, models.CharField | models.TextField | models.JSONField | models.BinaryField)
        and not column.choices
        and not (column.name == "value" and model in encrypted)
    )


def find(team, wanted: Wanted, tick: Callable[[], None]) -> Iterator[Place]:
    """Yield the rows that hold the value; `tick` is called now and then, and may raise to stop."""
    for part in parts():
        for pk, columns in _hits(part, team, wanted, tick):
            yield _place(part, pk, columns, wanted)


def _hits(part: Part, team, wanted: Wanted, tick) -> Iterator[tuple[object, list[str]]]:
    """Yield (primary key, columns with the value) of the team's rows of one model."""
    read = rules.of(part.model).read
    rows = part.rows(team).order_by("pk").values_list("pk", *part.columns)
    for number, (pk, *values) in enumerate(in_batches(rows)):
        if number % TICK == 0:
            tick()
        found = [
            name for name, value in zip(part.columns, values, strict=True) if wanted.is_in(_searched(value, read, name))
        ]
        if found:
            yield pk, found


def _searched(value, read: dict, name: str) -> bytes:
    if value is None:
        return b""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | memoryview | bytearray):
        return read[name](bytes(value)) if name in read else bytes(value)
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _place(part: Part, pk, columns: list[str], wanted: Wanted) -> Place:
    row, rule = part.model._base_manager.get(pk=pk), rules.of(part.model)
    kept = {rule.why_kept(name) for name in columns} - {""}
    if not kept and rule.busy is not None and part.model._base_manager.filter(rule.busy, pk=pk).exists():
        kept = {rule.why_busy}
    workspace = row if isinstance(row, Workspace) else getattr(row, "workspace", None)
    return Place(
        kind=ROW,
        what=part.name,
        name=wanted.out_of(rule.name(row))[:200],
        pk=str(pk),
        workspace=wanted.out_of(getattr(workspace, "key", "") or ""),
        url=rule.url(row),
        why_kept="; ".join(sorted(kept)),
    )


# Purging --------------------------------------------------------------------------------------------------------------


def purge(team, wanted: Wanted, tick: Callable[[], None]) -> Iterator[Place]:
    """Take the value out of the rows that may be changed, and yield each row with why it was not, if so."""
    for part in parts():
        for pk, columns in list(_hits(part, team, wanted, tick)):
            place = _place(part, pk, columns, wanted)
            why = _purge_row(part, pk, columns, wanted)
            yield Place(**(place.as_json() | {"why_kept": why, "paths": ()}))


def _purge_row(part: Part, pk, columns: list[str], wanted: Wanted) -> str:
    """Take the value out of one row; return why it is still there, "" if it isn't."""
    rule, rows = rules.of(part.model), part.model._base_manager.filter(pk=pk)
    free = [name for name in columns if not rule.why_kept(name)]
    kept = {rule.why_kept(name) for name in columns} - {""}
    try:
        with transaction.atomic():
            row = locked(rows).first()
            if row is None:
                return ""
            if free and rule.busy is not None and rows.filter(rule.busy).exists():
                kept.add(rule.why_busy)
            elif free and rule.deletes:
                row.delete()
            elif free:
                models.QuerySet.update(rows, **{name: _without(row, name, rule, wanted) for name in free})
    except (IntegrityError, DataError):
        kept.add("the database refuses the change, since other rows depend on the text")
    return "; ".join(sorted(kept))


def _without(row, name: str, rule: rules.Rule, wanted: Wanted):
    column, value = row._meta.get_field(name), getattr(row, name)
    if name in rule.cleared:
        return None if column.null else column.get_default()
    if isinstance(value, str):
        return wanted.out_of(value)[: column.max_length]
    if isinstance(value, bytes | memoryview):
        return wanted.out_of_bytes(bytes(value))
    return wanted.out_of_json(value)


# Encrypted values -----------------------------------------------------------------------------------------------------


def find_encrypted(team, wanted: Wanted) -> Iterator[Place]:
    """Yield the secrets, channels and targets whose encrypted value is, or contains, the value."""
    for rows, about in rotation.encrypted_columns():
        paths = paths_to_team(rows.model)
        if not paths or "value" in rules.of(rows.model).read:  # it is searched with the other columns
            continue
        for row in rows.filter(reduce(or_, (Q(**{path: team.pk}) for path in paths))):
            if wanted.is_in_text(rotation.decrypted(row, about)):
                yield Place(
                    kind=SECRET,
                    what=str(rows.model._meta.verbose_name),
                    name=wanted.out_of(str(row))[:200],
                    pk=str(row.pk),
                    workspace=getattr(getattr(row, "workspace", None), "key", ""),
                    why_kept="it is kept encrypted, to be used or searched for: replace or delete it on its own page",
                )


__all__ = ["MARK", "Part", "find", "find_encrypted", "parts", "paths_to_team", "purge"]
