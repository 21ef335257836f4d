"""What only reads: by method, GraphQL by its operations, and git's own way to fetch. What is not understood writes."""

import json

import h11
import pytest

from workspaces.egress.graphql import Unreadable, operations
from workspaces.egress.http_head import RequestHead
from workspaces.egress.reads import only_reads, writes

JSON = ("content-type", "application/json; charset=utf-8")
VIEWER = "query UserCurrent { viewer { login } }"


def head(method="POST", target="/graphql", *fields) -> RequestHead:
    return RequestHead(h11.Connection(h11.SERVER), method, target, list(fields))


def asked(query, **more) -> bytes:
    return json.dumps({"query": query} | more).encode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{ viewer { login } }", [("query", ("viewer",))]),
        (VIEWER, [("query", ("viewer",))]),
        ("fragment a on User { login } query { viewer { ...a } }", [("query", ("viewer",))]),
        ("mutation ($id: ID!) { x: closeIssue(input: {id: $id}) { id } }", [("mutation", ("closeIssue",))]),
        ("mutation { addStar(input: {a: 1}) { b } ...rest }", [("mutation", ("addStar", "...rest"))]),
        ("subscription { a }", [("subscription", ("a",))]),
        ('query { a(b: "mutation { c }") }', [("query", ("a",))]),
        ('query { a(b: """ mutation { \\""" } """) } # mutation {', [("query", ("a",))]),
        ("query { a } mutation B { c }", [("query", ("a",)), ("mutation", ("c",))]),
        ("query { a } # {\rmutation { b }", [("query", ("a",)), ("mutation", ("b",))]),
        ('query { a(b: "") } mutation { c }', [("query", ("a",)), ("mutation", ("c",))]),
        ('query A @skip(if: "}") { a @include(if: true) }', [("query", ("a", "include"))]),
    ],
)
def test_the_operations_of_a_document(text, found):
    assert operations(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# query { a }",
        "fragment a on User { login }",
        "type Query { a: Int }",
        "extend type Query { a: Int }",
        "query { a",
        "query { a } }",
        "query { a ) }",
        "query A mutation B",
        'query { a(b: "open) }',
        'query { a(b: """open) }',
        'query { a(b: "\\q") }',
        'query { a(b: """a"""") }',
        "query { a } \x00",
        "query\u00a0{ a }",
        "{ a } ; mutation { b }",
        '"about" query { a }',
    ],
)
def test_what_is_no_document_is_not_understood(text):
    with pytest.raises(Unreadable):
        operations(text)


def test_a_document_of_a_megabyte_is_read_in_linear_time():
    text = "query { a(b: " + '"' + "\\\\" * 250_000 + '"' + ") } " + "#" + "x" * 250_000 + "\n" + "{" * 1000
    with pytest.raises(Unreadable):
        operations(text)


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        (asked(VIEWER), True),
        (asked(VIEWER, variables={"a": "mutation"}, operationName="UserCurrent"), True),
        (json.dumps([{"query": VIEWER}, {"query": "{ a }"}]).encode(), True),
        (asked("mutation { a }"), False),
        (asked("query A { a } mutation B { b }", operationName="A"), False),
        (json.dumps([{"query": VIEWER}, {"query": "mutation { a }"}]).encode(), False),
        (b'{"query": "{ a }", "query": "mutation { b }"}', False),
        (b'{"query": "{ a }", "Query": "mutation { b }"}', False),
        (b'{"variables": {}, "id": "abc"}', False),
        (b'{"query": null}', False),
        (b"[]", False),
        (b"", False),
        (b"[" * 100_000, False),
        (asked(VIEWER).decode().encode("utf-16"), False),
        (b"query=mutation{a}", False),
        (asked("{ a }", variables={"text": "x" * 900_000}), True),
        (asked("{ a }", variables={"text": "x" * 1024**2}), False),
        (asked("{ a }" + "#" * 64 * 1024), False),
    ],
)
def test_graphql_reads_if_all_of_its_operations_are_queries(body, is_read):
    assert only_reads(head("POST", "/api/graphql", JSON), body) is is_read


@pytest.mark.parametrize(
    "request_head",
    [
        head("POST", "/graphql?query=mutation{a}", JSON),
        head("GET", "/graphql?query=mutation{a}"),
        head("GET", "/api/graphql/?query=mutation{a}"),
        head("GET", "/api/graphql.json?query=mutation{a}"),
        head("GET", "/api/Graph%71l?query=mutation{a}"),
        head("GET", "/api/graphql;v=1?query=mutation{a}"),
        head("GET", "/api/graphql/.?query=mutation{a}"),
        head("GET", "/graphql", JSON, ("content-length", "16")),
        head("GET", "/graphql", JSON, ("transfer-encoding", "chunked")),
        head("POST", "/graphql", ("content-type", "application/x-www-form-urlencoded")),
        head("POST", "/graphql"),
        head("POST", "/graphql", JSON, JSON),
        head("POST", "/graphql", JSON, ("content-encoding", "gzip")),
        head("POST", "/user/repos", JSON),
        head("DELETE", "/user"),
        head("READ", "/user"),
    ],
)
def test_what_is_sent_in_another_way_writes(request_head):
    assert not only_reads(request_head, asked(VIEWER))


def test_pages_about_graphql_are_read():
    assert only_reads(head("GET", "/en/graphql/guides?apiVersion=2022"), None)
    assert only_reads(head("GET", "/graphql"), None)
    assert only_reads(head("GET", "/graphql", ("content-length", "0")), None)


def test_git_fetches_by_post():
    sent = ("content-type", "application/x-git-upload-pack-request")
    assert only_reads(head("POST", "/acme/shop.git/git-upload-pack", sent), None)
    assert not only_reads(head("POST", "/acme/shop.git/git-upload-pack?_method=delete", sent), None)
    assert not only_reads(head("POST", "/acme/shop.git/git-upload-pack", JSON), None)
    assert not only_reads(head("POST", "/acme/shop.git/git-receive-pack", sent), None)


def test_a_person_is_shown_what_a_mutation_changes():
    def named(query):
        return writes(head("POST", "/graphql", JSON), asked(query))

    assert named("mutation { createIssue(input: {a: 1}) { id } addLabels { b } }") == (
        "GraphQL mutation createIssue addLabels"
    )
    assert named("nonsense") == "GraphQL that can't be read"
    long = [named("mutation { " + " ".join(f"change{n}" for n in range(first, 40)) + " }") for first in (0, 39 - 20)]
    assert max(map(len, long)) <= 100
    assert named("mutation {" + "a " * 90 + "b }") != named("mutation {" + "a " * 90 + "c }")
