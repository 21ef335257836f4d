"""Retention in the Django admin: what would go is shown before it is saved, and only these very rules are confirmed."""

import html
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django_q.models import Schedule

from dashboard import clock
from dashboard.models import Event
from dashboard.ops import tasks
from workspaces.models import Command, Contact, Operation, RetentionPolicy, Snapshot, State, Workspace
from workspaces.services import retention

from .conftest import make_command, make_workspace

CHANGE = "/admin/workspaces/retentionpolicy/"


@pytest.fixture
def operator(db, browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


@pytest.fixture
def policy(team):
    return RetentionPolicy.objects.create(team=team, snapshot_days=None)


@pytest.fixture
def old(workspace):
    """Ten snapshots of a hundred days ago, of which one is pinned, between the first and the current one."""
    long_ago = clock.now() - timedelta(days=100)
    Snapshot.objects.filter(workspace=workspace).update(created_at=long_ago)
    for number in range(3, 13):
        Snapshot.objects.create(
            workspace=workspace,
            number=number,
            tree=bytes([number]) * 32,
            kind="action",
            entries=1,
            bytes=1,
            added_bytes=1,
            pinned=number == 5,
            created_at=long_ago,
        )
    return workspace


def save(client, policy, **fields):
    """The form as a browser would send it; what was on the last page's hidden field comes along when given."""
    data = {"team": policy.team_id, "snapshot_days": "", "keep_newest_snapshots": "0", "home_days": "30"}
    data |= {"output_days": "90", "unused_workspace_days": "", "seen": ""} | fields
    return client.post(f"{CHANGE}{policy.pk}/change/", data)


def next_sweep() -> str:
    return f"at the next sweep ({clock.in_utc(retention.next_sweep())})"


def seen(response) -> str:
    return response.content.decode().split('name="seen" value="', 1)[1].split('"', 1)[0]


def test_what_would_go_is_shown_first_and_nothing_is_saved(operator, policy, old):
    response = save(operator, policy, snapshot_days="90")
    assert response.status_code == 200
    text = response.content.decode()
    assert f"Saving this deletes 9 snapshots of 1 workspace {next_sweep()}. 1 pinned one stays." in text
    policy.refresh_from_db()
    assert policy.snapshot_days is None
    assert Snapshot.objects.count() == 12


def test_a_yes_saves_and_the_sweep_takes_just_that(operator, policy, old):
    rules = seen(save(operator, policy, snapshot_days="90"))
    assert save(operator, policy, snapshot_days="90", confirmed="on", seen=rules).status_code == 302
    policy.refresh_from_db()
    assert policy.snapshot_days == 90
    assert Event.objects.get(verb="retention.saved").data["snapshot_days"] == 90
    retention.sweep()
    assert list(Snapshot.objects.order_by("number").values_list("number", flat=True)) == [1, 2, 5]


def test_what_was_tried_on_the_network_is_kept_as_long_as_output(policy, old):
    now = clock.now()
    for host, days in (("long-ago.example.org", 91), ("lately.example.org", 89)):
        at = now - timedelta(days=days)
        Contact.objects.create(
            workspace=old, phase="agent", host=host, port=443, method="CONNECT", allowed=False, first_at=at, last_at=at
        )
    retention.sweep()
    assert [contact.host for contact in Contact.objects.all()] == ["lately.example.org"]
    RetentionPolicy.objects.filter(pk=policy.pk).update(output_days=None)  # for ever
    Contact.objects.update(last_at=now - timedelta(days=1000))
    retention.sweep()
    assert Contact.objects.count() == 1


def test_a_yes_to_other_rules_is_none(operator, policy, old):
    rules = seen(save(operator, policy, snapshot_days="90"))
    response = save(operator, policy, snapshot_days="10", confirmed="on", seen=rules)
    assert response.status_code == 200
    assert "Tick this and save again" in response.content.decode()
    assert save(operator, policy, snapshot_days="10", confirmed="on").status_code == 200
    policy.refresh_from_db()
    assert policy.snapshot_days is None


def test_rules_that_delete_nothing_need_no_yes(operator, policy, old):
    assert save(operator, policy, snapshot_days="365").status_code == 302
    policy.refresh_from_db()
    assert policy.snapshot_days == 365


def test_the_newest_stay_however_old(operator, policy, old):
    policy.snapshot_days, policy.keep_newest_snapshots = 90, 4
    found = retention.preview(policy)
    assert (found.snapshots, found.workspaces, found.pinned) == (5, 1, 1)


@pytest.fixture
def unused(team, agent):
    """Workspaces in every state, unused for forty days: {state: workspace}; one that was used, one that is busy."""
    places = {state: make_workspace(team, agent, f"w-{state}", state=state) for state in State.values}
    busy = make_workspace(team, agent, "busy", state=State.STOPPED)
    Operation.objects.create(workspace=busy, kind="resume", due_at=clock.now())
    Workspace.objects.update(last_active_at=clock.now() - timedelta(days=40))
    make_workspace(team, agent, "recent", state=State.STOPPED)
    return {state: places[state] for state in (State.PAUSED, State.STOPPED, State.FAILED)}


def asked_for(kind) -> set:
    return set(Operation.objects.filter(kind=kind).values_list("workspace", flat=True))


def test_people_are_warned_a_week_before_what_nobody_uses_goes_to_the_trash(operator, policy, unused):
    response = save(operator, policy, unused_workspace_days="30", home_days="")
    assert "People are warned about 3 workspaces that nobody uses;" in response.content.decode()
    save(operator, policy, unused_workspace_days="30", home_days="", confirmed="on", seen=seen(response))
    for _ in range(2):
        retention.sweep()
    warned = Event.objects.filter(verb="workspace.warned").values_list("workspace_id", flat=True)
    assert (sorted(warned), asked_for("trash")) == (sorted(w.pk for w in unused.values()), set())
    # A week later, but one was used meanwhile.
    Workspace.objects.exclude(warned_at=None).update(warned_at=clock.now() - timedelta(days=8))
    Workspace.objects.filter(pk=unused[State.PAUSED].pk).update(last_active_at=clock.now())
    policy.refresh_from_db()
    assert f"2 workspaces that nobody uses will go to the trash {next_sweep()}." in str(retention.preview(policy))
    for _ in range(2):
        retention.sweep()
    assert asked_for("trash") == {unused[State.STOPPED].pk, unused[State.FAILED].pk}


def test_keep_it_takes_the_warning_back(policy, unused, lena, vera, browser_of, read):
    RetentionPolicy.objects.update(unused_workspace_days=30)
    retention.sweep()
    text = read(browser_of(lena), "/")
    assert (text.count(", unused since "), text.count("<button>Keep</button>")) == (3, 3)
    here = f"/w/payments/{unused[State.STOPPED].key}/"
    assert "Unused: moves to the trash" in read(browser_of(vera), here)
    assert browser_of(vera).post(f"{here}wanted/").status_code == 403
    assert browser_of(lena).post(f"{here}wanted/", {"next": "/"}).headers["Location"] == "/"
    assert "Unused: moves to the trash" not in read(browser_of(lena), here)
    assert read(browser_of(lena), "/").count("<button>Keep</button>") == 2


def test_old_homes_and_outputs_are_asked_away_once(operator, policy, unused, workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED)
    old, young = make_command(workspace), make_command(workspace)
    Command.objects.filter(pk=old.pk).update(ended_at=clock.now() - timedelta(days=91))
    Command.objects.filter(pk=young.pk).update(ended_at=clock.now() - timedelta(days=89))
    words = (
        f"Saving this deletes the output of 1 command or terminal and the agent's home of 3 workspaces {next_sweep()}."
    )
    assert words in html.unescape(save(operator, policy).content.decode())
    for _ in range(2):
        retention.sweep()
    found = {e.workspace_id: e.args for e in Operation.objects.filter(kind="forget")}
    assert found.pop(workspace.pk) == {"home": False, "programs": [str(old.operation_id)]}
    assert found == {w.pk: {"home": True, "programs": []} for w in unused.values()}


def test_the_list_says_what_goes_and_when(operator, policy, old):
    RetentionPolicy.objects.update(snapshot_days=90, keep_newest_snapshots=0)
    assert f"Deletes 9 snapshots of 1 workspace {next_sweep()}." in operator.get(CHANGE).content.decode()


def test_the_admin_begins_with_retention(operator, policy):
    text = operator.get("/admin/").content.decode()
    assert text.index("Retention policies") < min(text.index("Environments"), text.index("Teams"), text.index("Tokens"))


def test_an_environment_saved_in_the_admin_is_the_next_version_and_in_the_log(operator, workspace):
    was = workspace.environment
    form = {"driver": "sandbox", "checks": '{"tests": "make test"}'}
    form |= {"egress": "{}", "limits": "{}", "minimum_isolation": "namespace", "idle_seconds": "0"}
    form |= {"services": "{}", "stop_seconds": "0"}
    assert operator.post(f"/admin/workspaces/environment/{was.pk}/change/", form).status_code == 302
    workspace.refresh_from_db()
    assert workspace.environment == was
    assert [e.data["version"] for e in Event.objects.filter(verb="environment.saved")] == [2]
    was.refresh_from_db()
    assert (was.version, was.checks) == (1, {})


@pytest.mark.parametrize("name", ["snapshot_days", "home_days", "output_days", "unused_workspace_days"])
def test_days_beyond_a_hundred_years_are_refused_in_a_sentence(operator, policy, name):
    response = save(operator, policy, **{name: "99999999999"})
    assert response.status_code == 200
    assert "At most 36,500 days (a hundred years)" in response.content.decode()
    policy.refresh_from_db()
    assert getattr(policy, name) == RetentionPolicy(team=policy.team, snapshot_days=None).__dict__[name]


def test_the_sweep_runs_once_a_day_at_the_hour_that_is_shown(db):
    for _ in range(2):
        tasks.arrange()
        entry = Schedule.objects.get(func="workspaces.tasks.sweep_retention")
        assert (entry.next_run, entry.minutes) == (retention.next_sweep(), 24 * 60)
    missed = clock.next_at_hour(settings.HANDRAIL_SWEEP_HOUR) - timedelta(days=2)
    Schedule.objects.filter(pk=entry.pk).update(next_run=missed)
    tasks.arrange()
    entry.refresh_from_db()
    assert entry.next_run == missed  # the queue runs it at once


def test_an_old_version_of_an_environment_is_not_saved_over_a_newer_one(operator, workspace):
    was = workspace.environment
    form = {"driver": "sandbox", "checks": "{}", "egress": "{}", "limits": "{}", "minimum_isolation": "namespace"}
    form |= {"idle_seconds": "7", "services": "{}", "stop_seconds": "0"}
    address = f"/admin/workspaces/environment/{was.pk}/change/"
    assert operator.post(address, form).status_code == 302
    refused = operator.post(address, form | {"idle_seconds": "9"})
    assert refused.status_code == 200
    assert "Someone else saved version 2 of default. Nothing was saved." in refused.content.decode()
    assert list(was.__class__.objects.order_by("version").values_list("version", "idle_seconds")) == [(1, 0), (2, 7)]
    taken = operator.post("/admin/workspaces/environment/add/", form | {"team": was.team_id, "name": "default"})
    assert "An environment named default already exists." in taken.content.decode()
