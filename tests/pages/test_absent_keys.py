"""A key whose workspace is in the trash, was deleted for good or never was says which, at every address."""

import json
import re
from datetime import timedelta
from html import unescape

import pytest

from approvals.models import Action
from dashboard.database import clock
from dashboard.people.tokens import make_token
from tests.support.every_operation import body_of, names, operations
from workspaces.models import State, Workspace
from workspaces.pages.urls import AT, urlpatterns

from .conftest import make_workspace

# What stands for the other parts of an address; the key is looked at first.
PARTS = {"n": "1", "path": "x", "port": "3000", "seq": "1", "measure": "awake_hours", "name": "x"}
SOME_ID = "00000000-0000-0000-0000-000000000000"
UNTRASH = "POST /workspaces/{key}/untrash"  # it acts on what is in the trash
OF_A_KEY = sorted(name for name in names() if "{key}" in name and name != UNTRASH)


@pytest.fixture
def keys(team, other_team, agent, other_agent, workspace):
    """{key: (status of the API, code)} of keys that nobody works under, seen from the team payments."""
    now = clock.now()
    thrown = {"trashed_at": now, "purge_at": now + timedelta(days=30)}
    make_workspace(team, agent, "thrown", **thrown)
    make_workspace(team, agent, "purged", **thrown, purged_at=now)
    # A key that was purged, used again and thrown away can be restored.
    make_workspace(team, agent, "twice", **thrown, purged_at=now)
    make_workspace(team, agent, "twice", **thrown)
    make_workspace(other_team, other_agent, "theirs")
    make_workspace(other_team, other_agent, "their-thrown", **thrown)
    make_workspace(other_team, other_agent, "their-purged", **thrown, purged_at=now)
    Workspace.objects.filter(purged_at=now).update(created_at=now - timedelta(days=60))
    unknown = (404, "workspace_not_found")
    in_trash, purged = (404, "workspace_in_trash"), (410, "workspace_purged")
    told = {"thrown": in_trash, "purged": purged, "twice": in_trash}
    return told | dict.fromkeys(("never-was", "theirs", "their-thrown", "their-purged"), unknown)


def _send(client, name: str, key: str, **more):
    method, _, path = name.partition(" ")
    values = PARTS | {"key": key} | more
    path = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], SOME_ID), path)
    parameters = operations()[name].get("parameters", [])
    query = {each["name"]: "1" for each in parameters if each["in"] == "query" and each["required"]}
    body = body_of(operations()[name])
    data = b"" if body is None else json.dumps(body).encode()
    return client.generic(method, f"/api/v1{path}", data, "application/json", query_params=query)


def test_the_names_of_operations_are_those_of_the_document():
    assert names() == operations().keys()


def test_each_operation_says_which(api, alice, token_of, keys):
    client = api(token_of(alice))
    for name in OF_A_KEY:
        for key in keys if name == "GET /workspaces/{key}" else ("thrown", "purged"):
            expected, answer = keys[key], _send(client, name, key)
            told = answer.json()
            assert (answer.status_code, told.get("code")) == expected, (name, key, told)
            assert ("in_trash_until" in told) == (expected[1] == "workspace_in_trash")
            assert ("gone_at" in told) == (expected[1] == "workspace_purged")


def test_only_what_is_in_the_trash_is_taken_out_of_it(api, alice, token_of, keys):
    client = api(token_of(alice))
    told = {key: _send(client, UNTRASH, key) for key in (*keys, "repo-task-1")}
    codes = {key: (answer.status_code, answer.json().get("code")) for key, answer in told.items()}
    back = {"thrown": (202, None), "twice": (202, None), "repo-task-1": (409, "workspace_not_in_trash")}
    assert codes == keys | back
    assert Workspace.objects.get(key="thrown").state == State.STOPPED


IN_BODIES = [
    ("POST /actions", {"tool": "Bash", "arguments": {"command": "ls"}}, "workspace", {"workspace_in_trash": 409}),
    ("POST /agent-runs", {}, "workspace", {}),
    ("POST /retention/holds", {"reason": "walked"}, "workspace", {}),
    (
        "POST /schedules",
        {"name": "nightly", "cron": "0 3 * * *", "command": "true"},
        "workspace",
        dict.fromkeys(("workspace_in_trash", "workspace_purged", "workspace_not_found"), 422),
    ),
]


@pytest.mark.parametrize(("name", "wish", "field", "other"), IN_BODIES, ids=[row[0] for row in IN_BODIES])
def test_a_key_in_a_body_is_told_the_same(api, alice, agent, token_of, keys, name, wish, field, other):
    client = api(make_token(agent.team, agent=agent) if name == "POST /actions" else token_of(alice))
    for key, (status, code) in keys.items():
        body = body_of(operations()[name]) | wish | {field: key}
        answer = client.post(f"/api/v1{name.partition(' ')[2]}", body, content_type="application/json")
        assert answer.status_code == other.get(code, status), answer.json()
        assert answer.json()["code"] == code
    assert not Action.objects.exists()


def test_a_new_workspace_under_such_a_key_is_told_the_same(api, alice, token_of, keys):
    client = api(token_of(alice))
    for key, (_, code) in keys.items():
        answer = client.post("/api/v1/workspaces", {"key": key, "driver": "sandbox"}, content_type="application/json")
        expected = {"workspace_in_trash": 409, "workspace_purged": 410}.get(code, 201)
        assert (answer.status_code, answer.json().get("code")) == (expected, code if expected != 201 else None)


PAGES = [str(each.pattern) for each in urlpatterns if str(each.pattern).startswith(AT)]


def test_each_page_of_a_workspace_says_which(browser_of, alice, keys):
    client = browser_of(alice)
    for route in PAGES:
        path = re.sub(r"<.*?>", _part, route.replace(AT, "/w/payments/purged/"))
        answer = client.get(path)
        answer = client.post(path) if answer.status_code == 405 else answer
        assert (answer.status_code, "purged was deleted" in unescape(answer.text)) == (410, True), path
    assert client.get("/w/other/their-purged/").status_code == client.get("/w/payments/never-was/").status_code == 404


def _part(found) -> str:
    return {"<uuid": SOME_ID, "<int": "1"}.get(found[0].partition(":")[0], "x")
