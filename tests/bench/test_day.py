"""The checker of `python -m bench.day` finds each fault put into what an ordinary day leaves, and nothing else."""

import copy
import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from bench.day import check_actions, check_hosts, check_product  # noqa: F401 - the checks register themselves
from bench.day.agents import leaving
from bench.day.data import Data
from bench.day.evidence import QUERIES, Evidence, missing_files, plain
from bench.day.faults import Fault
from bench.day.findings import CHECKS, check
from bench.day.pods import losses
from bench.day.seen import Seen
from bench.day.watch import Sample, Started
from dashboard.models import Membership
from dashboard.people.access import Caller, caller_by_token
from dashboard.people.tokens import find_token
from workspaces.models import Environment, Workspace
from workspaces.store import LocalTree, Store

TAG = "agent-0-1"
BEGAN = time.time() - 1000


def rows():
    """All tables that the checker reads, as it reads them."""
    found = {}
    for name, query in QUERIES.items():
        with connection.cursor() as cursor:
            cursor.execute(query)
            columns = [column[0] for column in cursor.description]
            found[name] = [plain(dict(zip(columns, row, strict=True))) for row in cursor.fetchall()]
    return found


def seen(verb: str, actor: str = "agent-0", code: int = 200, at: float = BEGAN + 60, **about) -> Seen:
    return Seen(at, 0.1, actor, verb, code, about)


@pytest.fixture
def day(team, bob, agent_token, other_team):
    """What a day leaves: a broker's call that was approved, a gated one that was denied, and a planned fault."""
    team.slug = "main"
    team.save()
    agent = caller_by_token(find_token(agent_token))
    person = Caller(roles=dict(Membership.objects.filter(user=bob).values_list("team", "role")), user=bob)
    environment = Environment.objects.create(team=team, name="boxes")
    workspace = Workspace.objects.create(
        team=team, key="ws", environment=environment, state="ready", created_by_agent=agent.agent
    )
    asked = {}
    calls = {"run": {"command": leaving(TAG, "true", asks=True)}, "refused": {"command": "git push origin main"}}
    for name, arguments in calls.items():
        more = {"workspace": workspace, "mode": "broker"} if name == "run" else {"call_id": "t-1"}
        asked[name], _ = gate.submit(Call(tool="Bash", arguments=arguments, **more), caller=agent)
    heard = []
    for name, verdict in {"run": "approve", "refused": "deny"}.items():
        action = gate.find(asked[name].pk, caller=person)
        gate.decide(action, Answer(verdict, action.digest, "why"), caller=person)
        about = {"action": str(action.pk), "digest": action.digest, "shown": calls[name], "comment": "why"}
        heard.append(seen(verdict, "bob", **about))
    found = rows()
    for action in found["actions"]:
        status = "denied" if action["status"] == "denied" else "approved"
        heard.append(seen("was told of an action", action=action["id"], status=status, tag=TAG))
    heard.append(seen("saw events", "log-reader", ids=[event["seq"] for event in found["events"]]))
    evidence = Evidence(found, {str(workspace.pk): []}, heard, [], [], [])
    evidence.workspace, evidence.run = str(workspace.pk), str(asked["run"].pk)
    evidence.faults = [Fault("kill runner", BEGAN + 100, BEGAN + 110, ["runner"])]
    first = [Started(BEGAN, part, number, 1, True) for number, part in enumerate(("web", "runner", "queue"))]
    evidence.started = [*first, Started(BEGAN + 103, "runner", 9, 2, False)]
    evidence.samples = [Sample(BEGAN + second, "web", 1, 200 + second % 7, 40, 12) for second in range(0, 900, 5)]
    return evidence


def action(day, **changes):
    next(row for row in day.rows["actions"] if row["id"] == day.run).update(changes)


def ran(day, times: int, **changes):
    """The approved call ran so often, and has this status."""
    day.traces[day.workspace] = [TAG] * times
    action(day, **changes)


def row_of_operation(day, **changes) -> dict:
    at = datetime.fromtimestamp(BEGAN + 500, UTC)
    row = {"id": "o", "workspace_id": day.workspace, "kind": "command", "created_at": at, "started_at": at}
    return row | {"settled_at": at + timedelta(seconds=1), "phase": "uncertain"} | changes


def revised(day):
    """What ran is another revision than the one that was approved."""
    row = next(row for row in day.rows["revisions"] if row["action_id"] == day.run)
    again = row | {"id": "r2", "number": 2, "canonical": row["canonical"].replace(TAG.encode(), b"agent-0-2")}
    day.rows["revisions"].append(again)
    day.traces[day.workspace] = [TAG]
    action(day, revision=2)


def forged(day):
    day.rows["events"][1]["data"] = {"title": "another"}


def cut(day):
    del day.rows["events"][-1]


def grown(day):
    for number, sample in enumerate(day.samples):
        sample.mib = 200 + number


def without(day, table: str):
    day.rows[table] = []


def message(day):
    day.seen.append(seen("ask the agent", "bob", text="Why?"))


def refused(day) -> dict:
    return next(row for row in day.rows["actions"] if row["id"] != day.run)


