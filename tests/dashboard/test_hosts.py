"""What an operator says of a host: `manage.py host drain|undrain|lost`."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from dashboard.database import clock
from workspaces.models import Runner


@pytest.fixture
def hosts(db):
    """`hosts("a", …)`: the rows of hosts with these names, which answer."""

    def make(*names, **fields):
        return [Runner.objects.create(**{"host": name, "heartbeat_at": clock.now()} | fields) for name in names]

    return make


def test_a_host_is_drained_and_undrained(hosts, capsys):
    hosts("a", "b")
    call_command("host", "drain", "a")
    assert "a gets no new workspaces." in capsys.readouterr().out
    assert Runner.objects.get(draining_at__isnull=False).host == "a"
    call_command("host", "undrain", "a")
    assert not Runner.objects.filter(draining_at__isnull=False).exists()


def test_a_host_that_nobody_knows_and_one_that_answers_are_refused(hosts):
    hosts("a")
    with pytest.raises(CommandError, match="There is no such host"):
        call_command("host", "drain", "nobody")
    with pytest.raises(CommandError, match=r"a answers\. Drain it instead, or stop it first\."):
        call_command("host", "lost", "a")


def test_a_silent_host_is_lost(hosts, capsys):
    hosts("a", heartbeat_at=clock.now() - timedelta(minutes=5))
    call_command("host", "lost", "a")
    assert "Lost with a: no workspace." in capsys.readouterr().out
    assert Runner.objects.get().lost_at is not None
