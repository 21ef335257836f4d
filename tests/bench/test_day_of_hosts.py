"""A day on several hosts plans its faults by the seed alone, and its checker finds what such a day may break."""

import copy
import hashlib
import random
from datetime import UTC, datetime

import pytest

from bench.day import check_hosts
from bench.day.data import Data
from bench.day.evidence import Evidence, missing_files
from bench.day.host_faults import LAST, NEEDS_A_CUT, HostFaults, plan
from bench.day.seen import Seen

HOSTS = {"host-a": ["web", "runner", "queue"], "host-b": ["web", "runner"], "host-c": ["runner", "queue"]}
WROTE = 1000.0
LOST = datetime.fromtimestamp(WROTE + 60, UTC)


def planned(seed: int, *, count: int = 40, can_cut: bool = True):
    return plan(random.Random(seed), HOSTS, every=35, agents=4, count=count, can_cut=can_cut)


def test_the_same_seed_plans_the_same_faults():
    assert planned(7) == planned(7)
    assert planned(7)[:5] == planned(7, count=5)
    assert planned(7) != planned(8)


def test_a_plan_has_each_kind_and_loses_one_host():
    found = planned(7)
    assert {each.kind for each in found} == set(LAST)
    assert [each.kind for each in found].count("lose_host") == 1
    assert {each.host for each in found} == set(HOSTS)
    assert {each.host for each in found if each.kind == "kill_web"} <= {"host-a", "host-b"}
    assert all(hasattr(HostFaults, each.kind) for each in found)


def test_without_namespaces_no_cable_is_cut():
    assert {each.kind for each in planned(7, can_cut=False)} == set(LAST) - set(NEEDS_A_CUT)


@pytest.fixture
def data(tmp_path):
    return Data({name: tmp_path / name for name in HOSTS})


def ran(folder, *tags: str):
    (folder / "home").mkdir(parents=True)
    (folder / "home" / ".ran").write_text("\n".join(tags))


def test_what_ran_before_a_move_ran_once(data):
    ran(data.homes["host-a"] / "workspaces/w", "one", "two")
    ran(data.homes["host-b"] / "workspaces/w", "one", "two", "three")
    assert data.traces_of("w") == ["one", "two", "three"]


def test_what_ran_on_a_lost_host_and_again_elsewhere_ran_twice(data):
    ran(data.homes["host-a"] / "quarantine/returned-w", "one", "two", "three")
    ran(data.homes["host-b"] / "workspaces/w", "three", "four")
    assert sorted(data.traces_of("w")) == ["four", "one", "three", "three", "two"]


def evidence(data, *, reason: str = "Its host host-a is lost. Changes since 12:00 are on host-a.") -> Evidence:
    """A file of which the workspace's new host knows nothing, since the host where it was written was lost."""
    text = b"as written"
    aside = data.homes["host-a"] / "quarantine/returned-w/tree/notes/a/file"
    aside.parent.mkdir(parents=True)
    aside.write_bytes(text)
    about = {"workspace": "ws", "path": "notes/a/file", "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    lost = {"verb": "workspace.host_lost", "workspace_id": "w", "at": LOST, "data": {"reason": reason}}
    workspace = {"id": "w", "key": "ws", "team_id": "t", "runner_id": "b", "state": "ready"}
    hosts = [{"id": name[-1], "host": name, "lost_at": None, "draining_at": None} for name in HOSTS]
    rows = {"workspaces": [workspace], "snapshots": [], "hosts": hosts, "events": [lost]}
    found = Evidence(rows, {}, [Seen(WROTE, 0.1, "agent-0", "write a file", 200, about)], [], [], [])
    found.places = {"ws": {"state": "ready", "reason": "", "place": {"host": "host-b"}}}
    found.trees = {"w": ["host-b"]}
    return found


def test_a_file_that_a_lost_host_came_back_with_is_owed(data):
    assert [each["is_owed"] for each in missing_files(evidence(data), data)] == [True]


def test_a_file_of_a_lost_host_is_not_owed_if_the_log_says_that_nothing_is_missing(data):
    found = evidence(data, reason="Its host host-a is lost. Its newest snapshot has all.")
    assert [each["is_owed"] for each in missing_files(found, data)] == [False]


def test_a_file_that_the_lost_host_has_not_either_is_not_owed(data):
    found = evidence(data)
    (data.homes["host-a"] / "quarantine/returned-w/tree/notes/a/file").write_bytes(b"changed")
    assert [each["is_owed"] for each in missing_files(found, data)] == [False]


def asked(verb: str, status: int) -> Seen:
    return Seen(WROTE, 0.1, "operator", verb, status, {"path": "/hosts/host-a"}, "why")


FAULTS = {
    "a page says another host": lambda found: found.places["ws"]["place"].update(host="host-c"),
    "its host has no files": lambda found: found.trees.update(w=[]),
    "two hosts have its files": lambda found: found.trees["w"].append("host-c"),
    "it stays unreachable": lambda found: found.places["ws"].update(state="unreachable"),
    "a move changed something": lambda found: found.rows["events"].append(
        {"verb": "workspace.moved", "workspace_id": "w", "data": {"differ": 2}}
    ),
    "a host stays lost": lambda found: found.rows["hosts"][0].update(lost_at=LOST),
    "a host stays drained": lambda found: found.rows["hosts"][0].update(draining_at=LOST),
    "a host was not declared lost": lambda found: found.seen.append(asked("declare a host lost", 409)),
    "a drain broke down": lambda found: found.seen.append(asked("drain a host", 500)),
}
CHECKS = (
    check_hosts.each_workspace_is_where_its_place_says,
    check_hosts.a_move_changes_nothing,
    check_hosts.each_host_is_back,
    check_hosts.each_act_of_the_operator_was_answered,
)


def findings(found) -> list[str]:
    return [words for check in CHECKS for words in check(found)]


def test_an_ordinary_day_has_no_findings(data):
    found = evidence(data)
    found.seen += [asked("drain a host", 503), asked("drain a host", 200), asked("move a workspace", 409)]
    assert findings(found) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(data, name):
    found = copy.deepcopy(evidence(data))
    FAULTS[name](found)
    assert findings(found) != []
