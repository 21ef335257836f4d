"""HANDRAIL_PARTS: `make up` runs these parts alone, and readiness, doctor, `down` and the host's row know no others."""

import pytest
from django.core.management import call_command
from django.db import connection

from bench.day import watch
from dashboard.database import clock
from dashboard.ops import bootstrap, doctor
from dashboard.processes.parts import parts_of_this_host
from tests.support.waiting import until
from workspaces.host import identity, parts
from workspaces.models import RUNNER_TIMEOUT, Runner

QUEUE, WEB = ("queue",), ("web",)


@pytest.fixture
def only(settings):
    """`only("web")`: the parts of this host from now on."""

    def choose(*names: str):
        settings.HANDRAIL_PARTS = names

    return choose


def test_the_parts_that_are_named_are_started(only):
    assert [part.name for part in parts_of_this_host([])] == ["web", "runner", "queue"]
    only("runner", "queue")
    assert [part.name for part in parts_of_this_host([])] == ["runner", "queue"]


def test_readiness_and_doctor_judge_only_the_parts_of_this_host(only, db):
    only("web")
    assert [found.part for found in doctor.needed_to_work()] == ["web", "database", "store"]
    found = {one.part for one in doctor.examine(deep=False)}
    assert found.isdisjoint({"runner", "queue", "user namespaces"})
    only("queue")
    found = {one.part for one in doctor.examine(deep=True)}
    assert "queue" in found
    assert found.isdisjoint({"web", "runner", "user namespaces"})


def test_the_row_of_a_host_says_what_runs_there_and_when_it_was_heard(only, db):
    only("web", "queue")
    bootstrap.register()
    row = Runner.objects.get()
    assert (row.parts, row.heard(), row.answers) == (["web", "queue"], {"web": None, "queue": None}, False)
    parts.beat("queue")
    row.refresh_from_db()
    if connection.vendor == "sqlite":  # it serves one host, which reads the files of its parts
        assert row.queue_at is None
        row.queue_at = clock.now()
    assert (row.answers, row.heard_at) == (True, row.queue_at)
    row.queue_at -= RUNNER_TIMEOUT
    assert not row.answers
    bootstrap.register()
    assert Runner.objects.get().heard_at is None


def test_a_host_that_never_said_what_it_runs_runs_all():
    assert list(Runner(host="old").heard()) == ["web", "runner", "queue"]


def test_a_host_without_a_runner_does_not_say_that_one_is_starting(only, db, browser_of, lena):
    Runner.objects.create(host="other", parts=["web"])
    row = identity.register()
    Runner.objects.filter(pk=row.pk).update(heartbeat_at=clock.now() - 2 * RUNNER_TIMEOUT)
    assert "Runner does not answer" in browser_of(lena).get("/").content.decode()


def test_down_has_nothing_to_do_without_a_runner(only, db, capsys):
    only("web", "queue")
    call_command("down")
    assert capsys.readouterr().out.startswith("This host has no runner")


def test_the_address_is_said_by_web_alone(only, db):
    only("queue")
    assert bootstrap.welcome().startswith("Handrail runs its queue on ")


def test_a_queue_runs_alone_on_no_port(new_product):
    product = new_product()
    product.prepare()  # with web, whose static files others share
    product.environment["HANDRAIL_PARTS"] = "queue"
    product.start(until="")
    until(lambda: "Handrail runs its queue on" in product.log)
    until(lambda: "queue" in watch.parts_of(product.process.pid))
    assert set(watch.parts_of(product.process.pid)) == {"queue"}
    with pytest.raises(OSError, match="refused"):
        product.get("/healthz")
    done = product.manage("doctor")
    assert "ok    queue: Running" in done.stdout
    assert "runner:" not in done.stdout
