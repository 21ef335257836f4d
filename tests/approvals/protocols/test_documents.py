"""JSON documents of agents: each write names the version that it replaces."""

import json

import pytest

from approvals.models import AgentDocument
from approvals.protocols import documents
from dashboard.keys import keyring
from dashboard.people.tokens import make_token
from workspaces.secrets import rotation

SECRET = "key-0123456789abcdef"


@pytest.fixture
def at(api, agent_token):
    """`at("PUT", {"body": …})`: the status and the answer, for the document `state`."""

    def call(method: str, body=None, *, name: str = "state", token: str = agent_token, query: str = ""):
        address = f"/api/v1/documents/{name}{query}"
        answer = api(token).generic(method, address, json.dumps(body) if body else "", content_type="application/json")
        return answer.status_code, json.loads(answer.content or "{}")

    return call


def test_a_document_is_written_read_and_deleted(at):
    assert at("GET")[0] == 404
    status, first = at("PUT", {"body": {"n": 1}})
    assert (status, first["bytes"]) == (200, 7)
    status, second = at("PUT", {"body": {"n": "é"}, "seen": first["version"]})
    assert status == 200
    assert second["version"] != first["version"]
    assert at("GET")[1]["body"] == {"n": "é"}
    assert at("DELETE", query=f"?seen={first['version']}")[0] == 409
    assert at("DELETE", query=f"?seen={second['version']}")[0] == 204
    assert not AgentDocument.objects.exists()


def test_a_write_to_another_version_changes_nothing(at):
    first = at("PUT", {"body": {"n": 1}})[1]
    at("PUT", {"body": {"n": 2}, "seen": first["version"]})
    for seen in (first["version"], ""):
        status, told = at("PUT", {"body": {"n": 3}, "seen": seen})
        assert (status, told["code"]) == (409, "document_changed")
    assert at("GET")[1]["body"] == {"n": 2}


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("..", {"body": {}}),
        ("a%20b", {"body": {}}),
        ("x" * 81, {"body": {}}),
        ("state", {"body": []}),
        ("state", {"body": {"n": "x" * documents.MAX_BYTES}}),
        ("state", {"body": {}, "seen": "first"}),
        ("state", {"body": {}, "more": 1}),
    ],
)
def test_an_invalid_document_is_refused(at, name, wish):
    assert at("PUT", wish, name=name)[0] in (404, 413, 422)
    assert not AgentDocument.objects.exists()


def test_each_agent_and_each_workspace_has_its_own(at, agent, team, workspace, lena):
    agent.bound_workspaces.add(workspace)
    inside = make_token(team, agent=agent, workspace=workspace)
    other = make_token(team, agent=team.agents.create(name="Other", created_at=agent.created_at))
    for number, token in enumerate((inside, other)):
        assert at("PUT", {"body": {"n": number}}, token=token)[0] == 200
    assert at("GET")[0] == 404
    assert at("GET", token=inside)[1]["body"] == {"n": 0}
    person = make_token(team, user=lena)
    told = at("GET", token=person), at("PUT", {"body": {}}, token=person), at("DELETE", token=person, query="?seen=x")
    assert [status for status, _ in told] == [403] * 3


def test_there_is_an_end_to_their_number(at, monkeypatch):
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 1)
    assert at("PUT", {"body": {}})[0] == 200
    assert at("PUT", {"body": {}}, name="second")[0] == 409


def test_a_document_is_encrypted_and_survives_a_rotation_of_keys(at):
    at("PUT", {"body": {"key": SECRET}})
    assert SECRET.encode() not in bytes(AgentDocument.objects.get().value)
    newest = keyring.load().newest.id
    rotation.rotate(say=lambda line: None)
    assert keyring.load().newest.id != newest
    assert at("GET")[1]["body"] == {"key": SECRET}
