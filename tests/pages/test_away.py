"""A workspace whose engine, container or folder is away: it is said wherever a person looks, and can be put away."""

from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from approvals.evaluation.calls import BROKER
from dashboard.database import clock
from dashboard.models import Actor
from dashboard.people.access import caller_of
from dashboard.site import desk_troubles
from workspaces import operations
from workspaces.drivers.base import get_driver_class
from workspaces.models import (
    Command,
    EndCode,
    Operation,
    Phase,
    ReasonCode,
    Run,
    Runner,
    State,
    StateCode,
    Terminal,
    Workspace,
)
from workspaces.operations.shown_state import OUT_OF_REACH
from workspaces.runner.reconcile import liveness, other_hosts

START = "Start it: `systemctl start docker`, or name another socket in HANDRAIL_DOCKER_HOST."
SYSTEM = Actor.system("test")
LOST = "The Docker engine at unix:///s does not answer (Connection refused)."


@pytest.fixture
def browser(lena, browser_of):
    return browser_of(lena)


@pytest.fixture
def up(workspace):
    """A workspace of the driver docker that is up, on a host whose engine does not answer."""
    probe = {"available": False, "isolation": "container", "reason": LOST, "what_to_do": START, "notes": []}
    runner = Runner.objects.create(host="vm", heartbeat_at=clock.now(), capabilities={"docker": probe})
    workspace.environment.driver = "docker"
    workspace.environment.save()
    Workspace.objects.filter(pk=workspace.pk).update(
        state=State.READY, runner=runner, reason=LOST, reason_code=StateCode.UNREACHABLE
    )
    Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now(), ready_at=clock.now())
    workspace.refresh_from_db()
    return workspace


