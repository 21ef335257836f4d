"""Two neighbouring versions run side by side on one database; others are refused before they change anything."""

import pytest
from django.db import connection

from dashboard.database import clock
from dashboard.ops import bootstrap, database
from dashboard.ops.bootstrap import StartRefused
from workspaces.host import identity, versions
from workspaces.models import RUNNER_TIMEOUT, Runner

NEWER = {("workspaces", "9999_of_the_next_version")}


@pytest.fixture
def this_is(monkeypatch):
    """`this_is("0.2.0")`: the version that is installed here."""
    return lambda version: monkeypatch.setattr(identity, "code_version", lambda: version)


def test_a_version_that_is_no_neighbour_of_a_host_that_answers_is_refused(db, this_is):
    now = clock.now()
    Runner.objects.create(host="b", version="0.2.3", heartbeat_at=now)
    Runner.objects.create(host="c", version="0.1.0", web_at=now - 2 * RUNNER_TIMEOUT, parts=["web"])
    assert versions.refusal("0.3.0", host="a") == versions.refusal("0.1.0", host="a") == ""
    Runner.objects.filter(host="c").update(web_at=now)
    words = versions.refusal("0.3.0", host="a")
    assert words.startswith("c runs Handrail 0.1.0, and this is 0.3.0: only neighbouring versions run side by side.")
    assert versions.refusal("0.3.0", host="c") == ""


def test_such_a_version_does_not_start(db, this_is):
    if connection.vendor == "sqlite":  # which serves one host
        bootstrap._refuse_version()
        return
    Runner.objects.create(host="b", version="0.1.0", heartbeat_at=clock.now())
    this_is("0.3.0")
    with pytest.raises(StartRefused, match=r"b runs Handrail 0\.1\.0"):
        bootstrap._refuse_version()
    this_is("0.2.0")
    row = identity.register()
    Runner.objects.filter(pk=row.pk).update(version="0.1.0")
    bootstrap._refuse_version()
    assert Runner.objects.get(pk=row.pk).version == "0.2.0"  # before it migrates


def test_an_older_host_goes_on_with_what_a_newer_neighbour_has_migrated(db, this_is, monkeypatch):
    monkeypatch.setattr(database, "applied_migrations", lambda: known | NEWER)
    known = set(database.MigrationRecorder(connection).applied_migrations())
    this_is("0.1.0")
    words, _ = database.misfit_here()
    assert "9999_of_the_next_version is not known here" in words
    Runner.objects.create(host="b", version="0.2.0")
    assert (database.misfit_here() is None) is (connection.vendor == "postgresql")
    Runner.objects.update(version="0.3.0")
    assert database.misfit_here()
