"""A server of the database that is away: pages and the API say so, with 503, and no other error does."""

import psycopg
import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import Client

from workspaces.models import Environment, Workspace

pytestmark = pytest.mark.django_db


def refusing(error):
    def refuse(execute, sql, params, many, context):
        raise error

    return connection.execute_wrapper(refuse)


def away(kind):
    error = kind("connection failed")
    error.__cause__ = psycopg.OperationalError("connection failed")  # as Django raises it
    return error


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
@pytest.mark.parametrize("path", ["/", "/waiting/", "/workspaces/", "/log/", "/policy/"])
def test_a_page_says_that_the_database_does_not_answer(alice, browser_of, path, kind):
    client = browser_of(alice)
    client.raise_request_exception = False
    with refusing(away(kind)):
        answer = client.get(path)
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert "The database does not answer" in answer.content.decode()


def test_another_error_is_an_internal_one(alice, browser_of):
    client = browser_of(alice)
    client.raise_request_exception = False
    with refusing(OperationalError("malformed")):
        answer = client.get("/waiting/")
    assert (answer.status_code, "Internal error" in answer.content.decode()) == (500, True)


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_the_api_says_it_to_programs(kind):
    with refusing(away(kind)):
        answer = Client(headers={"Authorization": "Bearer hr_x"}).get("/api/v1/me")
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")


def test_a_full_disk_is_said_where_a_request_becomes_an_action(team, agent, agent_token, api):
    environment = Environment.objects.create(team=team, name="boxes", driver="sandbox")
    source = {"git": "https://host.example/app.git"}
    Workspace.objects.create(
        team=team, key="ws", environment=environment, state="ready", created_by_agent=agent, source=source
    )

    def refuse(execute, sql, params, many, context):
        if sql.startswith("INSERT") and "approvals_action" in sql:
            raise OperationalError("database or disk is full")
        return execute(sql, params, many, context)

    client, path = api(agent_token), "/api/v1/workspaces/ws/push"
    client.raise_request_exception = False
    with connection.execute_wrapper(refuse):
        answer = client.post(path, {"branch": "day"}, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (507, "application/problem+json")
    assert client.post(path, {"branch": "day"}, content_type="application/json").status_code == 202
