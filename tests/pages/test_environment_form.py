"""The form of an environment: five things are asked first, the rest is below Advanced, each with its default."""

import re

import pytest

from dashboard.models import Actor
from tests.pages.conftest import tight
from workspaces import secrets
from workspaces.models import Environment
from workspaces.pages.environment_form import EnvironmentForm
from workspaces.provisioning import agent_programs
from workspaces.services import environments

LEAD = Actor.system("test")
NEW = "/environments/new/"
FIRST = {"name", "repository", "agent_programs", "key_anthropic", "key_openai"}
FIELD = re.compile(r'<(?:input|select|textarea)\b(?![^>]*type="hidden")[^>]*\bname="(\w+)"')


@pytest.fixture
def lead(browser_of, lena):
    return browser_of(lena)


def parts(page: str) -> tuple[set[str], set[str]]:
    """Return the names of the fields that are asked first, and of those below Advanced."""
    form = page.partition('<form class="form"')[2]
    first, _, advanced = form.partition("<details")
    return set(FIELD.findall(first)), set(FIELD.findall(advanced))


def test_five_things_are_asked_first(lead, team):
    first, advanced = parts(lead.get(NEW).content.decode())
    assert first == FIRST
    assert len(advanced) >= 30
    assert not first & advanced


def test_each_field_below_advanced_says_its_default(team):
    form = EnvironmentForm(teams=[team])
    for group in form.groups:
        for field in group.fields:
            assert re.search("Default|Empty: ", str(field.help_text)), field.name


def test_a_name_alone_is_enough(lead, team):
    lead.post(NEW, {"team": "payments", "name": "plain", "driver": "sandbox"})
    made = Environment.objects.get(name="plain")
    assert (made.repository, made.agent_programs, made.model_access, made.limits) == ("", [], {}, {})


def test_an_agent_and_a_key_are_ticked_and_the_models_are_the_usual(lead, team):
    secrets.save(team, "TEAM_KEY", "models", "sk-ant-0123456789-0123456789", by=LEAD)
    claude = agent_programs.find("claude-code")
    page = tight(lead.get(NEW).content.decode())
    assert f"{claude.title} {claude.version} (not installed on this host)" in page
    form = {"team": "payments", "name": "shop", "driver": "sandbox"}
    form |= {"agent_programs": [claude.named], "key_anthropic": "TEAM_KEY"}
    lead.post(NEW, form)
    made = Environment.objects.get(name="shop")
    assert made.agent_programs == [claude.named]
    assert made.model_access == {"anthropic": {"secret": "TEAM_KEY", "models": list(claude.models)}}


def test_other_models_and_the_providers_tools_are_kept(lead, team):
    access = {"openai": {"secret": "GONE", "models": ["gpt-x", "gpt-y-*"], "tools": True}}
    fields = {"agent_programs": ["codex@1.2.3"], "model_access": access}
    made = environments.save(team, "shop", fields, base=None, by=LEAD)
    form = EnvironmentForm(teams=[team], base=made)
    shown = {name: value for name, value in form.initial.items() if value not in (None, False)}
    assert "Nothing was changed." in lead.post(f"/environments/{made.pk}/edit/", shown, follow=True).text
    lead.post(f"/environments/{made.pk}/edit/", shown | {"models_openai": ""})
    newest = Environment.objects.get(name="shop", version=2)
    assert newest.model_access["openai"]["models"] == list(agent_programs.find("codex").models)


def test_what_differs_from_the_defaults_is_named_beside_advanced(lead, team):
    fields = {"setup": "make\n", "limits": {"pids": 100}}
    made = environments.save(team, "shop", fields, base=None, by=LEAD)
    page = tight(lead.get(f"/environments/{made.pk}/edit/").content.decode())
    assert "not as by default: Setup script, Processes and threads" in page
    assert "not as by default" not in lead.get(NEW).content.decode()


def test_an_error_below_advanced_opens_it(lead, team):
    form = {"team": "payments", "name": "shop", "driver": "sandbox"}
    assert 'panel-fold" open' not in lead.post(NEW, form | {"name": ""}).content.decode()
    page = lead.post(NEW, form | {"memory_mb": "1"}).content.decode()
    assert '<details class="fold panel-fold" open' in page
    assert 'value="shop"' in page
