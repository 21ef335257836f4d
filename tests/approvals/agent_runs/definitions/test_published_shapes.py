"""Agent files of each shape that Letta published: they come in over the API and go out equal, up to the stated size."""

import copy
import json

import pytest

from approvals.agent_runs.definitions import content
from approvals.models import AgentDefinition
from dashboard.processes import body_limits
from dashboard.web.api_base import LARGE_BODIES

TOOL = {"name": "look", "json_schema": {"name": "look", "parameters": {"type": "object"}}, "source_code": "x = 1"}
ONE = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Guide",
            "system": "You guide.",
            "block_ids": ["block-0"],
            "tool_ids": ["tool-0"],
            "tool_exec_environment_variables": {},
            "messages": [{"role": "user", "content": 'Say "hi"\n\\'}],
        }
    ],
    "blocks": [{"id": "block-0", "label": "persona", "value": "Kind.", "limit": 5000}],
    "tools": [{"id": "tool-0"} | TOOL],
    "mcp_servers": [],
}
SECOND = {"id": "agent-1", "name": "Sleeper", "system": "You sleep.", "block_ids": ["block-1"], "tool_ids": []}
TWO = ONE | {
    "agents": [*ONE["agents"], SECOND],
    "blocks": [*ONE["blocks"], {"id": "block-1", "label": "persona", "value": "Quiet."}],
    "skills": [],
}
# Before Letta 0.8: one agent, whose memory and tools are in it.
OLD = {
    "agent_type": "memgpt_agent",
    "name": "Old",
    "system": "You remember.",
    "core_memory": [{"label": "human", "value": "Ada", "limit": 5000, "metadata_": None}],
    "tools": [TOOL],
    "tool_exec_environment_variables": [],
    "messages": [],
    "version": "0.6.43",
}
SHAPES = {
    "one agent": (ONE, "Guide"),
    "JSON text in JSON text": (json.dumps(ONE), "Guide"),
    "before 0.8": (OLD, "Old"),
    "before 0.8, in JSON text": (json.dumps(OLD), "Old"),
}


@pytest.fixture
def take(api, lena, token_of):
    """`take(document)`: (status, answer) of the import of a document over the API."""
    client = api(token_of(lena))

    def send(document, **more):
        body = json.dumps({"document": document if isinstance(document, bytes) else json.dumps(document)} | more)
        answer = client.post("/api/v1/definitions/import", body, content_type="application/json")
        return answer.status_code, answer.json()

    send.out = lambda name: client.get(f"/api/v1/definitions/{name}/export?format=letta").json()
    return send


def unwrapped(document):
    return json.loads(document) if isinstance(document, str) else document


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_goes_out_as_it_came(take, team, shape):
    document, name = SHAPES[shape]
    status, made = take(document)
    assert (status, made.get("name")) == (201, name), made
    assert len(made["content"]["memory"]) == len(made["content"]["tools"]) == 1
    assert take.out(name) == unwrapped(document)


def test_a_text_is_unwrapped_once_and_no_other_text_is_a_document(take, team):
    for document in (json.dumps(json.dumps(ONE)), "ONE", json.dumps([ONE]), ""):
        status, said = take(document)
        assert (status, said["field"]) == (422, "document"), said
    assert not AgentDefinition.objects.exists()


def test_of_several_agents_one_is_chosen_by_name_or_id_and_the_file_stays_whole(take, team):
    status, said = take(TWO)
    assert (status, said["code"], said["field"]) == (422, "choose_agent", "agent")
    assert said["agents"] == [{"name": "Guide", "id": "agent-0"}, {"name": "Sleeper", "id": "agent-1"}]
    assert take(TWO, agent="Nobody")[1]["code"] == take(ONE, agent="Nobody")[1]["code"] == "choose_agent"
    assert not AgentDefinition.objects.exists()
    for wanted, name, system in (("Sleeper", "Sleeper", "You sleep."), ("agent-0", "Guide", "You guide.")):
        status, made = take(TWO, agent=wanted)
        assert (status, made["name"], made["content"]["system"]) == (201, name, system)
        assert take.out(name) == TWO


