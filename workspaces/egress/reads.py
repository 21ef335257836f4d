"""Which requests only read: by their method, and where POST is used for reading by what they ask for.

That is GraphQL whose operations are all queries, as `gh` and `glab` send it, and what git sends to fetch. Whatever
cannot be understood counts as a write.
"""

import hashlib
import json
import re
from urllib.parse import unquote

from .graphql import Unreadable, operations
from .http_head import RequestHead
from .leash import is_clear_path

METHODS = ("GET", "HEAD", "OPTIONS")
FETCH, FETCHES = "/git-upload-pack", "application/x-git-upload-pack-request"
FIELDS = {"query", "variables", "operationName"}
GRAPHQL = re.compile(r"(?i)/graphql(?:\.\w+)?/*$")  # as the end of a path, as servers write it
MOST_BYTES = 1024**2  # of GraphQL with its variables that is read here
MOST_TEXT = 64 * 1024  # characters of its documents: reading so many takes less than 0.1 s
MOST_SHOWN = 100  # characters of what an operation is called


def is_graphql(head: RequestHead) -> bool:
    """Return whether the request is GraphQL, so that its body says what it does."""
    path, _, _ = head.target.partition("?")
    return head.method == "POST" and path.endswith("/graphql")


def only_reads(head: RequestHead, body: bytes | None) -> bool:
    """Return whether a request only reads. `body` is needed for GraphQL alone."""
    path, mark, _ = head.target.partition("?")
    if is_graphql(head):
        return writes(head, body) == ""
    if (mark or _has_body(head)) and _may_be_graphql(path):
        return False  # some servers take the operation from there, whatever the method
    if head.method == "POST" and path.endswith(FETCH):
        return not mark and head.all("content-type") == [FETCHES]
    return head.method in METHODS


def _may_be_graphql(path: str) -> bool:
    """Return whether a server may take the path for that of its GraphQL, in one way of reading it."""
    plain = unquote(path)
    return GRAPHQL.search(plain) is not None or (not is_clear_path(path) and "graphql" in plain.lower())


def _has_body(head: RequestHead) -> bool:
    return bool(head.all("transfer-encoding")) or head.all("content-length") not in ([], ["0"])


def writes(head: RequestHead, body: bytes | None) -> str:
    """Return what the GraphQL of a request may change, as text; "" if it only reads."""
    try:
        found = [each for text in _documents(head, body) for each in operations(text)]
    except Unreadable:
        return "GraphQL that can't be read"
    named = [f"{kind} {' '.join(fields)}" for kind, fields in found if kind != "query"]
    text = "GraphQL " + ", ".join(named)
    if len(text) > MOST_SHOWN:
        text = f"{text[: MOST_SHOWN - 40]}… {hashlib.sha256(text.encode()).hexdigest()[:32]}"
    return text if named else ""


def _documents(head: RequestHead, body: bytes | None) -> list[str]:
    """Return the documents in the body. Raise Unreadable."""
    content = [value.replace(" ", "").lower() for value in head.all("content-type")]
    is_json = content in (["application/json"], ["application/json;charset=utf-8"])
    if "?" in head.target or not is_json or head.all("content-encoding") or body is None or len(body) > MOST_BYTES:
        raise Unreadable
    try:
        asked = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Unreadable from None
    found = [_document(one) for one in (asked if isinstance(asked, list) and asked else [asked])]
    if sum(map(len, found)) > MOST_TEXT:
        raise Unreadable
    return found


def _document(asked) -> str:
    """Return the text of one request; one that is kept by the server, or has a field that is not known, has none."""
    if not isinstance(asked, dict) or not asked.keys() <= FIELDS or not isinstance(asked.get("query"), str):
        raise Unreadable
    return asked["query"]


def _once(pairs: list[tuple[str, object]]) -> dict:
    """Refuse a name that stands twice, of which servers take either."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Unreadable
    return found
