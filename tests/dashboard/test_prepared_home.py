"""The home from which all products of a test run begin: what a failed attempt at it left is in none of them."""

import subprocess
from types import SimpleNamespace

import pytest

from tests.support import product
from tests.support.product import PreparedHome


@pytest.fixture
def ends(monkeypatch):
    """Have the first steps of a product end with these statuses, one after the other, without being run."""

    def with_statuses(*statuses):
        left = list(statuses)
        run = lambda *_, **__: subprocess.CompletedProcess([], left.pop(0), "", "no memory")  # noqa: E731
        monkeypatch.setattr(product, "subprocess", SimpleNamespace(run=run))

    return with_statuses


def test_an_attempt_after_a_failed_one_begins_anew(tmp_path, ends):
    (tmp_path / "migrated.sqlite3").write_bytes(b"tables")
    prepared = PreparedHome(tmp_path / "prepared")
    ends(1, 0)
    with pytest.raises(AssertionError, match="no memory"):
        prepared._make({})
    (tmp_path / "prepared.half" / "handrail.sqlite3-wal").write_bytes(b"what the first attempt wrote")
    prepared._make({})
    assert {each.name: each.read_bytes() for each in prepared.folder.iterdir()} == {"handrail.sqlite3": b"tables"}
