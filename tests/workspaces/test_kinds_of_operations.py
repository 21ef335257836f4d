"""A kind of operation, its class and its file have one name, and each stored name leads to one kind."""

import re
from pathlib import Path

import pytest

from approvals.registered import runner as registered
from workspaces import extensions
from workspaces.runner import operations
from workspaces.runner.job import Kind

FILES = sorted(path.stem for path in Path(operations.__file__).parent.glob("*.py") if path.stem != "__init__")
# Rows, events and the API have these names. `archive` is an export, so it can't be given to another kind.
STORED = {
    "archive": "put_away",
    "box_folder": "hold",
    "close_run": "ended",
    "compare": "prove",
    "expire": "forget",
    "export_archive": "archive",
}


def file_of(kind: Kind) -> str:
    return type(kind).__module__.rpartition(".")[2]


def words_of(kind: Kind) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(kind).__name__).lower()


def test_each_file_has_one_kind():
    assert sorted(map(file_of, operations.KINDS.values())) == FILES


@pytest.mark.parametrize("name", sorted(operations.KINDS))
def test_a_class_has_the_name_of_its_file_with_a_verb_before_a_noun(name):
    kind = operations.KINDS[name]
    assert words_of(kind) in (file_of(kind), *(f"{verb}_{file_of(kind)}" for verb in ("create", "open", "run", "take")))


def test_the_stored_name_is_that_of_the_file_but_where_it_is_listed():
    assert {file_of(kind): name for name, kind in operations.KINDS.items() if name != file_of(kind)} == STORED


def test_the_kinds_of_approvals_follow_the_same_rule(monkeypatch):
    for slot in ("kinds", "sweeps", "system_files"):
        monkeypatch.setattr(extensions, slot, type(getattr(extensions, slot))())
    registered.register()
    assert {name: (file_of(kind), words_of(kind)) for name, kind in extensions.kinds.items()} == {
        name: (name, name) for name in ("broker", "workspace_action", "put_hook_back", "asked_snapshot", "way_back")
    }


def test_a_name_of_no_kind_is_an_error():
    with pytest.raises(KeyError):
        operations.kind_named("close_run")
