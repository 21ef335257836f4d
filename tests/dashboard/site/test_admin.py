"""The Django admin is no way around: each change writes its event, and what pages refuse it refuses too."""

import re
from urllib.parse import urljoin

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.staticfiles import finders

from dashboard.admin import Logged
from dashboard.models import Agent, Event, Membership, Role, Team, Token
from dashboard.people.tokens import find_token, make_token


@pytest.fixture
def operator(db, browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


@pytest.fixture
def save_team(operator, team):
    """`save_team(rows, name=…)`: the form of the team with these (membership or None, user, role, delete) rows."""

    def save(rows, **fields):
        data = {"name": team.name, "memberships-TOTAL_FORMS": len(rows), "memberships-INITIAL_FORMS": 0}
        for number, (membership, user, role, delete) in enumerate(rows):
            prefix = f"memberships-{number}-"
            data |= {f"{prefix}user": user.pk, f"{prefix}role": role, f"{prefix}team": team.pk}
            if membership:
                data |= {f"{prefix}id": membership.pk, "memberships-INITIAL_FORMS": number + 1}
            if delete:
                data[f"{prefix}DELETE"] = "on"
        return operator.post(f"/admin/dashboard/team/{team.pk}/change/", data | fields)

    return save


def rows_of(team, **changed):
    """Each membership as it is; `bob="lead"` gives a role, `bob=None` removes."""
    found = []
    for one in team.memberships.select_related("user").order_by("pk"):
        role = changed.get(one.user.username, one.role)
        found.append((one, one.user, role or one.role, role is None))
    return found


def newest(count: int):
    return list(Event.objects.order_by("-id").values_list("verb", "actor_label")[:count])


def test_no_task_of_the_queue_can_be_added_run_again_or_deleted(operator):
    for model in ("schedule", "success", "failure", "ormq"):
        for page in ("", "add/"):
            assert operator.get(f"/admin/django_q/{model}/{page}").status_code == 404
    assert [m._meta.label for m in admin.site._registry if m._meta.app_label == "django_q"] == []


def test_whatever_is_in_the_admin_writes_its_events(db):
    others = [m._meta.label for m, shown in admin.site._registry.items() if not isinstance(shown, Logged)]
    assert others == ["workspaces.TeamRetention"]  # its own views write them (tests/pages/test_retention_admin.py)


def test_a_role_changed_a_person_added_and_one_removed_are_in_the_log(save_team, team, alice, bob, vera):
    mallory = get_user_model().objects.create_user("new")
    rows = [*rows_of(team, bob="lead", vera=None), (None, mallory, "viewer", False)]
    assert save_team(rows).status_code == 302
    assert Membership.objects.get(user=bob).role == Role.LEAD
    assert not Membership.objects.filter(user=vera, team=team).exists()
    assert Membership.objects.get(user=mallory).role == Role.VIEWER
    verbs = {verb for verb, by in newest(4) if by == "root"}
    assert verbs >= {"person.role_changed", "person.added"}
    assert verbs & {"person.removed", "person.invitation_withdrawn"}


def test_the_last_admin_is_neither_removed_nor_demoted_nor_closed(save_team, operator, team, alice):
    for role in ("viewer", None):
        response = save_team(rows_of(team, alice=role))
        assert response.status_code == 200
        assert "A team keeps at least one active admin." in response.content.decode()
    form = {"username": "alice", "is_staff": "", "is_superuser": ""}
    closed = operator.post(f"/admin/auth/user/{alice.pk}/change/", form)
    assert "This is the only admin of Payments" in closed.content.decode()
    alice.refresh_from_db()
    assert (alice.is_active, Membership.objects.get(user=alice).role) == (True, Role.ADMIN)


def test_a_person_is_closed_and_never_deleted(operator, bob, vera):
    assert operator.post(f"/admin/auth/user/{bob.pk}/delete/", {"post": "yes"}).status_code == 403
    form = {"username": "bob", "email": bob.email}
    assert operator.post(f"/admin/auth/user/{bob.pk}/change/", form).status_code == 302
    bob.refresh_from_db()
    assert (bob.is_active, bob.username) == (False, "bob")
    assert newest(1) == [("person.account_changed", "root")]
    assert Event.objects.latest("id").data["changed"] == ["Active"]


def test_a_revoked_token_stays_revoked(operator, team, agent):
    token = find_token(make_token(team, agent=agent))
    listed = "/admin/dashboard/token/"
    form = {"action": "revoke", "_selected_action": [str(token.pk)]}
    operator.post(listed, form)
    token.refresh_from_db()
    revoked = token.revoked_at
    assert revoked is not None
    assert newest(1) == [("token.revoked", "root")]
    operator.post(f"{listed}{token.pk}/change/", {"revoked_at_0": "", "revoked_at_1": "", "expires_at_0": ""})
    operator.post(listed, form)
    token.refresh_from_db()
    assert token.revoked_at == revoked
    assert Event.objects.filter(verb="token.revoked").count() == 1
    assert operator.post(f"{listed}{token.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Token.objects.filter(pk=token.pk).exists()


def test_an_agent_stays_in_its_team(operator, agent, other_team):
    address = f"/admin/dashboard/agent/{agent.pk}/change/"
    operator.post(address, {"team": other_team.pk, "name": "renamed", "owner": ""})
    agent.refresh_from_db()
    assert (agent.team_id == other_team.pk, agent.name) == (False, "renamed")
    assert newest(1) == [("agent.changed", "root")]
    assert operator.post(f"/admin/dashboard/agent/{agent.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Agent.objects.filter(pk=agent.pk).exists()


def test_teams_are_not_deleted(operator, team):
    assert operator.post(f"/admin/dashboard/team/{team.pk}/delete/", {"post": "yes"}).status_code == 403
    assert Team.objects.filter(pk=team.pk).exists()


def test_the_admin_wears_the_desks_colours_and_none_of_its_links_is_missing(operator, team, alice):
    pages = ["", "dashboard/team/", f"dashboard/team/{team.pk}/change/", "auth/user/", f"auth/user/{alice.pk}/change/"]
    for page in (f"/admin/{page}" for page in pages):
        text = operator.get(page).content.decode()
        assert "css/admin.css" in text
        for address in set(re.findall(r'href="([^"#?]+)"', text)):
            if address.startswith("/static/"):
                assert finders.find(address.removeprefix("/static/")), address
            else:
                assert operator.get(urljoin(page, address), follow=True).status_code == 200, address
