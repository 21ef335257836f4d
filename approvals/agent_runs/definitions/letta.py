"""Letta's agent files (`.af`): read into the content of a definition, and written with everything that they had.

A document is kept as it came, without the values of secrets, and what a definition says is put into it when it is
written: fields that Handrail does not know survive. The source code of tools is kept as data, and never run.
"""

import copy

from approvals.agent_runs.definitions import secret_values
from approvals.agent_runs.definitions.content import VARIABLE, block_of
from dashboard.problems import invalid

NAME = "letta"
SUFFIX = ".af"
ASKS = "requires_approval"  # the type of a rule for a tool whose calls a person approves
SETTINGS = ("context_window", "temperature", "max_tokens")  # of a model's configuration, in a definition
CHOSEN = "handrail.agent"  # in a document that is kept: the place of the definition's agent among several


def is_document(document: dict) -> bool:
    return "agents" in document or _is_old(document)


def _is_old(document: dict) -> bool:
    """Return whether it is a file from before Letta 0.8: one agent, with its memory and its tools in it."""
    return "agents" not in document and isinstance(document.get("core_memory"), list) and "agent_type" in document


def chosen(document: dict, wanted: str) -> dict:
    """Return the document with a note of the agent that is `wanted` by its name or id, if it has several. Problem 422.

    Without a wish, or with one that names none, the problem lists `agents`: {name, id} of each.
    """
    document = {field: value for field, value in document.items() if field != CHOSEN}
    agents = [document] if _is_old(document) else document.get("agents")
    if not isinstance(agents, list) or not agents or not all(isinstance(each, dict) for each in agents):
        raise invalid("An agent file holds `agents`, a list of at least one.", field="document")
    if len(agents) == 1 and not wanted:
        return document
    offered = [{name: str(each.get(name) or "") for name in ("name", "id")} for each in agents]
    named = [place for place, each in enumerate(offered) if wanted and wanted in each.values()]
    if len(named) != 1:
        names = ", ".join(f"{each['name'] or 'without a name'} ({each['id']})" for each in offered[:20])
        words = f"It holds {len(agents)} agents. Say which one, by its name or id: {names}."
        raise invalid(words, field="agent", code="choose_agent", agents=offered[:100])
    return document | {CHOSEN: named[0]}


def _agent_of(document: dict) -> dict:
    return document if _is_old(document) else document["agents"][document.get(CHOSEN, 0)]


def read(document: dict) -> tuple[str, dict]:
    """Return (name, content) of the agent of an agent file that `chosen` returned. Problem 422."""
    agent = _agent_of(document)
    model = agent.get("llm_config") if isinstance(agent.get("llm_config"), dict) else {}
    asks = {str(rule.get("tool_name")) for rule in _rules(agent) if rule.get("type") == ASKS}
    shared = {field: value for field, value in document.items() if field != "agents"}
    variables = secret_values.names(agent) | secret_values.names(shared)
    content = {
        "description": agent.get("description") or "",
        "system": agent.get("system") or "",
        "memory": [_block(each) for each in _blocks_of(document, agent)],
        "tools": [_tool(each, asks) for each in _tools_of(document, agent)],
        "model": {
            "provider": model.get("model_endpoint_type") or "",
            "name": model.get("model") or "",
            "settings": {name: model[name] for name in SETTINGS if name in model},
        },
        "secrets": sorted(filter(VARIABLE.fullmatch, variables)),
    }
    return str(agent.get("name") or ""), content


def write(name: str, content: dict, document: dict | None) -> dict:
    """Return the definition as an agent file, based on `document`, the file it was imported from, if there is one."""
    found = copy.deepcopy(document) if document else _empty()
    agent = _agent_of(found)
    known = set(read(found)[1]["secrets"])
    found.pop(CHOSEN, None)
    if document is None or read(document)[1].get("system") != content["system"]:
        agent["system"] = content["system"]
    agent["name"] = name if document is None else agent.get("name", name)
    if content["description"] or agent.get("description"):
        agent["description"] = content["description"]
    _put_memory(found, agent, content)
    _put_tools(found, agent, content)
    _put_model(agent, content["model"])
    for variable in content["secrets"]:
        if variable not in known:
            _put_secret(agent, variable)
    return found


