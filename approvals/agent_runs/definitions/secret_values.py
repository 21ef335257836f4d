"""Empty the values of secrets in a document, before anything of it is kept."""

import re

from dashboard.problems import invalid

NAME = re.compile(r"(api_?key|token|secret|passw(or)?d|authorization|credential)s?$", re.IGNORECASE)
# Objects whose values are all secret, or lists of {key, value}.
OBJECTS = ("tool_exec_environment_variables", "custom_headers", "sensitive_headers", "headers", "env", "secrets")
ENVIRONMENTS = ("tool_exec_environment_variables", "env", "secrets")  # of these, whose names are those of variables
NOT_SECRET = ("max_tokens", "termination_token")
SCHEMAS = ("properties", "$defs", "definitions")  # whose keys are names of parameters
MAX_DEPTH = 60


def emptied(document, depth: int = 0, within: str = ""):
    """Return the document with the values of secrets emptied: texts become "", all else null. Problem 422."""
    if depth > MAX_DEPTH:
        raise invalid("The document is nested too deeply.", field="document")
    if isinstance(document, list):
        return [emptied(each, depth + 1) for each in document]
    if not isinstance(document, dict):
        return document
    found = {}
    for key, value in document.items():
        is_schema = within in SCHEMAS
        if key in OBJECTS and isinstance(value, dict) and not is_schema:
            found[key] = {name: _empty(each) for name, each in value.items()}
        elif key in OBJECTS and _is_listed(value) and not is_schema:
            rows = emptied(value, depth + 1, key)
            found[key] = [row | {"value": _empty(row["value"])} if _is_pair(row) else row for row in rows]
        elif NAME.search(key) and key not in NOT_SECRET and isinstance(value, str):
            found[key] = ""
        else:
            found[key] = emptied(value, depth + 1, key)
    return found


def _empty(value):
    return "" if isinstance(value, str) else None


def _is_listed(value) -> bool:
    return isinstance(value, list) and any(map(_is_pair, value))


def _is_pair(row) -> bool:
    return isinstance(row, dict) and "value" in row


def names(document) -> set[str]:
    """Return the names of variables whose values are secret."""
    if isinstance(document, list):
        return set().union(*map(names, document))
    if not isinstance(document, dict):
        return set()
    found = set()
    for key, value in document.items():
        if key in ENVIRONMENTS and isinstance(value, dict):
            found |= set(value)
        elif key in ENVIRONMENTS and _is_listed(value):
            rows = [row for row in value if isinstance(row, dict)]
            found |= {str(row.get("key") or row.get("name") or "") for row in rows} - {""}
        elif key not in SCHEMAS:
            found |= names(value)
    return found
