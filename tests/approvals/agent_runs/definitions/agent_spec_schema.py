"""Agent Spec's own package: `full` prints an agent as JSON and YAML, `check FILE` reads one, or fails."""

import json
import sys
from pathlib import Path

from pyagentspec import Agent, AgentSpecDeserializer, AgentSpecSerializer
from pyagentspec.llms import LlmGenerationConfig, OpenAiCompatibleConfig
from pyagentspec.property import Property, StringProperty
from pyagentspec.tools import ClientTool, RemoteTool


def full() -> Agent:
    settings = LlmGenerationConfig(temperature=0.2, max_tokens=900)
    url = "https://models.example.org/v1"
    model = OpenAiCompatibleConfig(name="a model", model_id="m-1", url=url, default_generation_parameters=settings)
    run = ClientTool(name="run", description="Run it", inputs=[StringProperty(title="cmd")], requires_confirmation=True)
    hosts = Property(json_schema={"title": "headers", "type": "string", "default": ""})
    look = RemoteTool(
        name="look",
        description="Look",
        inputs=[hosts],
        url="https://example.org/{{headers}}",
        http_method="GET",
        headers={"Authorization": "Bearer t0p"},
    )
    prompt = "You review {{what}}."
    return Agent(name="Spec", description="d", system_prompt=prompt, llm_config=model, tools=[run, look])


def told(agent: Agent) -> dict:
    tools = [[tool.name, tool.requires_confirmation, [each.title for each in tool.inputs]] for tool in agent.tools]
    return {"name": agent.name, "system": agent.system_prompt, "model": agent.llm_config.model_id, "tools": tools}


if sys.argv[1] == "full":
    agent = full()
    print(json.dumps([AgentSpecSerializer().to_json(agent), AgentSpecSerializer().to_yaml(agent)]))
else:
    print(json.dumps(told(AgentSpecDeserializer().from_json(Path(sys.argv[2]).read_text()))))