def _put_secret(agent: dict, variable: str):
    listed = agent.get("tool_exec_environment_variables")
    if isinstance(listed, list) and listed:
        listed.append({"key": variable, "value": ""})
    else:
        _object(agent, "tool_exec_environment_variables")[variable] = ""


def _by_id(document: dict, field: str) -> dict[str, dict]:
    rows = document.get(field) if isinstance(document.get(field), list) else []
    return {row["id"]: row for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}


def _texts(value) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _rules(agent: dict) -> list[dict]:
    rules = agent.get("tool_rules")
    return [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []


def _blocks_of(document: dict, agent: dict) -> list[dict]:
    known = _by_id(document, "blocks")
    own = [known[key] for key in _texts(agent.get("block_ids")) if key in known]
    return [*own, *_objects(agent, "memory_blocks"), *(_objects(agent, "core_memory") if _is_old(document) else [])]


def _tools_of(document: dict, agent: dict) -> list[dict]:
    if _is_old(document):
        return _objects(document, "tools")
    known = _by_id(document, "tools")
    return [known[key] for key in _texts(agent.get("tool_ids")) if key in known]


def _objects(row: dict, field: str) -> list[dict]:
    rows = row.get(field)
    return [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []


def _block(block: dict) -> dict:
    names = ("label", "value", "description", "limit", "read_only")
    return {name: block.get(name) for name in names}


def _tool(tool: dict, asks: set) -> dict:
    schema = tool.get("json_schema") if isinstance(tool.get("json_schema"), dict) else {}
    needs = tool.get("default_requires_approval") or str(tool.get("name")) in asks
    about = {"name": tool.get("name") or schema.get("name") or "", "description": tool.get("description") or ""}
    return about | {"schema": schema.get("parameters"), "approval": "ask" if needs else ""}


def _empty() -> dict:
    lists = ("groups", "files", "sources", "mcp_servers")
    agent = {"id": "agent-0", "block_ids": [], "tool_ids": [], "tool_rules": [], "messages": []}
    agent |= {"in_context_message_ids": [], "agent_type": "letta_v1_agent"}
    return {"agents": [agent], "blocks": [], "tools": []} | {name: [] for name in lists}


def _put_memory(document: dict, agent: dict, content: dict):
    """Change the agent's blocks by their label, and add those that are not there."""
    known = {row.get("label"): row for row in _blocks_of(document, agent)}
    for block in content["memory"]:
        row = known.get(block["label"])
        before = {} if row is None else block_of(_block(row))
        if row is None:
            row = {"label": block["label"]}
            _add(document, agent, "core_memory" if _is_old(document) else "blocks", row)
        row |= {name: value for name, value in block.items() if (value != before[name] if before else value)}


def _add(document: dict, agent: dict, field: str, row: dict):
    """Add a block or a tool, with an id that no other has, such as block-3, which the agent names."""
    if not isinstance(document.get(field), list):
        document[field] = []
    rows = document[field]
    if not _is_old(document):
        kind, known = field.removesuffix("s"), _by_id(document, field)
        places = range(len(rows), 2 * len(rows) + 2)
        row["id"] = next(name for number in places if (name := f"{kind}-{number}") not in known)
        agent[f"{kind}_ids"] = [*_texts(agent.get(f"{kind}_ids")), row["id"]]
    rows.append(row)


def _put_tools(document: dict, agent: dict, content: dict):
    known = {_tool(row, set())["name"] for row in _tools_of(document, agent)}
    for tool in content["tools"]:
        if tool["name"] in known:
            continue
        schema = {"name": tool["name"], "description": tool["description"], "parameters": tool["schema"] or {}}
        row = {"name": tool["name"], "description": tool["description"], "json_schema": schema}
        row |= {"tool_type": "custom", "default_requires_approval": tool["approval"] == "ask"}
        _add(document, agent, "tools", row)


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
