"""The JSON schemas of tools: those that callers sent with a call, and those of Claude Code's tools.

A schema only shapes the form in which a person edits the arguments. It is the agent's own statement, so it decides
nothing, and no digest covers it.
"""

from approvals.evaluation.calls import sha256
from approvals.models import ToolSchema
from dashboard.problems import invalid
from dashboard.text.strict_json import canonical

MAX_BYTES = 64 * 1024
ORDER = "x-handrail-order"  # the names of the properties as they were sent: PostgreSQL's jsonb orders them otherwise
TEXT, YES_NO, WHOLE = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}


def _object(required: str, **properties) -> dict:
    return {"type": "object", "properties": properties, "required": required.split()}


KNOWN = {
    "Write": _object("file_path content", file_path=TEXT, content=TEXT),
    "Edit": _object(
        "file_path old_string new_string", file_path=TEXT, old_string=TEXT, new_string=TEXT, replace_all=YES_NO
    ),
    "NotebookEdit": _object(
        "notebook_path new_source",
        notebook_path=TEXT,
        cell_id=TEXT,
        new_source=TEXT,
        cell_type={"type": "string", "enum": ["code", "markdown"]},
        edit_mode={"type": "string", "enum": ["replace", "insert", "delete"]},
    ),
    "Read": _object("file_path", file_path=TEXT, offset=WHOLE, limit=WHOLE),
    "WebFetch": _object("url prompt", url=TEXT, prompt=TEXT),
    "WebSearch": _object("query", query=TEXT),
}


def save(team_id, schema: dict) -> ToolSchema:
    """Store a schema once for the team. Problem 422 if it is too large or no schema of an object."""
    text = canonical(schema)
    if len(text) > MAX_BYTES:
        raise invalid(f"input_schema can have at most {MAX_BYTES:,} bytes.")
    if schema.get("type", "object") != "object" or not isinstance(schema.get("properties", {}), dict):
        raise invalid("input_schema must be the JSON schema of an object.")
    kept = schema | {ORDER: list(schema.get("properties", {}))}
    return ToolSchema.objects.get_or_create(team_id=team_id, sha256=sha256(text), defaults={"schema": kept})[0]


def of_action(action) -> dict:
    """Return the schema of the action's tool; {} if none is known."""
    return action.tool_schema.schema if action.tool_schema_id else KNOWN.get(action.tool, {})
