"""Environments and checks: versions that never change, who may edit them, and how each check of a workspace ended."""

import html
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.manifests import body
from workspaces.models import Command, Environment, Phase, Runner, Workspace
from workspaces.programs.checks import checks_of
from workspaces.provisioning import isolation
from workspaces.services import environments

from .conftest import make_command, make_workspace

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
WISH = {"driver": "sandbox", "setup": "", "sign_commits": "on", "checks": "tests = make test\nlint = ruff check .\n"}


@pytest.fixture
def lead(lena, browser_of):
    return browser_of(lena)


@pytest.fixture
def default(workspace) -> Environment:
    return workspace.environment


def say(response) -> str:
    return html.unescape(response.content.decode())


def save(client, environment, **fields):
    return client.post(f"/environments/{environment.pk}/edit/", WISH | fields, follow=True)


# Versions ------------------------------------------------------------------------------------------------------------


def test_a_save_is_the_next_version_and_the_old_one_stays(lead, default, workspace):
    text = say(save(lead, default, memory_mb="512", pids="100"))
    assert "Version 2 of default saved." in text
    made = Environment.objects.get(name="default", version=2)
    assert made.checks == {"tests": "make test", "lint": "ruff check ."}
    assert made.limits == {"memory_bytes": 512 * 1024**2, "pids": 100}
    default.refresh_from_db()
    assert (default.checks, default.version) == ({}, 1)
    workspace.refresh_from_db()
    assert workspace.environment == default
    event = Event.objects.get(verb="environment.saved")
    assert event.data == {"name": "default", "version": 2, "changed": ["checks", "limits"]}


def test_a_save_that_changes_nothing_makes_no_version(lead, default):
    assert "Nothing was changed." in say(save(lead, default, checks=""))
    assert Environment.objects.count() == 1


def test_what_no_form_shows_is_kept(lead, default):
    Environment.objects.filter(pk=default.pk).update(idle_seconds=77)
    save(lead, default)
    made = Environment.objects.get(version=2)
    assert made.idle_seconds == 77


def test_hosts_are_listed_for_each_phase(lead, default):
    save(lead, default, egress_setup="Packages.example.net\n\n*.example.org:8443\n", egress_agent="api.example.com")
    made = Environment.objects.get(version=2)
    assert made.egress == {"setup": ["packages.example.net", "*.example.org:8443"], "agent": ["api.example.com"]}
    shown = lead.get(f"/environments/{made.pk}/").text
    assert all(
        f"<code>{host}</code>" in shown for host in ("packages.example.net", "*.example.org:8443", "api.example.com")
    )
    refused = say(save(lead, made, egress_agent="10.0.0.1"))
    assert "Use host names, not addresses." in refused
    assert Environment.objects.count() == 2


def test_the_second_edit_of_one_version_is_refused(lead, default):
    save(lead, default)
    text = say(save(lead, default, checks="other = true"))
    assert "Someone else saved version 2 of default. Nothing was saved." in text
    assert "other = true" in text
    assert Environment.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"checks": "make test"}, "Line 1 of the checks: write name = command"),
        ({"checks": "\na = true\na = false"}, "Line 3 of the checks: a appears twice."),
        ({"checks": "x = "}, "Line 1 of the checks"),
        ({"checks": "<b> = true"}, "Line 1 of the checks"),
        ({"checks": "\n".join(f"c{n} = true" for n in range(21))}, "At most 20 checks; these are 21."),
        ({"repository": "ext::sh -c id"}, "git address"),
        ({"repository": "http://169.254.169.254/x"}, ""),
        ({"driver": "teleport"}, "teleport"),
        ({"memory_mb": "1"}, "64"),
        ({"cpus": "nan"}, ""),
        ({"pids": "-5"}, "16"),
    ],
)
def test_what_makes_no_sense_is_refused_and_saves_nothing(lead, default, fields, why):
    text = say(save(lead, default, **fields))
    assert why in text
    assert 'role="alert"' in text
    assert Environment.objects.count() == 1


def test_a_new_environment_is_used_by_its_name(lead, lena, team):
    lead.post("/environments/new/", {"team": "payments", "name": "web shop", **WISH})
    made, is_new = lifecycle.create(team, "from-it", caller=caller_of(lena), wish={"environment": "web shop"})
    assert (is_new, made.environment.name, made.environment.version) == (True, "web shop", 1)
    assert "An environment named web shop already exists." in say(
        lead.post("/environments/new/", {"team": "payments", "name": "web shop", **WISH})
    )


