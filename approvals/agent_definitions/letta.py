"""Letta's agent files (`.af`): read into the content of a definition, and written with everything that they had.

A document is kept as it came, without the values of secrets, and what a definition says is put into it when it is
written: fields that Handrail does not know survive. The source code of tools is kept as data, and never run.
"""

import copy

from approvals.agent_definitions.content import block_of
from dashboard.problems import invalid

NAME = "letta"
SUFFIX = ".af"
ASKS = "requires_approval"  # the type of a rule for a tool whose calls a person approves
SETTINGS = ("context_window", "temperature", "max_tokens")  # of a model's configuration, in a definition


def read(document: dict) -> tuple[str, dict]:
    """Return (name, content) of an agent file with one agent. Problem 422."""
    agents = document.get("agents")
    if not isinstance(agents, list) or len(agents) != 1 or not isinstance(agents[0], dict):
        raise invalid("An agent file holds `agents`, and this takes one with exactly one of them.", field="document")
    agent = agents[0]
    blocks, tools = _by_id(document, "blocks"), _by_id(document, "tools")
    model = agent.get("llm_config") if isinstance(agent.get("llm_config"), dict) else {}
    asks = {rule.get("tool_name") for rule in _rules(agent) if rule.get("type") == ASKS}
    variables = agent.get("tool_exec_environment_variables")
    own = [blocks[key] for key in _texts(agent.get("block_ids")) if key in blocks]
    content = {
        "description": agent.get("description") or "",
        "system": agent.get("system") or "",
        "memory": [_block(each) for each in [*own, *_inline_blocks(agent)]],
        "tools": [_tool(tools[key], asks) for key in _texts(agent.get("tool_ids")) if key in tools],
        "model": {
            "provider": model.get("model_endpoint_type") or "",
            "name": model.get("model") or "",
            "settings": {name: model[name] for name in SETTINGS if name in model},
        },
        "secrets": sorted(variables) if isinstance(variables, dict) else [],
    }
    return str(agent.get("name") or ""), content


def write(name: str, content: dict, document: dict | None) -> dict:
    """Return the definition as an agent file, based on `document`, the file it was imported from, if there is one."""
    found = copy.deepcopy(document) if document else _empty()
    agent = found["agents"][0]
    if document is None or read(document)[1].get("system") != content["system"]:
        agent["system"] = content["system"]
    agent["name"] = name if document is None else agent.get("name", name)
    if content["description"] or agent.get("description"):
        agent["description"] = content["description"]
    _put_memory(found, agent, content)
    _put_tools(found, agent, content)
    _put_model(agent, content["model"])
    for variable in content["secrets"]:
        _object(agent, "tool_exec_environment_variables").setdefault(variable, "")
    return found


def _by_id(document: dict, field: str) -> dict[str, dict]:
    rows = document.get(field) if isinstance(document.get(field), list) else []
    return {row["id"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}


def _texts(value) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _rules(agent: dict) -> list[dict]:
    rules = agent.get("tool_rules")
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def _inline_blocks(agent: dict) -> list[dict]:
    blocks = agent.get("memory_blocks")
    return [each for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []


def _block(block: dict) -> dict:
    names = ("label", "value", "description", "limit", "read_only")
    return {name: block.get(name) for name in names}


def _tool(tool: dict, asks: set) -> dict:
    schema = tool.get("json_schema") if isinstance(tool.get("json_schema"), dict) else {}
    needs = tool.get("default_requires_approval") or tool.get("name") in asks
    about = {"name": tool.get("name") or schema.get("name") or "", "description": tool.get("description") or ""}
    return about | {"schema": schema.get("parameters"), "approval": "ask" if needs else ""}


def _empty() -> dict:
    lists = ("groups", "files", "sources", "mcp_servers")
    agent = {"id": "agent-0", "block_ids": [], "tool_ids": [], "tool_rules": [], "messages": []}
    agent |= {"in_context_message_ids": [], "agent_type": "letta_v1_agent"}
    return {"agents": [agent], "blocks": [], "tools": []} | {name: [] for name in lists}


def _put_memory(document: dict, agent: dict, content: dict):
    """Change the blocks that are there by their label, and add those that are not."""
    rows = [*_by_id(document, "blocks").values(), *_inline_blocks(agent)]
    known = {row.get("label"): row for row in rows}
    for block in content["memory"]:
        row = known.get(block["label"])
        before = {} if row is None else block_of(_block(row))
        if row is None:
            row = {"id": f"block-{len(document['blocks'])}", "label": block["label"]}
            document["blocks"].append(row)
            agent["block_ids"] = [*_texts(agent.get("block_ids")), row["id"]]
        row |= {name: value for name, value in block.items() if (value != before[name] if before else value)}


def _put_tools(document: dict, agent: dict, content: dict):
    known = {row.get("name"): row for row in _by_id(document, "tools").values()}
    for tool in content["tools"]:
        if tool["name"] in known:
            continue
        key = f"tool-{len(document['tools'])}"
        schema = {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"] or {}}
        row = {"id": key, "name": tool["name"], "description": tool["description"], "json_schema": schema}
        row |= {"tool_type": "custom", "default_requires_approval": tool["approval"] == "ask"}
        document["tools"].append(row)
        agent["tool_ids"] = [*_texts(agent.get("tool_ids")), key]


def _put_model(agent: dict, model: dict):
    if not model["name"]:
        return
    config = _object(agent, "llm_config")
    wanted = {"model": model["name"], "model_endpoint_type": model["provider"]} | model["settings"]
    config |= {name: value for name, value in wanted.items() if value != (config.get(name) or "")}
    config.setdefault("context_window", 200_000)


def _object(row: dict, field: str) -> dict:
    if not isinstance(row.get(field), dict):
        row[field] = {}
    return row[field]
