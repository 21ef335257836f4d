"""Retention in the Django admin: defaults in force, what goes is shown before it is saved, who may see which team."""

import html
import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_q.models import Schedule

from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.ops import tasks
from dashboard.text.moments import dated
from workspaces.models import Hold, Operation, RetentionRule, Snapshot
from workspaces.services import retention

LIST = "/admin/workspaces/teamretention/"


def page_of(team) -> str:
    return f"{LIST}{team.pk}/change/"


@pytest.fixture
def operator(db, browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


@pytest.fixture
def old(workspace):
    """Ten snapshots of three hundred days ago, of which one is pinned, between the first and the current one."""
    long_ago = clock.now() - timedelta(days=300)
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


def shown(response) -> str:
    return re.sub(r"\s+", " ", html.unescape(response.content.decode()))


def fields_of(team, **changed) -> dict:
    """The form as a browser sends it, untouched but for `changed`."""
    data = {}
    for found in retention.Rules.of(team).all_in_force():
        if found.environment:
            continue
        name, terms = found.layer.name, found.terms
        if found.layer.in_hours:
            data[f"{name}-hours"] = str(terms.hours)
        else:
            data[f"{name}-days"] = "" if terms.days is None else str(terms.days)
        data |= {f"{name}-{count}": str(getattr(terms, count)) for count in found.layer.counts}
        if found.is_default:
            data[f"{name}-default"] = "on"
    return data | changed


NO_MORE = {f"snapshots-action-{count}": "0" for count in retention.COUNTS} | {"snapshots-action-days": "90"}


def test_every_team_has_the_defaults_in_force_and_the_page_says_so(operator, team):
    text = shown(operator.get(page_of(team)))
    rows = re.findall(r'<tr id="rule-([\w-]+)">.*?<td>\s*(\w+)', text)
    assert rows == [(layer.name, "default") for layer in retention.layers()]
    assert f"Deletes nothing at the next sweep ({clock.in_utc(retention.next_sweep())})." in text


def test_what_would_go_is_shown_first_and_nothing_is_saved(operator, team, old):
    response = operator.post(page_of(team), fields_of(team, **NO_MORE))
    assert response.status_code == 200
    text = shown(response)
    assert "snapshots before actions: 9." in text
    day = dated(clock.now() - timedelta(days=300))
    assert f"<b>repo-task-1</b>: snapshot 12 ({day})" in text
    assert RetentionRule.objects.count() == 0
    assert Snapshot.objects.kept().count() == 12


def confirmed(response) -> str:
    return re.search(r'name="confirm" value="(\w+)"', response.content.decode())[1]


def test_a_yes_saves_and_the_sweep_takes_just_that(operator, team, old):
    wish = fields_of(team, **NO_MORE)
    digest = confirmed(operator.post(page_of(team), wish))
    assert operator.post(page_of(team), wish | {"confirm": digest}).status_code == 302
    assert Event.objects.get(verb="retention.saved").data["rules"] == ["snapshots-action: 90 days (before: default)"]
    retention.sweep()
    kept = Snapshot.objects.kept().order_by("number").values_list("number", flat=True)
    assert list(kept) == [1, 2, 5]
    assert Snapshot.objects.in_trash().count() == 9


def test_a_yes_to_other_rules_is_none(operator, team, old):
    digest = confirmed(operator.post(page_of(team), fields_of(team, **NO_MORE)))
    other = fields_of(team, **NO_MORE | {"snapshots-action-days": "10"})
    assert operator.post(page_of(team), other | {"confirm": digest}).status_code == 200
    assert RetentionRule.objects.count() == 0


def test_rules_that_delete_nothing_need_no_yes_and_only_changed_ones_are_saved(operator, team, old):
    wish = fields_of(team, **NO_MORE | {"snapshots-action-days": "365"})
    assert operator.post(page_of(team), wish).status_code == 302
    assert [(rule.layer, rule.days) for rule in RetentionRule.objects.all()] == [("snapshots-action", 365)]
    text = shown(operator.get(page_of(team)))
    assert re.search(r'id="rule-snapshots-action">.*?<td> own', text)


def test_a_rule_goes_back_to_the_default(operator, team):
    operator.post(page_of(team), fields_of(team, **{"home-days": "365"}))
    assert RetentionRule.objects.count() == 1
    operator.post(page_of(team), fields_of(team, **{"home-default": "on"}))
    assert RetentionRule.objects.count() == 0


def test_an_environment_has_rules_of_its_own(operator, team, old):
    address = f"{page_of(team)}?environment=default"
    assert operator.post(address, fields_of(team, **{"home-days": "365"})).status_code == 302
    assert [(rule.environment, rule.days) for rule in RetentionRule.objects.all()] == [("default", 365)]
    assert shown(operator.get(page_of(team))).count("(own rules)") == 1


@pytest.mark.parametrize("layer", ["snapshots-action", "home", "output", "workspaces"])
def test_days_beyond_a_hundred_years_are_refused_at_their_field(operator, team, layer):
    response = operator.post(page_of(team), fields_of(team, **{f"{layer}-days": "99999999999"}))
    assert "At most 36,500 days (a hundred years)" in shown(response)
    assert RetentionRule.objects.count() == 0


def test_the_trash_needs_an_end(operator, team):
    response = operator.post(page_of(team), fields_of(team, **{"trash-days": ""}))
    assert "Trash: give a number of days." in shown(response)
    assert RetentionRule.objects.count() == 0


def test_sweeps_are_run_tried_put_off_and_stopped_here(operator, team):
    at = f"{LIST}{team.pk}/"
    operator.post(f"{at}dry-run/")
    assert [row.args for row in Operation.objects.all()] == [{"dry_run": True}]
    assert "A sweep is already in progress." in shown(operator.post(f"{at}run/", follow=True))
    operator.post(f"{at}stop/")
    assert Operation.objects.get().cancelled_at is not None
    operator.post(f"{at}put-off/", {"days": "7", "reason": "audit"})
    hold = Hold.objects.get()
    assert (hold.workspace, hold.reason) == (None, "audit")
    assert timedelta(days=6) < hold.until - clock.now() < timedelta(days=8)


def test_holds_are_set_and_released_here(operator, team, workspace):
    at = f"{LIST}{team.pk}/"
    wish = {"hold-workspace": workspace.key, "hold-snapshot": "2", "hold-reason": "lawsuit", "hold-until": ""}
    operator.post(f"{at}hold/", wish)
    hold = Hold.objects.get()
    assert (hold.snapshot, hold.reason, hold.by["label"]) == (workspace.head, "lawsuit", "root")
    assert "<b>snapshot 2 of repo-task-1</b>: lawsuit." in shown(operator.get(page_of(team)))
    assert "There is no snapshot 9 of repo-task-1." in shown(
        operator.post(f"{at}hold/", wish | {"hold-snapshot": "9"}, follow=True)
    )
    operator.post(f"{at}release/", {"hold": str(hold.pk)})
    assert not Hold.objects.active().exists()


# Who may --------------------------------------------------------------------------------------------------------------


def test_a_teams_admin_sees_and_sets_only_their_team(browser_of, alice, team, other_team):
    client = browser_of(alice)
    index = client.get("/admin/").content.decode()
    assert (LIST in index, "/admin/dashboard/team/" in index) == (True, False)
    listed = client.get(LIST).content.decode()
    assert (page_of(team) in listed, page_of(other_team) in listed) == (True, False)
    assert client.post(page_of(team), fields_of(team, **{"home-days": "365"})).status_code == 302
    assert client.get(page_of(other_team)).status_code == 404
    assert client.post(page_of(other_team), {}).status_code == 404
    for verb in ("run", "dry-run", "stop", "put-off", "hold", "release"):
        assert client.post(f"{LIST}{other_team.pk}/{verb}/").status_code == 404
    assert client.get("/admin/dashboard/team/").status_code == 403
    assert set(RetentionRule.objects.values_list("team", flat=True)) == {team.pk}


@pytest.mark.parametrize("who", ["lena", "bob", "vera"])
def test_other_roles_do_not_get_in(request, browser_of, team, who):
    client = browser_of(request.getfixturevalue(who))
    assert client.get(LIST, follow=True).status_code == 403


def test_a_second_admin_may_see_only_this(browser_of, team, other_team):
    auditor = get_user_model().objects.create_user("auditor", is_staff=True)
    auditor.user_permissions.add(Permission.objects.get(codename="view_teamretention"))
    client = browser_of(auditor)
    index = client.get("/admin/").content.decode()
    assert (LIST in index, "/admin/dashboard/" in index, "/admin/approvals/" in index) == (True, False, False)
    text = client.get(page_of(other_team)).content.decode()
    assert ('value="Run now"' in text, 'value="Save"' in text) == (False, False)
    assert client.post(page_of(team), fields_of(team, **{"home-days": "1"})).status_code == 403
    assert client.post(f"{LIST}{team.pk}/run/").status_code == 403
    assert not RetentionRule.objects.exists()


def test_the_admin_begins_with_retention(operator, team):
    text = operator.get("/admin/").content.decode()
    assert text.index(LIST) < min(text.index("Environments"), text.index("Teams"), text.index("Tokens"))


def test_the_list_takes_as_many_queries_for_many_teams(operator, team):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert operator.get(LIST).status_code == 200
        return len(caught)

    operator.get(LIST)  # once a minute a request notes that the session is used
    few = queries()
    for number in range(12):
        Team.objects.create(slug=f"team-{number}", name=f"Team {number}")
    assert queries() == few


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
