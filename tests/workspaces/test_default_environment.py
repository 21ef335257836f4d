"""The environment `default` is there when it is first meant, also where it is named before the first workspace."""

import pytest

from dashboard.people.access import caller_of
from dashboard.problems import Problem
from workspaces.models import Environment, Runner
from workspaces.provisioning import eligibility

pytestmark = pytest.mark.django_db


@pytest.fixture
def sandboxes(settings):
    from dashboard.database import clock

    able = {"sandbox": {"available": True, "isolation": "namespace"}}
    Runner.objects.create(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=clock.now(), capabilities=able)


def test_it_is_made_once_when_it_is_named(team, alice, sandboxes):
    first = eligibility.find_environment(team, "default", caller_of(alice))
    assert (first.driver, first.setup, first.version) == ("sandbox", "", 1)
    assert eligibility.find_environment(team, "default", caller_of(alice)) == first
    assert Environment.objects.filter(team=team).count() == 1


def test_another_name_is_none(team, alice, sandboxes):
    with pytest.raises(Problem, match="There is no environment named 'other'"):
        eligibility.find_environment(team, "other", caller_of(alice))
    assert not Environment.objects.exists()


def test_without_its_driver_it_is_not_made(team, alice, monkeypatch):
    monkeypatch.setattr(eligibility.isolation, "available", tuple)
    with pytest.raises(Problem, match="There is no environment named 'default'"):
        eligibility.find_environment(team, "default", caller_of(alice))
    assert not Environment.objects.exists()
