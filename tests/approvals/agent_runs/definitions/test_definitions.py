"""Definitions of agents: versions, what is refused, agent files in and out, and runs that begin from one."""

import copy
import json

import pytest

from approvals import agent_runs
from approvals.agent_runs import definitions
from approvals.agent_runs.definitions import content
from approvals.models import AgentDefinition
from dashboard.models import Event
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from tests.approvals.agent_runs.steps import WISH, follow
from workspaces.models import Command, Operation, Phase

REVIEWER = {
    "description": "Reviews",
    "system": "You review code.",
    "memory": [{"label": "persona", "value": "Terse.", "limit": 500}, {"label": "human", "value": ""}],
    "tools": [{"name": "search", "description": "Search", "schema": {"type": "object"}, "approval": "ask"}],
    "model": {"provider": "anthropic", "name": "claude-x", "settings": {"temperature": 0.2}},
    "secrets": ["SEARCH_KEY"],
}
# As Letta 0.16 writes one, with what Handrail does not know.
AGENT_FILE = {
    "agents": [
        {
            "id": "agent-0",
            "name": "Support",
            "system": "You help.",
            "description": None,
            "agent_type": "letta_v1_agent",
            "block_ids": ["block-0", "block-1"],
            "tool_ids": ["tool-0", "tool-1"],
            "tool_rules": [{"type": "requires_approval", "tool_name": "send"}],
            "llm_config": {
                "model": "gpt-5",
                "model_endpoint_type": "openai",
                "context_window": 64000,
                "put_inner": True,
            },
            "tool_exec_environment_variables": {"MAIL_PASSWORD": "hunter2", "REGION": "eu"},
            "messages": [{"id": "message-0", "role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "in_context_message_ids": ["message-0"],
            "an_unknown_field": {"nested": [1, 2.5, None]},
        }
    ],
    "groups": [],
    "blocks": [
        {"id": "block-0", "label": "persona", "value": "Kind.", "limit": 5000, "read_only": True, "metadata": {}},
        {"id": "block-1", "label": "human", "value": "Ada", "limit": 100, "tags": ["a"]},
    ],
    "files": [],
    "sources": [],
    "tools": [
        {
            "id": "tool-0",
            "name": "send",
            "json_schema": {"name": "send", "parameters": {"type": "object"}},
            "source_code": "x",
        },
        {"id": "tool-1", "name": "look", "json_schema": {"name": "look"}, "default_requires_approval": False},
    ],
    "mcp_servers": [{"id": "mcp-0", "server_type": "sse", "token": "t0ken", "custom_headers": {"X-Key": "Bearer x"}}],
    "metadata": {"revision_id": "r1"},
    "created_at": "2026-11-01T00:00:00Z",
}


def nulled(document: dict) -> dict:
    found = copy.deepcopy(document)
    found["agents"][0]["tool_exec_environment_variables"] = {"MAIL_PASSWORD": "", "REGION": ""}
    found["mcp_servers"][0] |= {"token": "", "custom_headers": {"X-Key": ""}}
    return found


def take(team, person, document=None, **more) -> AgentDefinition:
    text = json.dumps(document or AGENT_FILE).encode()
    return definitions.import_document(team, text, caller=caller_of(person), **more)


# Versions -------------------------------------------------------------------------------------------------------------


def test_a_change_is_the_next_version_and_no_change_none(team, lena):
    caller = caller_of(lena)
    first = definitions.save(team, "Reviewer", REVIEWER, caller=caller)
    assert definitions.save(team, "Reviewer", REVIEWER, caller=caller) == first
    second = definitions.save(team, "Reviewer", REVIEWER | {"system": "Be kind."}, caller=caller, comment="kinder")
    assert (first.version, second.version, second.comment) == (1, 2, "kinder")
    assert definitions.compare(first, second) == [{"field": "system", "was": "You review code.", "now": "Be kind."}]
    assert [each.version for each in definitions.newest(caller)] == [2]
    assert definitions.find(caller, "Reviewer", 1) == first
    data = Event.objects.filter(verb="agent_definition.saved").order_by("seq").last().data
    assert data == {"name": "Reviewer", "version": 2, "changed": ["system"]}


def test_a_change_of_an_older_version_is_refused(team, lena):
    caller = caller_of(lena)
    definitions.save(team, "Reviewer", REVIEWER, caller=caller)
    definitions.save(team, "Reviewer", REVIEWER | {"system": "Two."}, caller=caller, base=1)
    with pytest.raises(Problem) as refused:
        definitions.save(team, "Reviewer", REVIEWER | {"system": "Three."}, caller=caller, base=1)
    assert refused.value.status == 409


def test_a_tool_has_the_digest_of_its_schema(team, lena):
    made = definitions.save(team, "Reviewer", REVIEWER, caller=caller_of(lena))
    tool = made.content["tools"][0]
    assert len(tool["schema_sha256"]) == 64
    other = REVIEWER | {"tools": [REVIEWER["tools"][0] | {"schema": {"type": "object", "title": "x"}}]}
    changed = definitions.save(team, "Reviewer", other, caller=caller_of(lena))
    assert changed.content["tools"][0]["schema_sha256"] != tool["schema_sha256"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"system": 5}, "system"),
        ({"memory": [{"value": "x"}]}, "memory"),
        ({"memory": [{"label": "a"}, {"label": "a"}]}, "memory"),
        ({"memory": [{"label": "a", "limit": 0}]}, "memory"),
        ({"tools": [{}]}, "tools"),
        ({"tools": [{"name": "x", "schema": "no"}]}, "tools"),
        ({"tools": [{"name": "x", "approval": "sometimes"}]}, "tools"),
        ({"model": []}, "model"),
        ({"variables": {"A": 1}}, "variables"),
        ({"secrets": ["not a name"]}, "secrets"),
        ({"source_code": "import os"}, "source_code"),
    ],
)
def test_an_invalid_field_is_named(team, lena, wrong, field):
    with pytest.raises(Problem) as refused:
        definitions.save(team, "Reviewer", REVIEWER | wrong, caller=caller_of(lena))
    assert (refused.value.status, refused.value.extra["field"]) == (422, field)
    assert not AgentDefinition.objects.exists()


