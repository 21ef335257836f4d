"""The database is away: each address says so in its reader's form, and what has time waits for it."""

import asyncio
import json
import logging
import re
import time
import uuid
from http import HTTPStatus

import pytest
from asgiref.testing import ApplicationCommunicator
from django.db import OperationalError, connections
from django.test import Client
from django.urls import get_resolver

from approvals.agents import dialects
from dashboard import logs
from dashboard.api import api
from dashboard.asgi import application
from dashboard.database import outages, threads
from dashboard.live import long_poll
from dashboard.models import Team
from dashboard.problems import TITLES
from dashboard.processes import body_limits

TOKEN = {"Authorization": "Bearer hr_0123456789abcdefghijklmnopqrstuvwxyz"}
VALUES = {"uuid": str(uuid.UUID(int=5)), "int": "5", "str": "five", "path": "a/b", "file": "a/b", "slug": "five"}
# Pages that answer without the database, on purpose.
WITHOUT = {
    ("acp-program", 200),
    ("healthz", 200),
    ("manifest", 200),
    ("readyz", 503),  # names the database among its parts
    ("service-worker", 200),
    ("texts", 200),
}


@pytest.fixture
def away(django_db_blocker, monkeypatch):
    """The database is a PostgreSQL server that nobody runs."""
    closed = connections.settings["default"] | {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "handrail",
        "USER": "handrail",
        "HOST": "127.0.0.1",
        "PORT": "1",
        "OPTIONS": {"connect_timeout": 5},
    }
    monkeypatch.setattr(threads, "QUERY_THREADS", 3)  # new ones, without a connection from an earlier test
    monkeypatch.setattr(threads, "REQUEST_THREADS", 3)
    here = connections["default"]
    monkeypatch.setitem(connections.settings, "default", closed)
    connections["default"] = connections.create_connection("default")
    with django_db_blocker.unblock():
        yield
    connections["default"] = here


def api_routes() -> list[tuple[str, str]]:
    """Return (method, address) of each operation of the API, with values for what the address names."""
    schema = api.get_openapi_schema(path_prefix="/api/v1/")
    return [
        (method.upper(), re.sub(r"{\w+}", VALUES["uuid"], path))
        for path, operations in schema["paths"].items()
        for method in operations
    ]