def test_a_change_reaches_the_chosen_agent_alone(take, team, api, lena, token_of):
    found = take(TWO, agent="Sleeper")[1]["content"]
    found["system"] = "You dream."
    found["memory"] = [found["memory"][0] | {"value": "Silent."}, {"label": "hours", "value": "22 to 6"}]
    found["tools"] = [{"name": "wake", "schema": {"type": "object"}, "approval": ""}]
    found["secrets"] = ["GH"]
    body = {"name": "Sleeper", "content": found}
    assert api(token_of(lena)).post("/api/v1/definitions", body, content_type="application/json").status_code == 201
    out, wanted = take.out("Sleeper"), copy.deepcopy(TWO)
    assert out["agents"][0] == wanted["agents"][0]
    assert out["blocks"][:2] == [wanted["blocks"][0], wanted["blocks"][1] | {"value": "Silent."}]
    assert out["agents"][1] == SECOND | {
        "system": "You dream.",
        "block_ids": ["block-1", "block-2"],
        "tool_ids": ["tool-1"],
        "tool_exec_environment_variables": {"GH": ""},
    }


def test_names_of_emptied_secrets_are_listed_whatever_form_they_have(take, team):
    document = copy.deepcopy(ONE)
    agent = document["agents"][0]
    agent["secrets"] = {"GH": "ghp_value", "not a name": "v"}
    agent["tool_exec_environment_variables"] = [{"key": "REGION", "value": "eu", "description": ""}]
    document["mcp_servers"] = [{"id": "mcp-0", "env": {"MCP_KEY": "mcp value"}, "custom_headers": {"X-Key": "head"}}]
    status, made = take(document)
    assert (status, made["content"]["secrets"]) == (201, ["GH", "MCP_KEY", "REGION"])
    wanted = copy.deepcopy(document)
    wanted["agents"][0]["secrets"] = {"GH": "", "not a name": ""}
    wanted["agents"][0]["tool_exec_environment_variables"][0]["value"] = ""
    wanted["mcp_servers"][0] |= {"env": {"MCP_KEY": ""}, "custom_headers": {"X-Key": ""}}
    assert take.out("Guide") == wanted
    kept = json.dumps(AgentDefinition.objects.get().document)
    assert not [value for value in ("ghp_value", 'eu"', "mcp value", 'head"') if value in kept]


def test_names_that_are_no_texts_and_lists_that_are_null_break_nothing(take, team, api, lena, token_of):
    assert take(ONE | {"tools": [TOOL | {"id": "tool-0", "name": ["look"]}]})[0] == 422
    rule = {"type": "requires_approval", "tool_name": []}
    assert take(ONE | {"agents": [ONE["agents"][0] | {"tool_rules": [rule]}]}, name="Ruled")[0] == 201
    found = take(ONE | {"blocks": None, "tools": None}, name="Bare")[1]["content"]
    found["memory"] = [{"label": "hours", "value": "22 to 6"}]
    body = {"name": "Bare", "content": found}
    assert api(token_of(lena)).post("/api/v1/definitions", body, content_type="application/json").status_code == 201
    assert take.out("Bare")["blocks"] == [{"label": "hours", "value": "22 to 6", "id": "block-0"}]


def test_a_secret_is_emptied_beside_a_row_that_has_none(take, team):
    document = copy.deepcopy(ONE)
    rows = [{"key": "GH", "value": "ghp_value"}, {"key": "LATER"}, "a word"]
    document["agents"][0]["tool_exec_environment_variables"] = rows
    status, made = take(document)
    assert (status, made["content"]["secrets"]) == (201, ["GH", "LATER"])
    assert "ghp_value" not in json.dumps(AgentDefinition.objects.get().document)


def test_a_document_may_be_as_large_as_the_schema_says(take, team, settings):
    empty = len(json.dumps(ONE | {"metadata": {"notes": ""}}))
    for sign, count in (('"', 2), ("é", 6)):  # bytes of each in the document, as json.dumps writes it
        notes = sign * ((content.MAX_BYTES - empty) // count)
        document = ONE | {"metadata": {"notes": notes}}
        assert take(document, name=f"n{count}")[0] == 201
    status, said = take(ONE | {"metadata": {"notes": "x" * content.MAX_BYTES}})
    assert (status, said["field"]) == (422, "document")
    status, said = take(ONE, name="x" * LARGE_BODIES["/api/v1/definitions/import"])
    assert status == 413


def test_the_web_server_lets_in_what_the_address_takes(take, lena, token_of, monkeypatch):
    assert take(ONE)[0] == 201  # the addresses are loaded now, as they are in the web server
    monkeypatch.setattr(body_limits, "close_old_connections", lambda: None)  # this test's own
    address = "/api/v1/definitions/import"
    limit = body_limits.limit_for("POST", address, {"authorization": f"Bearer {token_of(lena)}"})
    assert limit == LARGE_BODIES[address] > 6 * content.MAX_BYTES
