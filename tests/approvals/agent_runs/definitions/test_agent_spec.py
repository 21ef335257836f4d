"""Agent Spec documents with the specification's own package, and documents that are not to be trusted."""

import copy
import json
import subprocess
from pathlib import Path

import pytest

from approvals.agent_runs import definitions
from approvals.agent_runs.definitions import secret_values
from approvals.models import AgentDefinition
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from tests.support import CHECKOUT

from .test_definitions import REVIEWER

PROGRAM = Path(__file__).with_name("agent_spec_schema.py")
SPEC = {
    "component_type": "Agent",
    "id": "a",
    "name": "Spec",
    "system_prompt": "You help.",
    "llm_config": {"$component_ref": "m"},
    "tools": [{"$component_ref": "t"}, {"component_type": "ClientTool", "id": "u", "name": "look", "inputs": []}],
    "of_tomorrow": {"a": [1, None]},
    "metadata": {"theirs": 1, "handrail": {"memory": [{"label": "persona", "value": "Terse."}], "secrets": ["KEY"]}},
    "$referenced_components": {
        "m": {"component_type": "OpenAiConfig", "id": "m", "name": "m", "model_id": "gpt-5", "api_key": "sk-1"},
        "t": {
            "component_type": "ServerTool",
            "id": "t",
            "name": "run",
            "description": "Run it",
            "inputs": [{"title": "cmd", "type": "string"}, {"title": "headers", "type": "object", "default": {"a": 1}}],
            "requires_confirmation": True,
        },
    },
    "agentspec_version": "25.4.1",
}


