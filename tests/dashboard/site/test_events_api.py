"""The events of one workspace over the API, and query parameters that an operation does not have."""

import re
import uuid

import pytest
from django.utils import timezone

from dashboard.api import api as described
from dashboard.models import Actor, Event
from workspaces.models import Environment, Workspace

pytestmark = pytest.mark.django_db
EVENTS = "/api/v1/events"


@pytest.fixture
def workspaces(team):
    """`workspaces("a", …)`: a workspace of the team with each key."""
    environment = Environment.objects.create(team=team, name="default")

    def make(*keys, **more):
        return [Workspace.objects.create(team=team, key=key, environment=environment, **more) for key in keys]

    return make


def happened(workspace, verb: str):
    Event.objects.record(workspace.team, actor=Actor.system("tests"), verb=verb, subject=workspace, workspace=workspace)


@pytest.fixture
def events(api, token_of):
    """`events(person, "?…")`: (status, the verbs that the person got, the cursor)."""

    def get(who, query=""):
        answer = api(token_of(who)).get(EVENTS + query)
        told = answer.json()
        return answer.status_code, [event["verb"] for event in told.get("events", [])], told.get("cursor")

    return get


def test_the_events_of_one_workspace_behind_more_of_others_than_a_page_has(workspaces, events, bob):
    mine, other = workspaces("mine", "other")
    happened(mine, "workspace.created")
    for _ in range(205):
        happened(other, "workspace.described")
    happened(mine, "workspace.archived")
    assert events(bob)[1].count("workspace.archived") == 0
    for name in ("mine", mine.pk):
        assert events(bob, f"?workspace={name}") == (200, ["workspace.created", "workspace.archived"], 207)
    assert events(bob, "?workspace=mine&limit=1") == (200, ["workspace.created"], 1)
    assert events(bob, "?workspace=mine&after=1") == (200, ["workspace.archived"], 207)
    assert events(bob, "?workspace=mine&after=207") == (200, [], 207)


def test_a_key_names_the_newest_workspace_that_has_it_and_an_id_each(workspaces, events, bob):
    [gone] = workspaces("again", trashed_at=timezone.now(), purged_at=timezone.now())
    happened(gone, "workspace.purged")
    assert events(bob, "?workspace=again")[1] == ["workspace.purged"]
    [new] = workspaces("again")
    happened(new, "workspace.created")
    assert events(bob, "?workspace=again")[1] == ["workspace.created"]
    assert events(bob, f"?workspace={gone.pk}")[1] == ["workspace.purged"]


def test_events_of_a_foreign_or_unknown_workspace_are_404(workspaces, events, bob, mallory):
    [mine] = workspaces("mine")
    happened(mine, "workspace.created")
    for name in ("mine", mine.pk):
        assert events(mallory, f"?workspace={name}")[0] == 404, name
    for name in ("none", uuid.uuid4(), "a%00b"):
        assert events(bob, f"?workspace={name}")[0] == 404, name


# Query parameters that an operation does not have ---------------------------------------------------------------------


def test_each_operation_refuses_a_query_parameter_that_it_does_not_have(api, token_of, lena):
    client = api(token_of(lena))
    for path, operations in described.get_openapi_schema()["paths"].items():
        for method in operations:
            sent = {} if method == "get" else {"content_type": "application/json"}
            answer = getattr(client, method)(re.sub(r"\{\w+\}", "1", path) + "?wiat=25", **sent)
            told = (answer.status_code, answer.json()["detail"])
            assert told == (422, "unknown parameter: wiat"), (method, path)


def test_unknown_filters_are_named_to_members_only(api, token_of, bob):
    answer = api(token_of(bob)).get(f"{EVENTS}?wiat=25&after=0&filter[a]=b")
    assert answer.json()["detail"] == "unknown parameter: wiat, filter[a]"
    assert api("hr_wrong").get(f"{EVENTS}?wiat=25").status_code == 401