# Agent files ----------------------------------------------------------------------------------------------------------


def test_an_agent_file_comes_in_and_leaves_as_it_came_without_secrets(team, lena):
    made = take(team, lena)
    assert (made.name, made.origin) == ("Support", "letta")
    assert definitions.export(made, "letta") == nulled(AGENT_FILE)
    kept = json.dumps([made.document, made.content])
    for value in ("hunter2", "t0ken", "Bearer"):
        assert value not in kept


def test_what_it_says_is_shown_in_the_fields_of_a_definition(team, lena):
    found = take(team, lena).content
    assert found["system"] == "You help."
    assert [(block["label"], block["value"], block["read_only"]) for block in found["memory"]] == [
        ("persona", "Kind.", True),
        ("human", "Ada", False),
    ]
    assert [(tool["name"], tool["approval"]) for tool in found["tools"]] == [("send", "ask"), ("look", "")]
    assert found["model"] == {"provider": "openai", "name": "gpt-5", "settings": {"context_window": 64000}}
    assert found["secrets"] == ["MAIL_PASSWORD", "REGION"]


def test_a_change_is_in_the_file_and_the_rest_of_it_stays(team, lena):
    made = take(team, lena)
    changed = copy.deepcopy(made.content)
    changed["system"] = "You help at night."
    changed["memory"][1]["value"] = "Grace"
    changed["memory"].append({"label": "hours", "value": "22 to 6"})
    changed["tools"].append({"name": "wake", "schema": {"type": "object"}, "approval": "ask"})
    changed["model"]["name"] = "gpt-5.5"
    saved = definitions.save(team, "Support", changed, caller=caller_of(lena))
    wanted = nulled(AGENT_FILE)
    agent = wanted["agents"][0]
    agent["system"], agent["llm_config"]["model"] = "You help at night.", "gpt-5.5"
    agent["block_ids"].append("block-2")
    agent["tool_ids"].append("tool-2")
    wanted["blocks"][1]["value"] = "Grace"
    wanted["blocks"].append({"id": "block-2", "label": "hours", "value": "22 to 6"})
    schema = {"name": "wake", "description": "", "parameters": {"type": "object"}}
    tool = {"id": "tool-2", "name": "wake", "description": "", "json_schema": schema, "tool_type": "custom"}
    wanted["tools"].append(tool | {"default_requires_approval": True})
    assert definitions.export(saved, "letta") == wanted