@pytest.fixture(scope="session")
def spec(require):
    """`spec("check", file)`: run agent_spec_schema.py, which must not fail; what it prints, parsed."""
    python = CHECKOUT / ".venv-letta/bin/python"
    if not python.exists():
        require("agents", "there is no .venv-letta; `deploy/letta.sh` makes it")

    def run(*words):
        done = subprocess.run([python, "-W", "ignore", PROGRAM, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def take(team, person, document) -> AgentDefinition:
    text = document if isinstance(document, str) else json.dumps(document)
    return definitions.import_document(team, text.encode(), caller=caller_of(person))


def test_yaml_may_begin_with_a_quoted_name(team, lena):
    text = b'"component_type": "Agent"\n"name": "Quoted"\n"system_prompt": "You help."\n"agentspec_version": "25.4.1"\n'
    made = definitions.import_document(team, text, caller=caller_of(lena))
    assert (made.name, made.content["system"]) == ("Quoted", "You help.")


def test_an_agent_of_the_specifications_package_comes_back_the_same_from_json_and_yaml(spec, team, lena, tmp_path):
    as_json, as_yaml = spec("full")
    for text in (as_json, as_yaml):
        made = take(team, lena, text)
        assert (made.name, made.origin) == ("Spec", "agent-spec")
        assert made.content["model"] == {
            "provider": "openai-compatible",
            "name": "m-1",
            "settings": {"max_tokens": 900, "temperature": 0.2},
        }
        assert [(tool["name"], tool["approval"]) for tool in made.content["tools"]] == [("run", "ask"), ("look", "")]
        exported = definitions.export(made, "agent-spec")
        assert exported == secret_values.emptied(json.loads(as_json)) | {"id": exported["id"]}
        assert exported["tools"][1]["headers"] == {"Authorization": ""}
        file = tmp_path / "spec.json"
        file.write_text(json.dumps(exported))
        assert spec("check", file) == {
            "name": "Spec",
            "system": "You review {{what}}.",
            "model": "m-1",
            "tools": [["run", True, ["cmd"]], ["look", False, ["headers"]]],
        }


def test_a_definition_that_was_made_here_is_one_that_the_package_reads(spec, team, lena, tmp_path):
    made = definitions.save(team, "Reviewer", REVIEWER, caller=caller_of(lena))
    exported = definitions.export(made, "agent-spec")
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(exported))
    told = spec("check", file)
    tools = [["search", True, []]]
    assert told == {"name": "Reviewer", "system": "You review code.", "model": "claude-x", "tools": tools}
    back = take(team, lena, exported)
    assert back.content == made.content | {"tools": back.content["tools"]}
    assert back.content["tools"][0]["approval"] == "ask"


def test_references_are_followed_and_what_is_not_known_survives(team, lena):
    made = take(team, lena, SPEC)
    assert made.content["model"]["name"] == "gpt-5"
    assert made.content["secrets"] == ["KEY"]
    assert [block["label"] for block in made.content["memory"]] == ["persona"]
    tool = made.content["tools"][0]
    properties = {"cmd": {"type": "string"}, "headers": {"type": "object", "default": {"a": 1}}}
    assert tool["schema"] == {"type": "object", "properties": properties, "required": ["cmd"]}
    nulled = copy.deepcopy(SPEC)
    nulled["$referenced_components"]["m"]["api_key"] = ""
    exported = definitions.export(made, "agent-spec")
    assert {name: exported[name] for name in exported if name != "metadata"} == {
        name: nulled[name] for name in nulled if name != "metadata"
    }
    assert exported["metadata"]["theirs"] == 1

    changed = made.content | {"system": "Be kind.", "tools": made.content["tools"][:1]}
    changed["tools"][0] |= {"approval": ""}
    second = definitions.save(team, "Spec", changed, caller=caller_of(lena))
    out = definitions.export(second, "agent-spec")
    assert (out["system_prompt"], out["tools"]) == ("Be kind.", [{"$component_ref": "t"}])
    assert out["$referenced_components"]["t"]["requires_confirmation"] is False
    assert out["of_tomorrow"] == SPEC["of_tomorrow"]


GENERAL = {
    "component_type": "LlmConfig",
    "id": "g",
    "name": "m",
    "description": None,
    "metadata": {},
    "model_id": "claude",
}
GENERAL |= {"provider": "anthropic", "api_provider": "anthropic", "api_type": "messages", "url": "https://x.example/v1"}
OTHER_MODELS = [
    GENERAL,
    GENERAL | {"provider": None},
    GENERAL | {"api_provider": None},
    GENERAL | {"provider": None, "api_provider": None},
    {"component_type": "VllmConfig", "id": "v", "name": "v", "url": "http://x.example", "model_id": "claude"},
    {
        "component_type": "OpenAiCompatibleConfig",
        "id": "v",
        "name": "v",
        "url": "http://x.example",
        "model_id": "claude",
    },
    {"component_type": "OfTomorrow", "id": "v", "name": "v", "where": {"is": "it"}, "model_id": "claude"},
]


@pytest.mark.parametrize("referenced", [False, True])
@pytest.mark.parametrize("model", OTHER_MODELS)
def test_another_name_of_a_model_leaves_its_provider_and_address(team, lena, model, referenced):
    document = SPEC | {"agentspec_version": "26.1.2", "metadata": {}}
    document["llm_config"] = {"$component_ref": "m"} if referenced else model
    document["$referenced_components"] = SPEC["$referenced_components"] | {"m": model}
    made = take(team, lena, document)
    assert definitions.export(made, "agent-spec") == document
    provider = made.content["model"]["provider"]
    wanted = {"VllmConfig": "vllm", "OpenAiCompatibleConfig": "openai-compatible"}
    is_named = model.get("provider") or model.get("api_provider")
    assert provider == wanted.get(model["component_type"], "anthropic" if is_named else "")

    renamed = made.content | {"model": made.content["model"] | {"name": "claude-2"}}
    out = definitions.export(definitions.save(team, made.name, renamed, caller=caller_of(lena)), "agent-spec")
    after = model | {"model_id": "claude-2"}
    assert (out["$referenced_components"]["m"] if referenced else out["llm_config"]) == after
    assert out["metadata"] == {}


def test_another_provider_takes_the_address_of_the_former_with_it(team, lena):
    made = take(team, lena, SPEC | {"agentspec_version": "26.1.2", "metadata": {}, "llm_config": GENERAL})
    changed = made.content | {"model": {"provider": "mistral", "name": "large", "settings": {}}}
    saved = definitions.save(team, made.name, changed, caller=caller_of(lena))
    out = definitions.export(saved, "agent-spec")
    named = {"provider": "mistral", "api_provider": "mistral", "api_type": None, "url": None, "model_id": "large"}
    assert out["llm_config"] == GENERAL | named
    assert take(team, lena, out).content["model"] == changed["model"]


@pytest.mark.parametrize(
    "text",
    [
        "component_type: Agent\nname: &a x\ndescription: *a\n",
        "component_type: Agent\nname: x\nname: y\n",
        "component_type: Agent\nname: !!python/object/apply:os.system [id]\n",
        "component_type: Agent\nname: x\nnumber: .nan\n",
        "component_type: Flow\nname: x\nagentspec_version: 25.4.1\n",
        "- component_type: Agent\n",
        "[" * 3000,
        "a: " * 3000,
    ],
)
def test_what_is_no_plain_document_of_an_agent_is_refused(team, lena, text):
    with pytest.raises(Problem) as refused:
        take(team, lena, text)
    assert (refused.value.status, refused.value.extra["field"]) == (422, "document")
    assert not AgentDefinition.objects.exists()


def test_a_date_stays_the_text_that_it_is(team, lena):
    made = take(team, lena, "component_type: Agent\nname: x\nsystem_prompt: 2026-11-01\n")
    assert made.content["system"] == "2026-11-01"