def page(browser, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200, address
    return unescape(answer.content.decode())


def of(workspace) -> str:
    return reverse("workspace", args=[workspace.team.slug, workspace.key])


@pytest.mark.parametrize(
    ("code", "label"),
    [
        (StateCode.UNREACHABLE, "Can't be reached"),
        (StateCode.BACKEND_LOST, "Engine doesn't answer"),
        (StateCode.HELD_UP, "Can't be used"),
    ],
)
def test_what_is_out_of_reach_is_a_state_of_its_own_with_its_cause_and_the_way_on(browser, up, code, label):
    Workspace.objects.filter(pk=up.pk).update(reason=LOST, reason_code=code)
    for address in (of(up), reverse("workspaces"), f"{reverse('workspaces')}?state=away"):
        text = page(browser, address)
        assert label in text, address
        assert LOST in text, address
    head = page(browser, of(up))
    assert "systemctl start docker" in head
    assert "Running:" not in head  # it says nothing of why it runs, and when it is paused
    assert ">Ready<" not in head


def test_every_code_of_a_workspace_that_cannot_be_used_has_a_state_on_pages():
    assert {*OUT_OF_REACH} == {*StateCode.out_of_reach()} == {*StateCode} - {StateCode.NOT_CLEARED}


def test_the_desk_has_one_row_for_an_engine_and_the_status_page_an_error(browser, up):
    text = page(browser, "/")
    assert "The Docker engine doesn't answer: 1 workspace" in " ".join(text.split())
    assert "systemctl start docker" in text
    status = page(browser, "/status/")
    row = status[status.index("driver docker") :]
    assert 'data-tone="red"' in row[: row.index("</tr>")]
    assert "1 workspace is on it." in row
    Workspace.objects.filter(pk=up.pk).update(state=State.ARCHIVED)
    status = page(browser, "/status/")
    row = status[status.index("driver docker") :]
    assert 'data-tone="amber"' in row[: row.index("</tr>")]


def test_a_host_that_is_away_is_not_taken_for_its_engine(browser, up, settings):
    settings.HANDRAIL_HOST_NAME = "here"
    Runner.objects.update(heartbeat_at=clock.now() - timedelta(minutes=5), capabilities={})
    Workspace.objects.filter(pk=up.pk).update(reason="")
    other_hosts.sweep(Runner.objects.create(host="here"))
    text = " ".join(page(browser, "/").split())
    assert "It is on vm, which has not answered since" in text
    assert "engine doesn't answer" not in text
    docker = get_driver_class("docker")
    assert liveness.ended_by_backend(Run.objects.get(), docker) is None
    Workspace.objects.filter(pk=up.pk).update(reason=f"{LOST} {liveness.GOES_ON}", reason_code=StateCode.BACKEND_LOST)
    assert liveness.ended_by_backend(Run.objects.get(), docker)[0] == EndCode.BACKEND_LOST


def test_what_is_asked_for_meanwhile_says_that_it_is_done_later_and_can_be_taken_back(browser, up):
    operation = operations.submit("pause", workspace=up, by=SYSTEM, exclusive=True)
    text = page(browser, of(up))
    assert "Pausing: will be done when the engine answers" in text
    assert "Can't be reached" in text
    Operation.objects.filter(pk=operation.pk).update(progress={operations.WAITS: LOST})
    stop = reverse("operation-stop", args=[up.team.slug, up.key, operation.pk])
    assert stop in page(browser, reverse("workspace-operation", args=[up.team.slug, up.key, operation.pk]))
    browser.post(stop)
    operation.refresh_from_db()
    assert operation.cancelled_at is not None


@pytest.mark.parametrize(("kind", "label"), [("pause", "Pausing"), ("stop", "Stopping"), ("ended", "Stopping")])
def test_while_its_state_changes_the_header_says_so_and_its_buttons_are_off(browser, up, kind, label):
    Workspace.objects.filter(pk=up.pk).update(reason="")
    assert reverse("workspace-pause", args=[up.team.slug, up.key]) in page(browser, of(up))
    operations.submit(kind, workspace=up, by=SYSTEM, exclusive=True)
    text = page(browser, of(up))
    head = text[text.index('class="head-line"') : text.index('class="tab-row"')]
    assert f"{label}</span>" in head
    assert f"{label}: buttons work again once this is done." in head
    for name in ("workspace-pause", "workspace-stop", "terminal-open"):
        assert reverse(name, args=[up.team.slug, up.key]) not in text
    assert "Awake:" not in text


@pytest.fixture
def killed(up):
    """The workspace after its container was killed, with a command, a service and a terminal that ended with it."""
    run = up.runs.get()
    outcome = {"ok": False, "reason": "The workspace's container was killed.", "reason_code": ReasonCode.LOST}
    for kind in ("command", "service", "terminal"):
        operation = Operation.objects.create(
            workspace=up, kind=kind, phase=Phase.SETTLED, outcome=outcome, due_at=clock.now(), settled_at=clock.now()
        )
        if kind == "terminal":
            Terminal.objects.create(workspace=up, operation=operation, run=run, argv=["bash", "-l"])
        else:
            Command.objects.create(
                workspace=up,
                operation=operation,
                run=run,
                argv=["x"],
                shown=f"run the {kind}",
                service="web" if kind == "service" else "",
            )
    Run.objects.filter(pk=run.pk).end(EndCode.CRASHED, "The workspace's container was killed.")
    Workspace.objects.filter(pk=up.pk).update(state=State.STOPPED, reason="The workspace's container was killed.")
    return run


def test_what_ended_with_its_workspace_is_one_row_that_can_be_put_away(browser, up, killed):
    text = page(browser, "/")
    assert text.count(f"{up.key} ended by itself") == 1
    assert "The workspace's container was killed." in text
    assert "run the command" in text
    assert "run the service" not in text
    assert "Outcome unknown" not in text
    head = page(browser, of(up))
    assert 'class="primary">Resume' in head
    browser.post(reverse("run-dismiss", args=[up.team.slug, up.key, killed.pk]))
    assert "ended by itself" not in page(browser, "/")
    assert "The workspace's container was killed." in page(browser, of(up))


def test_three_that_ended_take_as_many_queries_as_one(up, killed, lena):
    caller = caller_of(lena)
    with CaptureQueriesContext(connection) as of_one:
        assert [each.commands for each in desk_troubles.ended(caller, Workspace.objects.all())] == [["run the command"]]
    for key in ("second", "third"):
        other = Workspace.objects.create(
            team=up.team, key=key, environment=up.environment, runner=up.runner, state=State.STOPPED
        )
        Run.objects.create(
            workspace=other, runner=up.runner, started_at=clock.now(), ended_at=clock.now(), end_code=EndCode.CRASHED
        )
    with CaptureQueriesContext(connection) as of_three:
        assert len(desk_troubles.ended(caller, Workspace.objects.all())) == 3
    assert len(of_three) == len(of_one) == 2


def test_the_end_of_an_earlier_run_is_no_problem_any_more(browser, up, killed):
    Run.objects.create(workspace=up, runner=up.runner, started_at=clock.now(), ready_at=clock.now())
    assert "ended by itself" not in page(browser, "/")


def test_an_unknown_outcome_names_what_ran_and_can_be_put_away(browser, up):
    unknown = Operation.objects.create(
        workspace=up,
        kind="command",
        phase=Phase.UNCERTAIN,
        outcome={"ok": False, "reason": "its end was not seen"},
        due_at=clock.now(),
        settled_at=clock.now(),
    )
    Command.objects.create(workspace=up, operation=unknown, argv=["x"], shown="make deploy")
    text = page(browser, "/")
    assert "Outcome unknown in" in text
    assert "make deploy" in text
    browser.post(reverse("operation-dismiss", args=[up.team.slug, up.key, unknown.pk]))
    assert "Outcome unknown" not in page(browser, "/")


@pytest.mark.parametrize("state", [*State])
def test_a_card_says_in_each_state_what_keeps_its_call_from_running(browser, workspace, ask, state):
    action = ask(workspace=workspace, mode=BROKER)
    Workspace.objects.filter(pk=workspace.pk).update(state=state, reason="", reason_code="", vitals={})
    text = page(browser, reverse("action", args=[action.pk]))
    row = page(browser, reverse("waiting"))
    runs = state in (State.READY, State.CREATING, State.SETTING_UP)
    assert ('id="card-place"' in text) is not runs
    assert ("Frozen" in row, f"{workspace.key} failed" in text) == (False, state == State.FAILED)
    Workspace.objects.filter(pk=workspace.pk).update(vitals={"frozen": "It uses 2 GB of 1 GB."})
    if state == State.READY:
        assert "It uses 2 GB of 1 GB." in page(browser, reverse("action", args=[action.pk]))
        assert "Frozen" in page(browser, reverse("waiting"))
