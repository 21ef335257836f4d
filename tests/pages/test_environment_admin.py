"""Environments in the Django admin: a save makes the next version, and never over a newer one."""

import pytest
from django.contrib.auth import get_user_model

from dashboard.models import Event


@pytest.fixture
def operator(db, browser_of):
    return browser_of(get_user_model().objects.create_superuser("root"))


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
