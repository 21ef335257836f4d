"""Open Agent Spec: an agent's component, as JSON or YAML, read into a definition and written again.

As with Letta's files a document is kept as it came, without the values of secrets, and what the definition says is put
into it. What Agent Spec has no field for (memory, variables, environment, names of secrets) is in `metadata.handrail`.
"""

import copy
import uuid

from dashboard.problems import invalid

NAME = "agent-spec"
VERSION = "25.4.2"  # the first with `requires_confirmation`; of documents that are made here
AGENT = "Agent"
OURS = "handrail"  # in `metadata`
KEPT = ("memory", "variables", "environment", "secrets")
# {component of a model: the provider in a definition}
PROVIDERS = {
    "OpenAiConfig": "openai",
    "OpenAiCompatibleConfig": "openai-compatible",
    "OllamaConfig": "ollama",
    "VllmConfig": "vllm",
    "GeminiConfig": "gemini",
    "OciGenAiConfig": "oci",
}
GENERAL = "LlmConfig"  # from 26.1.2 on a component itself: its fields name the provider
COMPONENTS = {provider: component for component, provider in PROVIDERS.items()}
NAMESPACE = uuid.UUID("8f5f5a3a-6f0e-4a39-9a6b-0a6c1e1f7d52")


def is_document(document: dict) -> bool:
    return "agentspec_version" in document or document.get("component_type") == AGENT


def read(document: dict) -> tuple[str, dict]:
    """Return (name, content) of a document whose root is an agent. Problem 422."""
    if document.get("component_type") != AGENT:
        raise invalid("The root of this Agent Spec document is not an Agent.", field="document")
    model = _component(document, document.get("llm_config"))
    own = _ours(document)
    settings = model.get("default_generation_parameters")
    content = {
        "description": document.get("description") or "",
        "system": document.get("system_prompt") or "",
        "tools": [_tool(_component(document, each)) for each in _objects(document.get("tools"))],
        "model": {
            "provider": own.get("provider") or _provider(model),
            "name": model.get("model_id") or "",
            "settings": settings if isinstance(settings, dict) else {},
        },
    }
    return str(document.get("name") or ""), content | {name: own[name] for name in KEPT if name in own}


def write(name: str, content: dict, document: dict | None) -> dict:
    """Return the definition as a document, based on `document`, the one it was imported from, if there is one."""
    found = copy.deepcopy(document) if document else _empty(name)
    before = read(found)[1]
    if content["system"] != before["system"]:
        found["system_prompt"] = content["system"]
    if content["description"] != before["description"]:
        found["description"] = content["description"]
    _put_tools(found, content["tools"])
    if content["model"] != before["model"]:
        _put_model(found, name, content["model"], before["model"])
    kept = {each: content[each] for each in KEPT if content[each]}
    provider = content["model"]["provider"]
    if provider and provider != _provider(_component(found, found.get("llm_config"))):
        kept["provider"] = provider
    if kept != _ours(found):
        found["metadata"] = (found.get("metadata") or {}) | {OURS: kept}
    return found


def _empty(name: str) -> dict:
    about = {"component_type": AGENT, "id": _id(name, "agent"), "name": name, "description": "", "metadata": {}}
    about |= {"inputs": [], "outputs": [], "llm_config": None, "system_prompt": "", "tools": [], "toolboxes": []}
    return about | {"human_in_the_loop": True, "agentspec_version": VERSION}


def _id(*names: str) -> str:
    """Return an id that the same names always give, so that an export does not change by itself."""
    return str(uuid.uuid5(NAMESPACE, "/".join(names)))


def _component(document: dict, value) -> dict:
    """Return a component, which may be a reference to one of the document's."""
    found = value if isinstance(value, dict) else {}
    if (key := found.get("$component_ref")) is not None:
        known = document.get("$referenced_components")
        found = known.get(key) if isinstance(known, dict) and isinstance(key, str) else None
    return found if isinstance(found, dict) else {}


def _objects(value) -> list[dict]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _ours(document: dict) -> dict:
    metadata = document.get("metadata")
    own = metadata.get(OURS) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def _tool(tool: dict) -> dict:
    """Return a tool: its inputs are properties with a title, those without a default are required."""
    inputs = [each for each in _objects(tool.get("inputs")) if isinstance(each.get("title"), str)]
    properties = {each["title"]: {key: value for key, value in each.items() if key != "title"} for each in inputs}
    required = [each["title"] for each in inputs if "default" not in each]
    schema = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    about = {"name": tool.get("name") or "", "description": tool.get("description") or ""}
    return about | {"schema": schema, "approval": "ask" if tool.get("requires_confirmation") else ""}


def _put_tools(document: dict, tools: list[dict]):
    """Keep the tools that the definition has, change whether they ask, and add those that are new."""
    rows = {_component(document, each).get("name"): each for each in _objects(document.get("tools"))}
    found = []
    for tool in tools:
        row = rows.get(tool["name"])
        component = _component(document, row)
        asks = tool["approval"] == "ask"
        if row is None:
            row = _new_tool(document, tool)
        elif asks != bool(component.get("requires_confirmation")):
            component["requires_confirmation"] = asks
            if str(document.get("agentspec_version")) < VERSION:
                document["agentspec_version"] = VERSION
        found.append(row)
    if found != _objects(document.get("tools")):
        document["tools"] = found


def _new_tool(document: dict, tool: dict) -> dict:
    properties = (tool["schema"] or {}).get("properties")
    inputs = [
        {"title": title} | (schema if isinstance(schema, dict) else {})
        for title, schema in (properties if isinstance(properties, dict) else {}).items()
    ]
    key = _id(str(document.get("id")), "tool", tool["name"])
    about = {"component_type": "ClientTool", "id": key, "name": tool["name"], "description": tool["description"]}
    return about | {
        "metadata": {},
        "inputs": inputs,
        "outputs": [],
        "requires_confirmation": tool["approval"] == "ask",
    }


def _provider(model: dict) -> str:
    """Return the provider that a model's component names: whoever serves the model, else whose model it is."""
    if model.get("component_type") == GENERAL:
        return next((each for each in (model.get("api_provider"), model.get("provider")) if isinstance(each, str)), "")
    return PROVIDERS.get(str(model.get("component_type")), "")


def _put_model(document: dict, name: str, model: dict, before: dict):
    """Put a model into its component; only another provider changes more of it than its own fields."""
    component = _component(document, document.get("llm_config"))
    provider = model["provider"]
    if component.get("component_type") == GENERAL and provider != before["provider"]:
        component |= {"provider": provider or None, "api_provider": provider or None, "api_type": None, "url": None}
    elif not component or provider != before["provider"]:
        kind = COMPONENTS.get(provider, "OpenAiCompatibleConfig")
        if component.get("component_type") != kind:
            component = {"component_type": kind, "id": _id(name, "model"), "name": model["name"], "metadata": {}}
            if kind != "OpenAiConfig":
                component["url"] = ""  # the specification wants one
            document["llm_config"] = component
    component["model_id"] = model["name"]
    if model["settings"] != before["settings"]:
        component["default_generation_parameters"] = model["settings"] or None
