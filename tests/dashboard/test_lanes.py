"""Work behind the scenes has lanes: what one of them does never holds up another, whoever serves them."""

import os
import re
import subprocess
import sys
import threading
from datetime import timedelta

import pytest
from django.conf import settings as site
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone
from django_q.brokers import get_broker
from django_q.models import Failure, OrmQ, Schedule
from django_q.tasks import async_task

from dashboard.ops import doctor, tasks
from dashboard.processes.queue import Queue, do
from dashboard.site.measures import exposition
from dashboard.workers import lanes
from dashboard.workers.lanes import LANE_OF, LANES, Lane
from tests.support import CHECKOUT
from tests.support.waiting import until

QUEUED = re.compile(r"""\blanes\.queue_task\(\s*["']([\w.]+)["']""")


def sources() -> dict[str, str]:
    """The text of each module of the product."""
    paths = [path for app in ("dashboard", "workspaces", "approvals") for path in (CHECKOUT / app).rglob("*.py")]
    return {str(path.relative_to(CHECKOUT)): path.read_text() for path in paths}


def test_only_the_table_of_lanes_queues_tasks():
    """Whoever could queue or schedule a task without a lane imports django-q2's functions or its rows."""
    ways = re.compile(r"django_q(\.tasks|\.brokers|\.models)\b import ")
    using = {path: set(ways.findall(text)) for path, text in sources().items()}
    assert {path for path, found in using.items() if ".tasks" in found} == {"dashboard/workers/lanes.py"}
    assert {path for path, found in using.items() if ".models" in found} == {
        "dashboard/admin/__init__.py",
        "dashboard/workers/lanes.py",
        "dashboard/processes/queue.py",
        "dashboard/ops/tasks.py",
    }
    assert {path for path, found in using.items() if ".brokers" in found} == {"dashboard/processes/queue.py"}


def test_every_task_that_is_queued_or_scheduled_names_its_lane():
    put = {task for text in sources().values() for task in QUEUED.findall(text)}
    assert put == {"workspaces.tasks.sweep_retention", "workspaces.tasks.collect_garbage"}
    assert put | set(tasks.SCHEDULED) | set(Queue([])._watches) == set(LANE_OF)
    assert set(LANE_OF.values()) == set(LANES)
    with pytest.raises(KeyError):
        lanes.queue_task("math.sqrt")


def test_the_stored_schedule_names_the_lanes_and_each_is_queued_there(transactional_db):
    Schedule.objects.filter(name__startswith="handrail:").update(cluster=None)  # as an older version left them
    tasks.arrange()
    found = dict(Schedule.objects.filter(name__startswith="handrail:").values_list("func", "cluster"))
    assert found == {func: LANE_OF[func] for func in tasks.SCHEDULED}
    Schedule.objects.update(next_run=timezone.now() - timedelta(seconds=1))
    Queue()._run_scheduler()
    assert sorted(OrmQ.objects.values_list("key", flat=True)) == sorted(found.values())


def test_time_limits_fit_together():
    for lane in LANES.values():
        assert lane.retry > 3 * lane.timeout  # else what waits claimed would be given out again
        assert lane.workers >= 1


