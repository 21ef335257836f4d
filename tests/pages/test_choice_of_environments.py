"""Forms that name an environment, on a home that has none yet: `default` can be chosen, which the first use makes."""

import re

import pytest

from workspaces.models import Environment

FORMS = {
    "/tasks/sources/": ("environment", "default"),
    "/tasks/new/": ("place", "payments/default"),
    "/schedules/new/": ("place", "environment:{team}:default"),
}


@pytest.fixture
def site(browser_of, lena):
    return browser_of(lena)


def shown(site, address: str) -> str:
    return site.get(address).content.decode()


def choices(html: str, name: str) -> list[str]:
    select = re.search(rf'<select name="{name}".*?</select>', html, re.DOTALL).group()
    return re.findall(r'<option value="([^"]*)"', select)


@pytest.mark.parametrize("address", FORMS)
def test_default_is_a_choice_before_it_is_made_and_once_afterwards(site, team, address):
    name, value = FORMS[address]
    wanted = value.format(team=team.pk)
    assert choices(shown(site, address), name) == [wanted]
    assert not Environment.objects.exists()
    Environment.objects.create(team=team, name="default")
    Environment.objects.create(team=team, name="another")
    assert choices(shown(site, address), name) == [wanted.replace("default", "another"), wanted]


def test_a_repository_is_saved_on_a_new_home(site):
    assert "No repository gives tasks yet." in shown(site, "/tasks/sources/")
    fields = {"address": "https://git.example.org/team/shop", "kind": "gitea", "environment": "default"}
    fields |= {"label": "agent", "mention": "@handrail", "attempt_1": "hand"}
    answer = site.post("/tasks/sources/add/", fields)
    assert answer.status_code == 302
    assert "git.example.org/team/shop" in shown(site, "/tasks/sources/")
    assert Environment.objects.get().name == "default"