def test_an_exported_definition_imports_as_it_was(team, other_team, lena, mallory):
    made = definitions.save(team, "Reviewer", REVIEWER, caller=caller_of(lena))
    for form in ("handrail", "letta"):
        document = definitions.export(made, form)
        again = take(other_team, mallory, document, name=f"From {form}").content
        again["model"]["settings"].pop("context_window", None)  # Letta wants one
        assert again == made.content, form


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"agents": []}',
        b'{"agents": [{}, {}]}',
        b'{"agents": [1]}',
        b'{"agents": [{"name": "a", "system": 1}]}',
        b'{"agents": [{"name": "a", "name": "b"}]}',
        b'{"format": "handrail", "name": "x", "content": 1}',
        b'{"format": "handrail", "content": {}}',
        b"[" * 5000,
        b'{"agents": [{"name": "a", "x": ' + b"[" * 500 + b"]" * 500 + b"}]}",
    ],
)
def test_an_invalid_document_is_refused_and_stores_nothing(team, lena, text):
    with pytest.raises(Problem) as refused:
        definitions.import_document(team, text, caller=caller_of(lena))
    assert refused.value.status == 422
    assert not AgentDefinition.objects.exists()


# Over HTTP and on pages -----------------------------------------------------------------------------------------------


def test_the_api_saves_compares_imports_and_exports(api, token_of, lena, vera):
    def call(method, path, person=lena, body=None):
        how = {} if body is None else {"data": body, "content_type": "application/json"}
        answer = getattr(api(token_of(person)), method)(f"/api/v1{path}", **how)
        return answer.status_code, answer.json()

    assert call("post", "/definitions", body={"name": "Reviewer", "content": REVIEWER})[0] == 201
    assert call("post", "/definitions", vera, {"name": "Other", "content": {}})[0] == 403
    changed = {"name": "Reviewer", "content": REVIEWER | {"system": "New."}, "comment": "newer"}
    assert call("post", "/definitions", body=changed)[1]["version"] == 2
    assert call("get", "/definitions/Reviewer/comparison?old=1", vera)[1]["changes"][0]["field"] == "system"
    assert [each["version"] for each in call("get", "/definitions/Reviewer/versions", vera)[1]["versions"]] == [2, 1]
    document = call("get", "/definitions/Reviewer/export?format=letta&version=1", vera)[1]
    assert document["agents"][0]["system"] == "You review code."
    status, made = call("post", "/definitions/import", body={"document": json.dumps(AGENT_FILE), "name": "Mine"})
    assert (status, made["name"], made["origin"]) == (201, "Mine", "letta")
    assert call("get", "/definitions/None", vera)[0] == 404
    assert call("get", "/definitions/Reviewer/export?format=toml", vera)[0] == 422


def test_pages_show_import_change_and_export(browser_of, lena, vera):
    client = browser_of(lena)
    assert "No definitions yet" in client.get("/definitions/").content.decode()
    sent = client.post("/definitions/import/", {"team": "payments", "document": json.dumps(AGENT_FILE), "name": ""})
    assert sent.headers["Location"] == "/definitions/Support/"
    page = client.get("/definitions/Support/").content.decode()
    assert "You help." in page
    assert "MAIL_PASSWORD" in page
    assert "hunter2" not in page
    form = {"content": "{", "comment": "", "base": "1"}
    assert "The content is not JSON" in client.post("/definitions/Support/edit/", form).content.decode()
    changed = AgentDefinition.objects.get().content | {"system": "Anew."}
    client.post("/definitions/Support/edit/", form | {"content": json.dumps(changed), "comment": "why"})
    assert "Changed since version 1" in client.get("/definitions/Support/").content.decode()
    file = browser_of(vera).get("/definitions/Support/export/letta/?version=1")
    assert json.loads(b"".join(file.streaming_content)) == nulled(AGENT_FILE)
    assert browser_of(vera).post("/definitions/Support/edit/", form).status_code == 403
    assert browser_of(vera).get("/definitions/import/").status_code == 403


def test_another_team_finds_none(browser_of, team, lena, mallory):
    take(team, lena)
    assert browser_of(mallory).get("/definitions/Support/").status_code == 404
    assert "Support" not in browser_of(mallory).get("/definitions/").content.decode()


# Runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_begins_with_the_prompt_and_the_memory(workspace, team, lena):
    definitions.save(team, "Reviewer", REVIEWER, caller=caller_of(lena))
    with pytest.raises(Problem) as refused:
        agent_runs.start(workspace, WISH | {"definition": "None"}, caller=caller_of(lena))
    assert refused.value.extra["field"] == "definition"
    run = agent_runs.start(workspace, WISH | {"definition": "Reviewer"}, caller=caller_of(lena))
    assert (str(run.definition), run.model) == ("Reviewer v1", "claude-x")
    follow()
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": False})
    follow()
    argv = Command.objects.get().argv
    instructions = argv[argv.index("--append-system-prompt") + 1]
    assert instructions.startswith("You review code.\n\npersona:\nTerse.\n\nYou work alone")
    assert argv[-1] == "Make it green."


def test_an_empty_definition_says_nothing():
    assert content.prompt_of(content.checked({})) == ""