def test_the_newest_default_is_what_a_workspace_without_wishes_gets(lead, lena, team, default):
    save(lead, default)
    made, _ = lifecycle.create(team, "later", caller=caller_of(lena), wish={})
    assert made.environment.version == 2


def test_an_environment_brings_its_repository(lena, team, tmp_path, settings):
    settings.HANDRAIL_LOCAL_SOURCES = [str(tmp_path)]
    address = str(tmp_path / "shop")
    Environment.objects.create(team=team, name="shop", repository=address, ref="main")
    made, _ = lifecycle.create(team, "from-shop", caller=caller_of(lena), wish={"environment": "shop"})
    assert made.source == {"git": address, "ref": "main"}


def test_a_workspace_moves_to_the_newest_version_when_a_lead_says_so(lead, default, workspace):
    save(lead, default)
    here = f"/w/payments/{workspace.key}/checks/"
    assert "Use version 2 here" in say(lead.get(here))
    assert 'aria-label="Run tests"' not in say(lead.get(here))
    text = say(lead.post(f"{here}adopt/", follow=True))
    assert 'aria-label="Run tests"' in text
    assert "Use version" not in text
    event = Event.objects.get(verb="workspace.environment_changed")
    assert event.data == {"environment": "default", "was": 1, "version": 2}
    assert "already uses the newest version" in say(lead.post(f"{here}adopt/", follow=True))


# Where it runs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def docker_is_here(db):
    found = {"docker": {"available": True, "limits": []}}
    Runner.objects.create(host="h", heartbeat_at=clock.now(), capabilities=found)


def test_a_container_is_a_choice_once_a_host_can_run_one(lead, default, docker_is_here):
    save(lead, default, driver="docker", image="debian:bookworm")
    made = Environment.objects.get(version=2)
    assert (made.driver, made.image, made.minimum_isolation) == ("docker", "debian:bookworm", "container")
    Runner.objects.update(capabilities={"docker": {"available": False, "reason": "The engine is away."}})
    assert isolation.available() == ["sandbox"]
    assert isolation.why_not("docker") == "The engine is away."


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"driver": "sandbox", "minimum_isolation": "microvm"}, "requires at least isolation microvm; sandbox offers"),
        ({"driver": "sandbox", "image": "debian:bookworm"}, "Only containers and pods have an image."),
        ({"driver": "docker", "image": "--privileged"}, "is neither the name of an image nor the path of a folder"),
        ({"driver": "docker", "image": "/etc"}, "Images are built from the folders in HANDRAIL_LOCAL_SOURCES only"),
    ],
)
def test_what_cannot_be_is_refused(lead, default, docker_is_here, fields, words):
    assert words in say(save(lead, default, **fields))
    assert Environment.objects.count() == 1


def test_another_driver_is_never_slipped_under_a_workspace(lena, default, workspace):
    environments.save(default.team, "default", {"driver": "docker"}, base=default, by=caller_of(lena).actor)
    with pytest.raises(Problem, match="uses another driver"):
        environments.adopt(workspace, by=caller_of(lena).actor)


# Who may -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("person", ["vera", "bob"])
def test_members_without_the_right_can_only_read(person, request, browser_of, default, workspace):
    client = browser_of(request.getfixturevalue(person))
    assert "repo-task-1" in say(client.get(f"/environments/{default.pk}/"))
    assert "Change…" not in say(client.get(f"/environments/{default.pk}/"))
    assert client.get(f"/environments/{default.pk}/edit/").status_code == 403
    assert save(client, default).status_code == 403
    assert client.post("/environments/new/", {"team": "payments", "name": "x", **WISH}).status_code == 403
    assert client.post(f"/w/payments/{workspace.key}/checks/adopt/").status_code == 403
    assert Environment.objects.count() == 1


def test_strangers_see_no_environment(browser_of, mallory, default):
    client = browser_of(mallory)
    assert str(default.pk) not in client.get("/environments/").content.decode()
    assert client.get(f"/environments/{default.pk}/").status_code == 404
    assert client.post(f"/environments/{default.pk}/edit/", WISH).status_code == 404
    response = client.post("/environments/new/", {"team": "payments", "name": "x", **WISH})
    assert 'role="alert"' in response.content.decode()
    assert Environment.objects.count() == 1


# Shown honestly ------------------------------------------------------------------------------------------------------


def test_the_list_says_who_uses_what(lead, default, workspace, team, agent):
    save(lead, default)
    make_workspace(team, agent, "second")
    text = say(lead.get("/environments/"))
    assert "version 2" in text
    assert "2 workspaces" in text
    assert "2 on older versions" in text
    Workspace.objects.update(trashed_at=clock.now())
    assert "not in use" in say(lead.get("/environments/"))


