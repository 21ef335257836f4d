"""Each host on the Status page, in doctor, the metrics and `manage.py host list`: what runs there and how it is."""

import json
from datetime import timedelta

import pytest
from django.core.management import call_command

from dashboard.database import clock
from dashboard.ops import doctor
from workspaces.models import Runner, StoreIdentity
from workspaces.services import hosts

GIB = 2**30
ROOM = {"runs": 10, "memory_bytes": 8 * GIB, "cpus": 4, "is_short_of_disk": False}
DRIVERS = {"sandbox": {"available": True, "isolation": "namespaces"}, "docker": {"available": False, "reason": "none"}}


@pytest.fixture
def three(db, team):
    """host-a is ready and has the snapshots, host-b drains, host-c has a web and a queue and is silent."""
    now, long_ago = clock.now(), clock.now() - timedelta(hours=2)
    make = Runner.objects.create
    make(host="host-a", heartbeat_at=now, web_at=now, version="0.1.0", parts=["web", "runner"], room=ROOM,
         capabilities=DRIVERS)  # fmt: skip
    make(host="host-b", heartbeat_at=now, version="0.1.0", parts=["runner"], draining_at=now)
    make(host="host-c", web_at=long_ago, queue_at=long_ago, version="0.1.0", parts=["web", "queue"])
    make(host="host-d", removed_at=now)
    StoreIdentity.objects.create(team=team, store_id="x", host="host-a")


def test_the_list_has_a_line_for_each_host(three, capsys):
    call_command("host", "list")
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "HOST",
        "STATE",
        "SINCE",
        "PARTS",
        "VERSION",
        "UP",
        "MEMORY",
        "CPUS",
        "WORKSPACES",
        "DRIVERS",
    ]
    assert [line.split()[:2] for line in lines] == [
        ["host-a", "ready"],
        ["host-b", "draining"],
        ["host-c", "unreachable"],
    ]
    assert "web,runner" in lines[0]
    assert "0 of 10" in lines[0]
    assert lines[0].endswith("sandbox")


def test_the_list_is_json_for_programs(three, team, capsys):
    call_command("host", "list", "--json")
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(found) == ["host-a", "host-b", "host-c"]
    assert (found["host-a"]["state"], found["host-a"]["snapshots_of"]) == ("ready", [team.slug])
    assert (found["host-c"]["state"], list(found["host-c"]["heard"])) == ("unreachable", ["web", "queue"])
    assert found["host-c"]["since"] == found["host-c"]["heard"]["web"]


def test_doctor_has_a_finding_for_each_host(three):
    found = {one.part: one for one in doctor.examine(deep=False) if one.part.startswith("host ")}
    assert found["host host-a"].words == "Runs web and runner, version 0.1.0. Drivers: sandbox."
    assert "Draining since" in found["host host-b"].words
    assert (found["host host-b"].ok, found["host host-c"].ok) == (True, False)
    assert found["host host-c"].words.startswith("Unreachable since")
    assert "manage.py host lost host-c" in found["host host-c"].what_to_do
    assert [one.needed for one in found.values()] == [False] * 3


def test_doctor_names_a_part_that_is_silent_while_its_host_answers(three):
    Runner.objects.filter(host="host-a").update(web_at=clock.now() - timedelta(hours=1))
    found = next(one for one in doctor.examine(deep=False) if one.part == "host host-a")
    assert (found.ok, "No heartbeat of its web." in found.words) == (False, True)


def test_doctor_names_versions_that_differ(three):
    assert not [one for one in doctor.examine(deep=False) if one.part == "versions"]
    Runner.objects.filter(host="host-b").update(version="0.2.0")
    found = next(one for one in doctor.examine(deep=False) if one.part == "versions")
    assert found.words == "Hosts run different versions: host-a 0.1.0, host-b 0.2.0."


def test_a_single_host_has_no_finding_of_its_own(db):
    Runner.objects.create(host="host-a", heartbeat_at=clock.now())
    assert not [one for one in doctor.examine(deep=False) if one.part.startswith("host ")]


def test_the_status_page_shows_hosts_to_admins(three, browser_of, alice, bob):
    page = browser_of(alice).get("/status/").content.decode()
    assert all(name in page for name in ("host-a", "Draining", "Unreachable", "/ 10", "GB"))
    assert "host-d" not in page
    assert 'id="hosts"' not in browser_of(bob).get("/status/").content.decode()


def test_the_metrics_have_hosts_as_labels(three, team, lena, token_of, api):
    text = api(token_of(lena)).get("/metrics").content.decode()
    assert f'handrail_host_answers{{host="host-a",team="{team.slug}"}} 1.0' in text
    assert f'handrail_host_answers{{host="host-c",team="{team.slug}"}} 0.0' in text
    assert f'handrail_host_drains{{host="host-b",team="{team.slug}"}} 1.0' in text
    assert f'handrail_host_room_memory_bytes{{host="host-a",team="{team.slug}"}} 8.589934592e+09' in text


def test_a_host_without_a_runner_answers_by_its_other_parts(three):
    Runner.objects.filter(host="host-c").update(web_at=clock.now())
    assert hosts.state_of(Runner.objects.get(host="host-c")) == ("ready", None)