def pages(patterns=None, before="/"):
    """Yield (name, address) of each page, with values for what the address names."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = before + re.sub(r"<(\w+):\w+>", lambda found: VALUES[found[1]], str(pattern.pattern))
        if hasattr(pattern, "url_patterns"):
            yield from pages(pattern.url_patterns, route)
        else:
            yield pattern.name, route


def test_each_address_of_the_api_says_to_ask_again(away):
    routes, client = api_routes(), Client(raise_request_exception=False)
    assert len(routes) > 200
    for method, address in routes:
        answer = client.generic(method, address, b"{}", content_type="application/json", headers=TOKEN)
        assert answer.status_code == 503, (method, address, answer.content)
        assert answer["Content-Type"] == "application/problem+json", (method, address)
        assert answer["Retry-After"] == "5", (method, address)
        assert answer.json() == {
            "type": "about:blank",
            "title": TITLES[HTTPStatus.SERVICE_UNAVAILABLE],
            "status": 503,
            "detail": outages.WORDS,
        }


def test_each_page_says_so_in_a_sentence(away, settings):
    client = Client(raise_request_exception=False)
    client.cookies[settings.SESSION_COOKIE_NAME] = "0" * 32
    said, answered = 0, set()
    for name, address in pages():
        if address.startswith(("/api/", "/hooks/", "/aap/", "/e2b/", "/admin/")) or "(?P" in address:
            continue
        answer = client.get(address, headers=TOKEN)
        if answer.status_code == 503 and name != "readyz":
            said += 1
            assert answer["Retry-After"] == "5", address
            assert "The database does not answer" in answer.content.decode(), address
        elif answer.status_code not in (302, 404, 405):  # decided before anything is asked
            answered.add((name, answer.status_code))
    assert answered == WITHOUT
    assert said > 100


def test_a_large_body_of_a_hook_waits_as_well(away, monkeypatch):
    monkeypatch.setattr(outages, "PAUSE", 0.05)
    monkeypatch.setattr(body_limits, "HOOK_SECONDS", 1)
    headers = {"authorization": TOKEN["Authorization"]}
    for path, waits in (("/hooks/claude-code", True), ("/api/v1/uploads", False)):
        began = time.monotonic()
        with pytest.raises(OperationalError):
            asyncio.run(body_limits.look_up("POST", path, headers))
        assert (time.monotonic() - began > 0.9) is waits, path


def test_no_agent_gives_up_before_a_large_body_and_its_view_have_waited():
    for dialect in dialects.DIALECTS.values():
        waits = body_limits._patience(f"/hooks/{dialect.name}")
        assert 0 <= waits <= body_limits.HOOK_SECONDS
        assert waits + dialect.patience_s < dialect.hook_patience_s


def away_error() -> OperationalError:
    with pytest.raises(OperationalError) as raised:
        Team.objects.exists()
    return raised.value


async def answer_of_hook(path: str) -> dict:
    """Return what the whole ASGI application answers to a hook."""
    headers = [(b"authorization", TOKEN["Authorization"].encode()), (b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asked = ApplicationCommunicator(application, scope)
    await asked.send_input({"type": "http.request", "body": b'{"hook_event_name": "PreToolUse"}'})
    assert (await asked.receive_output(30))["status"] == 200
    body = json.loads((await asked.receive_output(30))["body"])
    await asked.wait(30)  # Django puts the request away after the answer
    return body


def test_a_hook_whose_time_is_over_is_told_that_nobody_denied(away, settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2
    denied = asyncio.run(answer_of_hook("/hooks/claude-code"))["hookSpecificOutput"]
    assert denied["permissionDecision"] == "deny"
    assert denied["permissionDecisionReason"] == (
        "Handrail's database does not answer, so nothing is allowed. This is not a denial by a person: ask again later."
    )


def test_a_hook_waits_within_its_time(away, settings, monkeypatch):
    monkeypatch.setattr(outages, "PAUSE", 0.05)
    settings.HANDRAIL_HOLD_SECONDS = 1.5
    began = time.monotonic()
    asyncio.run(answer_of_hook("/hooks/claude-code"))
    assert time.monotonic() - began > 1


def test_the_relay_of_models_answers_with_a_status_that_clients_try_again(away):
    key = (b"x-api-key", TOKEN["Authorization"].partition(" ")[2].encode())

    async def ask():
        scope = {"type": "http", "method": "POST", "path": "/models/anthropic/v1/messages", "query_string": b""}
        asked = ApplicationCommunicator(application, scope | {"headers": [(b"host", b"127.0.0.1"), key]})
        await asked.send_input({"type": "http.request", "body": b'{"model": "m"}'})
        return (await asked.receive_output(30))["status"]

    assert asyncio.run(ask()) == 503


def test_what_waits_patiently_goes_on_or_fails_at_its_end(away, monkeypatch):
    monkeypatch.setattr(outages, "PAUSE", 0.01)
    error, calls = away_error(), []

    async def call():
        calls.append(1)
        if len(calls) < 4:
            raise error
        return "back"

    assert asyncio.run(outages.patiently(call)) == "back"
    assert len(calls) == 4
    calls.clear()
    with pytest.raises(OperationalError):
        asyncio.run(outages.patiently(call, until=time.monotonic() - 1))
    assert len(calls) == 1

    async def wrong():
        calls.append(1)
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        asyncio.run(outages.patiently(wrong))
    assert len(calls) == 2


def test_a_long_poll_waits_within_its_time(away, monkeypatch):
    monkeypatch.setattr(outages, "PAUSE", 0.02)
    tries = []

    def look():
        tries.append(1)
        Team.objects.exists()

    with pytest.raises(OperationalError):
        asyncio.run(long_poll.wait_for(look, bool, team_ids=[], timeout=0.3))
    assert len(tries) > 3


def test_one_line_is_logged_of_all_that_fails_meanwhile(away, monkeypatch):
    error, outage, lines = away_error(), logs.Outage(), []
    wrapped = RuntimeError("the job failed")
    wrapped.__cause__ = error
    for each in [error, wrapped] * 50:
        for more in ({"exc_info": (type(each), each, None)}, {"args": (each,)}):
            record = logging.makeLogRecord({"msg": "%s" if "args" in more else "it failed", **more})
            if outage.filter(record):
                lines.append(record.getMessage())
    [line] = lines
    assert "\n" not in line
    assert "the database does not answer" in line
    other = logging.makeLogRecord({"msg": "it failed", "exc_info": (ValueError, ValueError(), None)})
    assert outage.filter(other)
    monkeypatch.setattr(outage, "EVERY", 0)
    outage._next = 0
    assert outage.filter(logging.makeLogRecord({"msg": "%s", "args": (error,)}))
