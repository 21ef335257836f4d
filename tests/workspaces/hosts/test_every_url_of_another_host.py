"""Every address about a workspace, asked at the web of its host and at that of another one: the same answer."""

import re
import uuid
from urllib.error import HTTPError

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tests.support.product import Answer
from tests.support.visitor import Visitor
from tests.support.waiting import until

TRIES = 3  # something may have happened between two questions, such as an event of the log
OF_A_PROCESS = "/api/v1/metrics"  # figures of the processes of one host
# What differs between two answers to one question: the web's own address, tokens of forms, and the time.
OWN = re.compile(rb"(handrail\.localhost|127\.0\.0\.1):\d+")
FORM = rb'name="csrfmiddlewaretoken" value="|"X-CSRFToken": ?"|csrf[^"]{0,40}"'
TOKENS = re.compile(rb"(" + FORM + rb'|data-(session|cursor)="|nonce-|nonce=")[^"]+')
TIMES = re.compile(
    rb"\d+ (second|minute)s?( ago)?|just now|\d\d:\d\d(:\d\d)?(\.\d+)?|\d{4}-\d\d-\d\dT[\d:.+Z-]+|\bnow\b"
)
FIGURES = re.compile(rb"[\d.,]+(&nbsp;|\xc2\xa0| )?(ms|s|KB|MB|GB|kB|MiB|GiB|%)\b")
SIZES = re.compile(
    rb'"(cpu|memory|bytes|at|seconds|last_active_at|age|hours|processor_hours|awake|lateness)[a-z_]*": ?[^,}]+'
)


def routes(patterns=None, prefix=""):
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


ROUTES = sorted({route for route in routes() if route.startswith(("w/", "workspaces/", "api/v1/"))})


@pytest.fixture(scope="module")
def known(both_hosts):
    """What an address can name: {part of a route: value}."""
    desk = both_hosts.through_own
    terminal = desk.post("/workspaces/far/terminals", {"argv": ["bash", "-c", "echo in a terminal"]}).json["id"]
    command = desk.finished(desk.post("/workspaces/far/commands", {"command": "echo out; false"}).json["id"])
    until(lambda: _ended(desk, terminal))
    desk.settled("far")
    return {
        "commands": command["id"],
        "terminals": terminal,
        "runs": desk.get("/workspaces/far/runs").json["runs"][0]["id"],
        "operations": desk.get("/workspaces/far/operations").json["operations"][0]["id"],
    }


def _ended(desk, terminal: str) -> bool:
    found = desk.get("/workspaces/far/terminals").json["terminals"]
    return next(each for each in found if each["id"] == terminal)["ended_at"] is not None


def address(route: str, known: dict) -> str:
    """Fill a route in."""

    def value(match) -> str:
        name = match[0].strip("<>").rpartition(":")[2]
        before = route[: match.start()].rstrip("/").rpartition("/")[2]
        if name in ("key", "team", "path", "number", "n"):
            return {"key": "far", "team": "main", "path": "hello.txt", "number": "1", "n": "1"}[name]
        return known.get(before, str(uuid.UUID(int=1)) if "uuid" in match[0] or "id" in name else "x")

    return "/" + re.sub(r"<[^>]+>", value, route)


def plain(answer: Answer) -> bytes:
    """Return the body without what two answers to one question differ in."""
    body = answer.body
    for pattern in (OWN, TOKENS, TIMES, FIGURES, SIZES):
        body = pattern.sub(b"~", body)
    return body


def first_difference(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    at = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
    return one[max(0, at - 80) : at + 120], other[max(0, at - 80) : at + 120]


@pytest.fixture(scope="module")
def asked(both_hosts):
    """`asked(product, path)`: the answer of a product's web to a lead of the team, over the API or as a page."""
    people = {product: Visitor.named(product, "lia", "lead") for product in (both_hosts.own, both_hosts.other)}

    def ask(product, path: str) -> Answer:
        if path.startswith("/api/"):
            return product.get(path, both_hosts.token)
        try:
            with people[product]._opener.open(product.url + path, timeout=60) as answer:
                assert "/accounts/login/" not in answer.url, path
                return Answer(answer.status, answer.headers, answer.read())
        except HTTPError as refused:
            with refused:
                return Answer(refused.code, refused.headers, refused.read())

    return ask


@pytest.mark.timeout(1200)  # every address in turn, at both webs
def test_every_address_is_answered_alike(both_hosts, known, asked):
    differing, broken, seen = [], [], {}
    for route in ROUTES:
        path = address(route, known)
        for _ in range(TRIES):
            own, other = (asked(product, path) for product in (both_hosts.own, both_hosts.other))
            if path == OF_A_PROCESS or plain(own) == plain(other):
                break
        else:
            differing.append((path, *first_difference(plain(own), plain(other))))
        seen[path] = own.status
        if other.status >= 500 or other.status != own.status:
            broken.append((path, own.status, other.status, other.body[:300]))
    assert broken == []
    assert differing == []
    pages = [status for path, status in seen.items() if path.startswith("/w/")]
    assert (pages.count(200) > 40, list(seen.values()).count(200) > 80) == (True, True), seen
