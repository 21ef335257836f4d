"""Where a new environment starts from: a situation, or a devcontainer.json; and its variables and working directory."""

import html
import json

import pytest

from dashboard.people.access import caller_of
from workspaces.models import Environment
from workspaces.provisioning import presets
from workspaces.services.commands import run_command, working_directory

from .conftest import make_workspace


@pytest.fixture
def lead(lena, browser_of):
    return browser_of(lena)


def say(response) -> str:
    return html.unescape(response.content.decode())


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_a_situation_fills_the_form_and_can_be_saved(lead, team, preset):
    page = lead.get(f"/environments/new/?preset={preset.name}")
    form = page.context["form"]
    shown = {name: field.initial for name, field in form.fields.items()} | form.initial
    shown = {name: value for name, value in shown.items() if value is not None}
    lead.post("/environments/new/", shown | {"team": team.slug, "name": preset.name})
    made = Environment.objects.get(name=preset.name)
    fields = preset.fields_with(["sandbox"])
    assert {name: getattr(made, name) for name in fields} == fields


def test_a_devcontainer_json_fills_the_form_and_saves_nothing(lead, team):
    text = json.dumps(
        {"name": "api", "postCreateCommand": "npm ci", "containerEnv": {"A": "<b>"}, "features": {"x": {}}}
    )
    page = say(lead.post("/environments/devcontainer/", {"text": text}))
    assert not Environment.objects.filter(name="api").exists()
    assert "<code>features</code>: Features are not installed." in page
    assert "A=<b>" in page  # in the field, escaped
    assert "<b>" not in lead.post("/environments/devcontainer/", {"text": text}).text


def test_a_file_that_cannot_be_read_is_reported_at_its_field(lead):
    page = say(lead.post("/environments/devcontainer/", {"text": "{"}))
    assert "This is not a devcontainer.json" in page
    assert 'aria-invalid="true"' in page


def test_a_reviewer_may_not(bob, browser_of):
    assert browser_of(bob).get("/environments/devcontainer/").status_code == 403
    assert browser_of(bob).post("/environments/devcontainer/", {"text": "{}"}).status_code == 403


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"variables": "A"}, "Line 1 of the variables: write NAME=value."),
        ({"variables": "A=1\nA=2"}, "Line 2 of the variables: A appears twice."),
        ({"variables": "PATH=/x"}, "PATH is reserved"),
        ({"variables": "1A=x"}, "is not a valid variable name"),
        ({"variables": "TOKEN=x", "agent_secrets": "TOKEN"}, "TOKEN is a secret of this environment"),
        ({"working_directory": "../x"}, "must be a folder in /workspace"),
        ({"working_directory": "/etc"}, "must be a folder in /workspace"),
        ({"build_target": "dev"}, "needs an image that is the path of a folder"),
    ],
)
def test_bad_variables_folders_and_builds_are_refused(lead, team, fields, why):
    wish = {"team": team.slug, "name": "bad", "driver": "sandbox"} | fields
    assert why in say(lead.post("/environments/new/", wish))
    assert not Environment.objects.filter(name="bad").exists()


def test_variables_and_folder_are_shown_and_kept_by_the_next_version(lead, team):
    wish = {"team": team.slug, "name": "api", "driver": "sandbox", "variables": "NODE_ENV=test\nURL=a=b"}
    lead.post("/environments/new/", wish | {"working_directory": "/workspace/packages/api/"})
    made = Environment.objects.get(name="api")
    assert made.variables == {"NODE_ENV": "test", "URL": "a=b"}
    assert made.working_directory == "packages/api"
    page = say(lead.get(f"/environments/{made.pk}/"))
    assert "URL=a=b" in page
    assert "/workspace/packages/api" in page
    again = lead.get(f"/environments/{made.pk}/edit/").context["form"].initial
    assert (again["variables"], again["working_directory"]) == ("NODE_ENV=test\nURL=a=b\n", "packages/api")


def test_commands_start_in_the_working_directory_unless_they_name_one(team, agent, lena):

    workspace = make_workspace(team, agent, "in-api")
    Environment.objects.filter(pk=workspace.environment_id).update(working_directory="packages/api")
    workspace.refresh_from_db()
    by = caller_of(lena).actor
    assert working_directory(workspace.environment) == "/workspace/packages/api"
    assert run_command(workspace, {"command": "pwd"}, by=by).cwd == "/workspace/packages/api"
    assert run_command(workspace, {"command": "pwd", "cwd": "/tmp"}, by=by).cwd == "/tmp"
