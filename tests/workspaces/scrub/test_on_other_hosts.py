"""What several hosts found or removed, together; and a host that went away in the middle of its part."""

import json
import uuid
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

from dashboard.database import clock
from dashboard.models import Actor
from workspaces.models import Operation, Runner
from workspaces.operations import runner_client
from workspaces.runner.scrub_elsewhere import _ask
from workspaces.services.scrub import asking
from workspaces.services.scrub.places import FILE, OUTPUT, Place, without_twins

from .conftest import BY

OF_A_PROGRAM = Place(OUTPUT, "output of a command", "make", pk="7")
LEFT = replace(OF_A_PROGRAM, why_kept="its files could not be written: Read-only file system")


def test_what_is_on_several_hosts_counts_once():
    files = Place(FILE, "live files", "files in /workspace")
    assert without_twins([OF_A_PROGRAM], [OF_A_PROGRAM, files, files]) == [files, files]
    assert without_twins([], [OF_A_PROGRAM, OF_A_PROGRAM]) == [OF_A_PROGRAM]


def test_what_a_purge_left_on_another_host_is_said_though_it_was_removed_here():
    assert without_twins([OF_A_PROGRAM], [LEFT, OF_A_PROGRAM]) == [LEFT]
    assert without_twins([OF_A_PROGRAM, LEFT], [LEFT]) == []


def test_the_part_of_a_host_that_went_away_does_not_refuse_that_of_another(team, wanted, monkeypatch):
    now = clock.now()
    gone = Runner.objects.create(host="gone", address="gone:7444", heartbeat_at=now - timedelta(hours=1))
    other = Runner.objects.create(host="other", address="other:7444", heartbeat_at=now)
    asking.record(uuid.uuid4(), team, gone, asking.ON_HOST, {}, BY)

    def ask_runner(method, lead, path, *, body, timeout):
        asked, pk = json.loads(body), uuid.uuid4()
        asking.record(pk, team, other, asked["kind"], asked["args"], Actor(**asked["by"]))
        return {"operation": str(pk)}

    monkeypatch.setattr(runner_client, "ask_runner", ask_runner)
    pk = _ask(other, team, SimpleNamespace(by=BY), wanted, purge=False)
    assert [str(operation.pk) for operation in Operation.objects.open()] == [pk]