def test_a_task_is_cut_short_by_the_limit_of_its_lane(transactional_db):
    async_task("time.sleep", 300, cluster="logs")
    row = OrmQ.objects.get(key="logs")
    do(Lane("logs", workers=1, timeout=1, retry=400), row.pk, row.payload)
    assert [(one.cluster, "maximum timeout" in one.result) for one in Failure.objects.all()] == [("logs", True)]
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ("", "push"),
        ("none", None),
        (" push , logs ", "logs"),
        ("pusch", "HANDRAIL_LANES must be some of handrail, push, "),
    ],
)
def test_a_host_names_the_lanes_that_it_serves(given, served, tmp_path):
    code = "from django.conf import settings; print(settings.HANDRAIL_LANES)"
    environment = os.environ | {"HANDRAIL_LANES": given, "DJANGO_SETTINGS_MODULE": "dashboard.settings"}
    environment["HANDRAIL_HOME"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert served in told if served else done.stdout == "[]\n"


def test_a_task_is_claimed_once_by_our_queue_and_by_clusters_of_django_q(transactional_db):
    """Two of each, on the database of the tests: SQLite or PostgreSQL."""
    for _ in range(20):
        lanes.queue_task("approvals.tasks.notify")
    got, start = [], threading.Barrier(4)

    def claim(next_task):
        start.wait()
        try:
            while OrmQ.objects.filter(lock__lt=timezone.now()).exists():
                if task := next_task():
                    got.append(task[0])
        finally:
            connections.close_all()

    def of_django_q():
        return next(iter(get_broker(lanes.PUSH).dequeue() or []), None)

    def ours():
        return Queue().claim(LANES[lanes.PUSH])

    threads = [threading.Thread(target=claim, args=[way]) for way in (ours, ours, of_django_q, of_django_q)]
    with lanes.serving(LANES[lanes.PUSH]):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(got) == sorted(OrmQ.objects.values_list("pk", flat=True))


def test_what_waits_too_long_is_shown_with_its_lane(team):
    def found(part):
        return next(one for one in doctor.examine(deep=False) if one.part == part)

    lanes.queue_task("approvals.tasks.send_log")
    assert (found("lanes").ok, found("lanes").words) == (
        True, "No task is late in push, timely, webhooks, hosts, logs, handrail."
    )  # fmt: skip
    OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1000))
    tasks.arrange()
    Schedule.objects.filter(func="workspaces.tasks.check_caps").update(next_run=timezone.now() - timedelta(days=1))
    assert [one.part for one in doctor.examine(deep=False) if one.part.startswith("lane ") and not one.ok] == [
        "lane timely", "lane logs"
    ]  # fmt: skip
    assert found("lane logs").words.startswith("Its oldest task has waited 10")
    assert found("lanes").words == "No task is late in push, webhooks, hosts, handrail."
    assert f'handrail_lane_waiting_seconds{{lane="logs",team="{team.slug}"}} 10' in exposition.text(team).decode()
    assert f'handrail_lane_waiting_seconds{{lane="push",team="{team.slug}"}} 0.0' in exposition.text(team).decode()


def test_status_says_which_lanes_are_served_elsewhere(db, settings):
    settings.HANDRAIL_LANES = ["push"]
    lanes.queue_task("approvals.tasks.send_log")
    OrmQ.objects.update(lock=timezone.now() - timedelta(seconds=1000))
    found = next(one for one in doctor.examine(deep=False) if one.part == "lane logs")
    assert (found.ok, "manage.py qcluster -n logs" in found.what_to_do) == (False, True)


def test_nothing_piles_up_in_a_lane_that_is_served_elsewhere(team, monkeypatch):
    queue = Queue([])
    always = lambda now: [type(team).objects.all()]  # noqa: E731
    queue._watches = {"approvals.tasks.send_log": always, "approvals.tasks.tell_admins": always}
    assert queue.queue_due() == ["approvals.tasks.send_log", "approvals.tasks.tell_admins"]
    assert queue.queue_due({"logs"}) == ["approvals.tasks.tell_admins"]


@pytest.mark.parametrize("served_by", ["queue", "qcluster"])
def test_a_push_waits_for_no_log_target_and_no_upkeep(new_product, served_by):
    product = new_product()
    product.prepare()
    long = f"{sys.executable} -c 'import time; time.sleep(300)'"
    code = f"""
from django_q.tasks import async_task
async_task("os.system", {long!r}, cluster="logs")
async_task("os.system", {long!r}, cluster="logs")
async_task("math.sqrt", 16, cluster="push")
"""
    product.shell(code)
    commands = [["queue"]] if served_by == "queue" else [["qcluster", "-n", "logs"], ["qcluster", "-n", "push"]]
    serving = [
        subprocess.Popen(
            [sys.executable, "manage.py", *command], cwd=CHECKOUT, env=product.environment, start_new_session=True
        )
        for command in commands
    ]
    tell = "from django_q.models import OrmQ, Success; print(list(Success.objects.values_list('func', 'cluster')))"
    try:
        until(lambda: "('math.sqrt', 'push')" in product.shell(tell))
        left = product.shell("from django_q.models import OrmQ; print(OrmQ.objects.filter(key='logs').count())")
        assert left == "2"  # one of them runs
    finally:
        for process in serving:
            os.killpg(process.pid, 9)
            process.wait()


def test_a_lane_that_does_not_exist_is_not_served():
    with pytest.raises(CommandError, match=r"pusch is no lane\. They are: push, "):
        call_command("qcluster", "-n", "pusch")


def test_the_settings_of_a_lane_are_django_q2s_own():
    assert {"handrail", *site.Q_CLUSTER["ALT_CLUSTERS"]} == set(LANES)
    assert [lane.workers for lane in LANES.values()] == [2, 1, 1, 1, 1, 1]  # what one host runs at most