def approved_by_nobody(day):
    """The denied action ran although its final answer is a denial."""
    refused(day).update(status="running")


def both(day):
    about = next(each.about for each in day.seen if each.verb == "deny")
    day.seen.append(seen("approve", "lena", **about))
    refused(day).update(status="approved")


def scheduled(day):
    day.rows["schedules"].append({"id": "s", "name": "nightly"})
    day.rows["scheduled_runs"].append({"schedule_id": "s", "command_id": "c"})
    day.traces[day.workspace] = ["nightly"] * 2


def pushed(day):
    day.seen.append(seen("was told of a push", branch="day/1", answer={"action": {"id": refused(day)["id"]}}))
    day.branches = {"day/1"}


def consumed_unlogged(day):
    """It was carried out, and the log does not say that anybody allowed it."""
    action(day, consumed_at=datetime.now(UTC))
    for event in day.rows["events"]:
        if event["verb"] == "action.approved":
            event["verb"] = "action.seen"


def consumed_twice(day):
    arguments = {"command": leaving(TAG, "true", asks=True)}
    day.seen += [seen("runs a gated call", action=day.run, tag=TAG, arguments=arguments) for _ in range(2)]
    action(day, status="running")


FAULTS = {
    "a message is gone": message,
    "a denied action went on": approved_by_nobody,
    "two answers were acknowledged": both,
    "a schedule ran twice for one due time": scheduled,
    "a denied push arrived": pushed,
    "what ran was not logged before": consumed_unlogged,
    "a call was consumed twice": consumed_twice,
    "a connection broke": lambda day: day.seen.append(Seen(BEGAN + 400, 1.0, "agent-0", "list", 0, {}, "reset")),
    "what was shown is not what was decided": lambda day: next(
        each for each in day.seen if each.verb == "approve"
    ).about.update(shown={"command": "true"}),
    "an action is gone": lambda day: without(day, "actions"),
    "an answer is gone": lambda day: without(day, "decisions"),
    "a doubled run": lambda day: ran(day, 2, status="succeeded"),
    "a denied call ran": lambda day: ran(day, 1, status="denied"),
    "a call that succeeded never ran": lambda day: ran(day, 0, status="succeeded"),
    "another revision ran": revised,
    "other bytes than the digest's": lambda day: day.rows["revisions"][0].update(canonical=b'{"arguments":{}}'),
    "an end that was heard changed": lambda day: day.seen.append(
        seen("was told of an action", action=day.run, status="denied", tag=TAG)
    ),
    "a forged event": forged,
    "a log that was cut": cut,
    "a reader missed an event": lambda day: day.seen[-1].about["ids"].pop(3),
    "a hook failed open": lambda day: day.seen.append(seen("heard a verdict", call_id="t-1", verdict="allow")),
    "a hook had no verdict": lambda day: day.seen.append(seen("heard a verdict", call_id="t-1", verdict="no verdict")),
    "a gated call ran unasked": lambda day: day.seen.append(
        seen("runs a gated call", action=day.run, tag=TAG, arguments={})
    ),
    "a stranger saw something": lambda day: day.seen.append(seen("look at another team's", "stranger")),
    "a secret in the log": lambda day: day.canary_in.append("the log"),
    "a lost file": lambda day: day.missing_files.append({"path": "a", "workspace": "ws", "at": BEGAN}),
    "a file that is read as another": lambda day: day.seen.extend(
        [
            seen("write a file", workspace="ws", path="a", sha256="1"),
            seen("read back", workspace="ws", path="a", sha256="2"),
        ]
    ),
    "a lost snapshot": lambda day: day.seen.append(seen("was told of a snapshot", workspace="ws", number=7)),
    "a lost command": lambda day: day.seen.append(seen("was told of a command", command="c", tag="t")),
    "a changed output": lambda day: day.seen.append(
        seen("compared an output", shape="binary", command="c", bytes=1, wanted=2, same=False, truncated=False)
    ),
    "an unplanned restart": lambda day: day.started.append(Started(BEGAN + 500, "web", 77, 3, False)),
    "a restart of another part than the killed one": lambda day: day.started.append(
        Started(BEGAN + 105, "queue", 78, 3, False)
    ),
    "a server error": lambda day: day.seen.append(seen("list", code=503, at=BEGAN + 400)),
    "an unclear error in an outage": lambda day: day.seen.append(seen("list", code=500, at=BEGAN + 104)),
    "an uncertain operation": lambda day: day.rows["operations"].append(row_of_operation(day)),
    "work that never ends": lambda day: day.in_flight.append(row_of_operation(day, phase="started")),
    "a fault that is never over": lambda day: day.faults.append(Fault("a full disk", BEGAN + 900)),
    "a database that is damaged": lambda day: setattr(day, "integrity", "row 1 missing from index"),
    "memory that grows": grown,
    "a slow verb": lambda day: day.seen.extend(Seen(BEGAN + 400, 60.0, "agent-0", "list", 200) for _ in range(30)),
    "a traceback": lambda day: setattr(day, "log", "web    | Traceback (most recent call last):\nweb    | KeyError: 1"),
}


