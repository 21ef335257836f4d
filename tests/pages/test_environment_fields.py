"""Each field of an environment can be set and read by its form and by the API, and a wrong value is refused by name."""

import json

import pytest
from django.core.management import CommandError, call_command

from dashboard.models import Event
from workspaces.api.drivers import NewEnvironment
from workspaces.models import Environment
from workspaces.pages.environment_form import EnvironmentForm
from workspaces.provisioning import devcontainer

# Set by Handrail itself, or by a page of its own.
NOT_IN_THE_FORM = {"id", "team", "name", "version", "created_at", "home_layer"}
EVERY_FIELD = {
    "driver": "sandbox",
    "image": "",
    "build": {},
    "repository": "https://1.1.1.1/team/shop.git",
    "ref": "main",
    "submodules": "left",
    "lfs": "pulled",
    "storage": "emptydir",
    "runtime_class": "",
    "upstream": "",
    "sign_commits": True,
    "setup": "make deps\n",
    "maintenance": "make warm\n",
    "maintenance_seconds": 90,
    "checks": {"tests": "make test"},
    "egress": {"setup": ["packages.example.org"], "agent": ["api.example.org:8443"]},
    "limits": {"memory_bytes": 512 * 1024**2, "cpus": 1.5, "pids": 100, "disk_bytes": 1024**3},
    "variables": {"MODE": "development"},
    "working_directory": "packages/api",
    "snapshot_ignore": "node_modules/\n",
    "minimum_isolation": "namespace",
    "services": {"web": "npm run dev", "worker": "make worker"},
    "secrets": {"setup": ["SETUP_KEY"], "agent": ["API_KEY", "OTHER_KEY"]},
    "agents": [],
    "agent_programs": ["codex@0.169.0"],
    "model_access": {"openai": {"secret": "OPENAI_API_KEY", "models": ["gpt-*"], "tools": True}},
    "agents_together": "one_at_a_time",
    "idle_seconds": 725,
    "stop_seconds": 7265,
    "ephemeral": True,
}


@pytest.fixture
def api(client, lena, token_of):
    headers = {"Authorization": f"Bearer {token_of(lena)}"}

    def post(path="environments", **wish):
        answer = client.post(f"/api/v1/{path}", json.dumps(wish), content_type="application/json", headers=headers)
        return answer.status_code, answer.json()

    post.get = lambda path: client.get(f"/api/v1/{path}", headers=headers).json()
    return post


def test_the_form_the_api_and_the_table_have_the_same_fields(workspace):
    columns = {field.name for field in Environment._meta.concrete_fields} - NOT_IN_THE_FORM
    assert set(NewEnvironment.model_fields) - {"name"} == columns
    data = {"driver": "sandbox", "idle_minutes": "5", "stop_hours": "5", "maintenance_minutes": "5"}
    form = EnvironmentForm(data, teams=[workspace.team], base=workspace.environment)
    assert form.is_valid()
    assert form.fields_of_version().keys() == columns == EVERY_FIELD.keys()


def test_every_field_goes_in_and_comes_out_over_the_api_and_stays_in_the_form(api, browser_of, lena, workspace):
    status, made = api(name="whole", **EVERY_FIELD)
    assert status == 201, made
    assert {name: made[name] for name in EVERY_FIELD} == EVERY_FIELD
    listed = next(each for each in api.get("environments")["environments"] if each["name"] == "whole")
    assert listed == made
    row = Environment.objects.get(name="whole")
    form = EnvironmentForm(teams=[workspace.team], base=row)
    shown = {name: value for name, value in form.initial.items() if value not in (None, False)}
    saved = browser_of(lena).post(f"/environments/{row.pk}/edit/", shown, follow=True)
    assert "Nothing was changed." in saved.text
    for name, value in EVERY_FIELD.items():
        assert api(name="whole", **{name: value})[1]["version"] == 1, name
    assert api(name="whole", services={}, idle_seconds=0)[1]["version"] == 2
    newest = Environment.objects.get(name="whole", version=2)
    assert (newest.services, newest.idle_seconds, newest.stop_seconds) == ({}, 0, 7265)
    assert newest.secrets == EVERY_FIELD["secrets"]