# Checks --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_checks(workspace):
    Environment.objects.filter(pk=workspace.environment_id).update(
        checks={"tests": "make test", "lint": "ruff check .", "types": "mypy"}
    )
    workspace.environment.refresh_from_db()
    return workspace


def test_each_check_has_a_button_and_its_last_result(lead, with_checks):
    make_command(with_checks, "make test", exit_status=1, check_name="tests")
    make_command(with_checks, "make test", exit_status=0, check_name="tests")
    make_command(with_checks, "ruff check .", exit_status=2, check_name="lint", ended_at=clock.now())
    found = checks_of(with_checks)[with_checks.pk]
    assert [(c.name, c.state) for c in found] == [("tests", "passed"), ("lint", "failed"), ("types", "never_run")]
    assert found[0].last.after == 2
    text = say(lead.get(f"/w/payments/{with_checks.key}/checks/"))
    assert [f'aria-label="Run {name}"' in text for name in ("tests", "lint", "types")] == [True] * 3
    assert "snapshot 2" in text


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"phase": Phase.DUE}, "running"),
        ({"phase": Phase.STARTED}, "running"),
        ({"phase": Phase.UNCERTAIN}, "uncertain"),
        ({"exit_status": 3}, "failed"),
        ({"exit_status": None}, "failed"),
        ({"exit_status": -15, "cancelled_at": LONG_AGO}, "cancelled"),
        ({"exit_status": 0, "cancelled_at": LONG_AGO}, "passed"),
    ],
)
def test_a_check_says_how_it_ended(with_checks, fields, state):
    make_command(with_checks, check_name="tests", **fields)
    assert checks_of(with_checks)[with_checks.pk][0].state == state


def test_a_check_is_one_command_asked_of_the_lifecycle(lead, with_checks):
    for _ in range(2):
        lead.post(f"/w/payments/{with_checks.key}/checks/run/", {"check": "lint"})
    asked = Command.objects.filter(check_name="lint")
    assert [(c.shown, c.argv, c.operation.phase) for c in asked] == [
        ("ruff check .", ["bash", "-c", "ruff check ."], "due")
    ] * 2
    response = lead.post(f"/w/payments/{with_checks.key}/checks/run/", {"check": "none such"}, follow=True)
    assert "The environment has no check named 'none such'." in say(response)


def test_the_list_of_workspaces_shows_and_filters_by_checks(lead, with_checks, team, agent):
    make_workspace(team, agent, "second")
    failed = make_command(with_checks, check_name="lint", exit_status=1, ended_at=clock.now())
    text = say(lead.get("/workspaces/"))
    assert "lint failed; tests, types not run yet" in text
    text = say(lead.get("/workspaces/?state=checks"))
    assert "repo-task-1" in text
    assert "second" not in text
    make_command(with_checks, check_name="lint", exit_status=0, ended_at=clock.now())
    assert failed.exit_status == 1
    assert "repo-task-1" not in say(lead.get("/workspaces/?state=checks"))


def test_a_manifest_names_how_each_check_ended_last(with_checks):
    for name, status, ended in (
        ("tests", 1, LONG_AGO),
        ("tests", 0, LONG_AGO + timedelta(hours=1)),
        ("lint", 2, LONG_AGO),
    ):
        make_command(with_checks, check_name=name, exit_status=status, ended_at=ended)
    make_command(with_checks, check_name="types", phase=Phase.STARTED)
    found = body.of_now(with_checks)["checks"]
    assert {name: check["exit_status"] for name, check in found.items()} == {"tests": 0, "lint": 2}


def test_commands_can_be_cut_down_to_checks(lead, with_checks):
    make_command(with_checks, "echo plain")
    make_command(with_checks, "echo checked", check_name="tests")
    text = say(lead.get(f"/w/payments/{with_checks.key}/checks/?only=checks"))
    assert "echo checked" in text
    assert "echo plain" not in text


def test_many_checks_cost_no_more_queries_than_one(lead, with_checks, team, agent):
    def cost(address):
        with CaptureQueriesContext(connection) as queries:
            lead.get(address)
        return len(queries)

    addresses = ["/workspaces/", f"/w/payments/{with_checks.key}/checks/", "/environments/"]
    make_command(with_checks, check_name="tests")
    lead.get("/")
    few = [cost(address) for address in addresses]
    for number in range(20):
        other = make_workspace(team, agent, f"w{number}")
        for name in ("tests", "lint"):
            make_command(other, check_name=name)
            make_command(with_checks, check_name=name)
        Environment.objects.create(team=team, name=f"e{number}")
    assert [cost(address) for address in addresses] == few
