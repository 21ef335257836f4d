"""Parse a document that defines an agent: JSON, or YAML without what JSON has no word for."""

import json
from contextlib import suppress

import yaml

from dashboard.problems import Problem, invalid
from dashboard.text import shallow_yaml, strict_json

BOM = b"\xef\xbb\xbf"


class Loader(shallow_yaml.Loader):
    """YAML of plain values: no aliases, by which a short text becomes a huge one, and no name twice in an object."""

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it has an alias")
        return super().compose_node(parent, index)

    def construct_mapping(self, node, deep=False):
        found = super().construct_mapping(node, deep=deep)
        if len(found) != len(node.value):
            raise yaml.YAMLError("it has a name twice in one object, or merges another")
        return found


# A date stays the text that it is.
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parsed(text: bytes) -> dict:
    """Return the object that a document is. Problem 422."""
    try:
        found = _parsed(text.removeprefix(BOM))
        if isinstance(found, str) and found.lstrip()[:1] == "{":  # JSON text in JSON text, as Letta published some
            found = strict_json.loads_large(found.encode("utf-8", "surrogatepass"))
    except Problem as problem:
        raise invalid(f"The document: {problem.detail}", field="document") from None
    if not isinstance(found, dict):
        raise invalid("The document is not an object.", field="document")
    return found


def _parsed(text: bytes):
    first = text.lstrip()[:1]
    if first == b'"':  # a JSON text, or YAML that begins with a quoted name
        with suppress(Problem):
            return strict_json.loads_large(text)
    return strict_json.loads_large(text) if first in (b"{", b"[") else _yaml(text)


def _yaml(text: bytes):
    try:
        return json.loads(json.dumps(yaml.load(text, Loader), allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, AttributeError):
        raise invalid("It is neither JSON nor plain YAML.") from None
