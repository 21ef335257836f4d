"""The limits of an environment: its own or the defaults, shown with whether the hosts enforce them."""

import html
from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces.drivers.base import Limits
from workspaces.models import Environment, Runner
from workspaces.runner.run_spec import spec_of
from workspaces.services import environments


@pytest.fixture
def lead(lena, browser_of):
    return browser_of(lena)


@pytest.fixture
def default(workspace) -> Environment:
    return workspace.environment


def say(response) -> str:
    return html.unescape(response.content.decode())


NO_GROUPS = (
    "Not enforced on h: Handrail can't write control groups there. Run it as a systemd service with Delegate=yes, or "
    "as root."
)
FROZEN = "Measured every ten seconds; programs are frozen above it."


def _limits(environment) -> list[tuple]:
    found = environments.limits_of(environment)
    return [(str(limit.label), limit.amount, limit.is_default, limit.is_enforced, limit.words) for limit in found]


def test_a_limit_that_nothing_enforces_says_so(default, settings):
    settings.HANDRAIL_WORKSPACE_CPUS = 2
    Environment.objects.filter(pk=default.pk).update(limits={"memory_bytes": 2 * 1024**3, "pids": 50})
    default.refresh_from_db()
    Runner.objects.create(
        host="h", heartbeat_at=clock.now(), capabilities={"sandbox": {"available": True, "limits": ["pids"]}}
    )
    assert _limits(default) == [
        ("Memory", "2,048 MB", False, False, NO_GROUPS),
        ("Processors", "2", True, False, NO_GROUPS),
        ("Processes and threads", "50", False, True, ""),
        ("Disk", "20,480 MB", True, True, FROZEN),
    ]
    Runner.objects.update(heartbeat_at=clock.now() - timedelta(hours=1))
    words = "Not known: no host that is up can run it."
    assert _limits(default)[2] == ("Processes and threads", "50", False, False, words)


def test_each_driver_has_defaults_and_a_connected_folder_has_no_limits(default, settings, lead):
    settings.HANDRAIL_WORKSPACE_MEMORY, settings.HANDRAIL_WORKSPACE_CPUS = 4 * 1024**3, 2
    amounts = {}
    for default.driver in ("sandbox", "docker", "microvm", "folder"):
        amounts[default.driver] = [limit.amount for limit in environments.limits_of(default)]
    usual = ["4,096 MB", "2", "2,048", "20,480 MB"]
    guest = ["512 MB", "1", "2,048", "8,192 MB"]
    assert amounts == {"sandbox": usual, "docker": usual, "microvm": guest, "folder": ["", "", "", "20,480 MB"]}
    assert {limit.is_enforced for limit in environments.limits_of(default)} == {False}
    form = say(lead.get("/environments/new/"))
    assert "Empty: 4,096 MB; in a microVM 512 MB." in form
    assert "Empty: 2,048." in form
    default.driver = "sandbox"
    page = say(lead.get(f"/environments/{default.pk}/"))
    assert "4,096 MB (default)" in page


def test_the_spec_of_a_start_has_the_limits_that_are_shown(workspace, settings):
    settings.HANDRAIL_WORKSPACE_MEMORY, settings.HANDRAIL_WORKSPACE_CPUS = 4 * 1024**3, 2
    workspace.environment.limits = {"pids": 50}
    spec = spec_of(workspace, "run")
    assert spec.limits == Limits(memory=4 * 1024**3, cpus=2, pids=50, disk=20 * 1024**3)


def test_limits_are_set_and_read_by_the_api(api, token_of, lena, default):
    lead_api = api(token_of(lena))
    body = {"name": "default", "limits": {"memory_bytes": 1024**3}}
    made = lead_api.post("/api/v1/environments", body, content_type="application/json").json()
    assert made["limits"] == {"memory_bytes": 1024**3}
    memory, *_, disk = made["limits_in_force"]
    words = "Not known: no host that is up can run it."
    assert memory == {"name": "memory_bytes", "value": 1024**3, "default": False, "enforced": False, "words": words}
    assert (disk["value"], disk["default"], disk["enforced"]) == (20 * 1024**3, True, True)
    too_small = {"name": "default", "limits": {"memory_bytes": 1000}}
    assert lead_api.post("/api/v1/environments", too_small, content_type="application/json").status_code == 422


def test_a_limit_that_does_not_exist_is_refused(team, default, lena):
    for wanted, words in (
        ({"memory": 1}, "There is no limit 'memory'"),
        ({"pids": "many"}, "Processes and threads: a number from 16 to 4,000,000."),
        ({"pids": 20.5}, "Processes and threads: a whole number."),
    ):
        with pytest.raises(Problem, match=words):
            environments.save(team, "default", {"limits": wanted}, base=default, by=Actor.person(lena))
    assert Environment.objects.count() == 1