def test_an_ordinary_day_has_no_findings(day):
    assert [str(finding) for finding in check(day)] == []
    planned = copy.deepcopy(day)
    planned.seen += [seen("list", code=503, at=BEGAN + 104), seen("look at another team's", "stranger", 404)]
    at = datetime.fromtimestamp(BEGAN + 102, UTC)
    planned.rows["operations"].append(row_of_operation(day, started_at=at, settled_at=at))
    assert [str(finding) for finding in check(planned)] == []


def test_a_file_is_lost_only_if_no_tree_has_it_as_it_was_written(tmp_path):
    tree = tmp_path / "workspaces/w/tree"
    writes = []
    for name, text in {"live": "1", "snapshot": "22", "changed": "333", "lost": "4444", "deleted": "5"}.items():
        path = tree / f"notes/b c/{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        digest = hashlib.sha256(text.encode()).hexdigest()
        about = {"workspace": "ws", "path": f"notes/b c/{name}", "bytes": len(text), "sha256": digest}
        writes.append(seen("write a file", **about))
    (tree / "notes/b c/lost").unlink()
    (tree / "notes/b c/changed").write_text("other")
    (tmp_path / "stores").mkdir()
    kept = Store.create(tmp_path / "stores/t").snapshot(LocalTree(tree), thorough=True).tree
    for name in ("snapshot", "deleted"):
        (tree / f"notes/b c/{name}").unlink()
    rows = {"workspaces": [{"id": "w", "key": "ws", "team_id": "t", "runner_id": None}], "hosts": [], "events": []}
    rows["snapshots"] = [{"workspace_id": "w", "tree": bytes.fromhex(kept)}]
    writes.append(seen("will delete", workspace="ws", path="notes/b c/deleted"))
    found = missing_files(Evidence(rows, {}, writes, [], [], []), Data({"": tmp_path}))
    assert [each["path"] for each in found] == ["notes/b c/changed", "notes/b c/lost"]


def lost_with_a_pod(workspace: str) -> dict:
    """The log says at second 300 that files went with a pod, and that those of the snapshot of second 100 came back."""
    kept, gone = (datetime.fromtimestamp(BEGAN + second, UTC) for second in (100, 300))
    event = {"verb": "workspace.files_lost", "workspace_id": workspace, "at": gone, "data": {"snapshot": 4}}
    snapshot = {"workspace_id": workspace, "number": 4, "created_at": kept, "tree": bytes.fromhex("aa")}
    return losses(Evidence({"events": [event], "snapshots": [snapshot]}, {}, [], [], [], []))


def test_a_run_whose_traces_went_with_its_pod_may_have_left_none_and_a_later_one_may_not(day):
    day.losses = lost_with_a_pod(day.workspace)
    ran(day, 0, status="succeeded", consumed_at=datetime.fromtimestamp(BEGAN + 200, UTC))
    assert not [finding for finding in check(day) if finding.rule.startswith("I6")]
    action(day, consumed_at=datetime.fromtimestamp(BEGAN + 400, UTC))
    assert [finding for finding in check(day) if finding.rule.startswith("I6")]


def test_only_what_was_written_after_the_snapshot_that_came_back_may_go_with_a_pod(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.day.evidence._in_snapshots", lambda *_: set())
    at = {"early": 50, "between": 200, "late": 400}
    writes = [
        seen("write a file", at=BEGAN + second, workspace="ws", path=path, sha256="1", bytes=1)
        for path, second in at.items()
    ]
    rows = {"workspaces": [{"id": "w", "key": "ws", "team_id": "t", "runner_id": None}], "hosts": [], "events": []}
    found = Evidence(rows, {}, writes, [], [], [], losses=lost_with_a_pod("w"))
    assert [each["path"] for each in missing_files(found, Data({"": tmp_path}))] == ["early", "late"]


def test_a_traceback_that_a_planned_fault_brings_about_is_none_of_the_product(day):
    day.log = """web    | ERROR handrail unhandled
web    | Traceback (most recent call last):
web    |   File "a.py", line 1, in f
web    | KeyError: 'team'
web    |
web    | During handling of the above exception, another exception occurred:
runner | INFO between
web    | Traceback (most recent call last):
web    |   File "b.py", line 1, in g
web    | django.db.utils.OperationalError: the connection is closed
web    | DETAIL:  Not yet reached."""
    assert check(day) == []
    day.log += (
        "\nweb    | INFO next\nweb    | Traceback (most recent call last):\nweb    | ValueError: 2\nweb    | INFO"
    )
    assert [str(finding) for finding in check(day)] == [
        "log (no part reports a fault of its own): web printed a traceback: ValueError: 2"
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(day, name):
    FAULTS[name](day)
    assert check(day) != [], name


def test_each_check_finds_something(day):
    untried = {"one request makes one action"}  # the database refuses it
    here = {name for name, one in CHECKS.items() if one.__module__ != "bench.day.check_hosts"}  # test_day_of_hosts.py
    found = set()
    for fault in FAULTS.values():
        changed = copy.deepcopy(day)
        fault(changed)
        found |= {finding.rule for finding in check(changed)}
    assert {name for name in here if name not in found and name.split("(")[1][:-1] not in untried} == set()