WRONG = [
    ("services", {"web": "one\ntwo"}),
    ("services", {"web": "one\x0btwo"}),
    ("services", {"a=b": "true"}),
    ("services", {"web": ""}),
    ("services", {"web": 5}),
    ("services", [["web", "true"]]),
    ("services", {f"s{n}": "true" for n in range(21)}),
    ("checks", {"tests": "one\nother = two"}),
    ("secrets", {"setup": ["not a name"]}),
    ("secrets", {"agent": ["PATH"]}),
    ("secrets", {"agent": ["A"] * 51}),
    ("secrets", {"agent": "KEY"}),
    ("secrets", {"maintenance": ["KEY"]}),
    ("idle_seconds", -1),
    ("idle_seconds", 604_801),
    ("idle_seconds", 1.5),
    ("idle_seconds", True),
    ("idle_seconds", "60"),
    ("idle_seconds", 10**30),
    ("stop_seconds", 365 * 86400 + 1),
    ("maintenance_seconds", 86401),
    ("limits", {"memory_bytes": 1}),
    ("limits", {"cpus": True}),
    ("limits", {"gpus": 1}),
    ("egress", {"agent": ["127.0.0.1"]}),
    ("variables", {"A B": "1"}),
    ("variables", {"A": "one\rtwo"}),
    ("variables", {"A": "one\n"}),
    ("working_directory", "../outside"),
    ("repository", "file:///etc"),
    ("repository", "https://1.1.1.1/a b"),
    ("image", "python:3.12"),  # of a sandbox
    ("build", {"args": {"A": "1"}}),
    ("minimum_isolation", "none at all"),
    ("driver", "submarine"),
    ("agents", ["nobody"]),
    ("agent_programs", ["codex@latest"]),
    ("model_access", {"somebody": {"secret": "KEY", "models": ["m"]}}),
    ("agents_together", "never"),
    ("submodules", "pulled"),
    ("lfs", "cloned"),
    ("sign_commits", "perhaps"),
    ("snapshot_ignore", "a\n" * 201),
    ("ephemeral", "perhaps"),
    ("setup", "echo\0"),
    ("setup", "x" * 100_001),
    ("ref", "main\0"),
    ("name", "a/b"),
    ("idle_minutes", 5),  # no field of the API: a misspelt one is named too
]


@pytest.mark.parametrize(("field", "value"), WRONG, ids=[f"{n}-{field}" for n, (field, _) in enumerate(WRONG)])
def test_a_wrong_value_is_refused_by_the_name_of_its_field(api, workspace, field, value):
    before = Environment.objects.count(), Event.objects.count()
    wish = {"name": "new", "repository": "https://1.1.1.1/team/shop.git", "idle_seconds": 60} | {field: value}
    status, said = api(**wish)
    assert (status, said.get("field")) == (422, field), said
    assert not said["detail"].startswith("wish."), said  # a name of our function, which no caller knows
    assert (Environment.objects.count(), Event.objects.count()) == before


def test_a_name_is_not_a_secret_and_a_variable_whichever_came_first(api, workspace):
    api(name="new", variables={"KEY": "1"})
    assert api(name="new", secrets={"agent": ["KEY"]})[1]["field"] == "secrets"
    api(name="other", secrets={"agent": ["KEY"]})
    assert api(name="other", variables={"KEY": "1"})[1]["field"] == "variables"


FILE = {
    "name": "Shop",
    "postCreateCommand": "make",
    "postStartCommand": ["make", "warm"],
    "containerEnv": {"MODE": "development"},
    "workspaceFolder": "/workspaces/shop/api",
    "hostRequirements": {"cpus": 2, "memory": "1gb", "storage": "2gb"},
    "secrets": {"API_KEY": {"description": "for tests"}},
}


def test_what_a_devcontainer_becomes_is_a_body_for_the_api(api, workspace):
    status, reading = api("environments/devcontainer", text=json.dumps(FILE))
    assert status == 200
    assert reading["fields"]["secrets"] == {"agent": ["API_KEY"]}
    status, made = api(name=reading["name"], **reading["fields"])
    assert status == 201, made
    assert {name: made[name] for name in reading["fields"]} == reading["fields"]
    image = devcontainer.read('{"image": "python:3.12"}').fields
    assert image.keys() <= NewEnvironment.model_fields.keys()


def test_manage_py_refuses_by_the_same_rules(tmp_path, workspace):
    file = tmp_path / "devcontainer.json"
    file.write_text(json.dumps(FILE))
    call_command("devcontainer", file, team=workspace.team.slug, save="shop", verbosity=0)
    assert Environment.objects.get(name="shop").secrets == {"agent": ["API_KEY"]}
    with pytest.raises(CommandError, match="A name has 1 to 80"):
        call_command("devcontainer", file, team=workspace.team.slug, save="a/b")
    file.write_text(json.dumps(FILE | {"containerEnv": {"A": "one\ntwo"}}))
    with pytest.raises(CommandError, match="The value of A must be one line"):
        call_command("devcontainer", file, team=workspace.team.slug, save="other")
    assert set(Environment.objects.values_list("name", flat=True)) == {workspace.environment.name, "shop"}
