"""Every operation of the OpenAPI document, with the smallest body that its schema takes."""

import functools
import re

from ninja.utils import normalize_path

from dashboard.urls import api  # with all of its routers


@functools.cache
def names() -> frozenset[str]:
    """Return the names that `operations` has, like "POST /actions", without the seconds that the document takes."""
    found = set()
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            whole = re.sub(r"{[^}:]+:", "{", normalize_path(f"/{prefix}/{path}"))
            for operation in view.operations:
                found |= {f"{method} {whole}" for method in operation.methods if operation.include_in_schema}
    return frozenset(found)


@functools.cache
def operations() -> dict[str, dict]:
    """{"POST /actions": the operation}, as the document has them."""
    schema = api.get_openapi_schema()
    return {
        f"{method.upper()} {path.removeprefix('/api/v1')}": operation
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }


def sample(schema: dict):
    """A value that the schema takes: as small as can be."""
    schema = _resolved(schema)
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: sample(properties[name]) for name in schema.get("required", [])}
    if kind == "string":
        return "0" * 64 if "{64}" in schema.get("pattern", "") else "walked"
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": False, "array": [], "null": None}[kind]


def _resolved(schema: dict) -> dict:
    if "$ref" in schema:
        return api.get_openapi_schema()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for some in ("anyOf", "oneOf", "allOf"):
        if some in schema:
            return _resolved(schema[some][0])
    return schema


def body_of(operation: dict):
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return sample(content["schema"]) if content else None
