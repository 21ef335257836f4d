"""The content of a definition, checked: the same fields whatever format it came in.

{description, system,
memory: [{label, value, description, limit, read_only}],
tools: [{name, description, schema, schema_sha256, approval}],
model: {provider, name, settings}, environment, variables: {NAME: value}, secrets: [NAME]}
"""

import hashlib
import re

from dashboard.problems import invalid
from dashboard.text.strict_json import canonical

FIELDS = ("description", "system", "memory", "tools", "model", "environment", "variables", "secrets")
APPROVALS = ("", "allow", "ask", "deny")  # "": the policy alone decides
NAME = re.compile(r"[\w][\w .-]{0,79}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")
MAX_TEXT = 200_000  # characters of a system prompt
MAX_BLOCK = 100_000  # of a memory block
MAX_LISTED = 200  # memory blocks, tools, variables or secrets
MAX_BYTES = 4 << 20  # of a document


def check_name(name: str) -> str:
    name = " ".join((name or "").split())
    if not NAME.fullmatch(name):
        raise invalid("Use letters, digits, spaces, dots and dashes, at most 80.", field="name")
    return name


def checked(content: dict) -> dict:
    """Return the content with all fields, each as it has to be. Problem 422 names the field."""
    if unknown := set(content) - set(FIELDS):
        raise invalid(f"A definition has no field {sorted(unknown)[0]!r}.", field=sorted(unknown)[0])
    found = {
        "description": _text(content, "description", 2000),
        "system": _text(content, "system", MAX_TEXT),
        "memory": [block_of(each) for each in _list(content, "memory")],
        "tools": [_tool(each) for each in _list(content, "tools")],
        "model": _model(_given(content, "model")),
        "environment": _text(content, "environment", 80),
        "variables": _variables(_given(content, "variables")),
        "secrets": [_variable_name(each, "secrets") for each in _list(content, "secrets")],
    }
    labels = [block["label"] for block in found["memory"]]
    if len(set(labels)) != len(labels):
        raise invalid("Two memory blocks have the same label.", field="memory")
    return found


def _given(content: dict, field: str):
    return {} if content.get(field) is None else content[field]


def _text(content: dict, field: str, most: int, of: str = "") -> str:
    value = "" if content.get(field) is None else content[field]
    if not isinstance(value, str) or len(value) > most:
        raise invalid(f"{field} is a text of at most {most:,} characters.", field=of or field)
    return value.replace("\0", "␀")


def _list(content: dict, field: str) -> list:
    value = [] if content.get(field) is None else content[field]
    if not isinstance(value, list) or len(value) > MAX_LISTED:
        raise invalid(f"{field} is a list of at most {MAX_LISTED}.", field=field)
    return value


def block_of(block) -> dict:
    """Return a memory block with all its fields. Problem 422."""
    if not isinstance(block, dict):
        raise invalid("A memory block is an object.", field="memory")
    limit = block.get("limit")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise invalid("The limit of a memory block is a number of characters.", field="memory")
    label = _text(block, "label", 200, "memory")
    if not label:
        raise invalid("A memory block needs a label.", field="memory")
    texts = {
        "value": _text(block, "value", MAX_BLOCK, "memory"),
        "description": _text(block, "description", 2000, "memory"),
    }
    return {"label": label} | texts | {"limit": limit, "read_only": bool(block.get("read_only"))}


def _tool(tool) -> dict:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str) or not tool["name"]:
        raise invalid("A tool is an object with a name.", field="tools")
    schema = tool.get("schema")
    if schema is not None and not isinstance(schema, dict):
        raise invalid("The schema of a tool is a JSON schema.", field="tools")
    approval = tool.get("approval") or ""
    if approval not in APPROVALS:
        raise invalid("The approval of a tool is allow, ask, deny or nothing.", field="tools")
    digest = hashlib.sha256(canonical(schema)).hexdigest() if schema is not None else ""
    about = {"name": _text(tool, "name", 200, "tools"), "description": _text(tool, "description", 20_000, "tools")}
    return about | {"schema": schema, "schema_sha256": digest, "approval": approval}


def _model(model) -> dict:
    if not isinstance(model, dict):
        raise invalid("The model is an object: provider, name, settings.", field="model")
    settings = model.get("settings") or {}
    if not isinstance(settings, dict):
        raise invalid("The settings of a model are an object.", field="model")
    names = {"provider": _text(model, "provider", 40, "model"), "name": _text(model, "name", 100, "model")}
    return names | {"settings": settings}


def _variables(variables) -> dict:
    if not isinstance(variables, dict) or len(variables) > MAX_LISTED:
        raise invalid(f"variables is an object of at most {MAX_LISTED} texts.", field="variables")
    for name, value in variables.items():
        _variable_name(name, "variables")
        if not isinstance(value, str):
            raise invalid(f"The value of {name} is a text.", field="variables")
    return dict(variables)


def _variable_name(name, field: str) -> str:
    if not isinstance(name, str) or not VARIABLE.fullmatch(name):
        raise invalid(f"{str(name)[:80]!r} is not the name of a variable.", field=field)
    return name


def prompt_of(content: dict) -> str:
    """Return what an agent is told before its task: the system prompt, and its memory under the labels."""
    parts = [content["system"].strip()]
    parts += [f"{block['label']}:\n{block['value'].strip()}" for block in content["memory"] if block["value"].strip()]
    return "\n\n".join(part for part in parts if part)
