"""What no operation takes is refused as a problem (RFC 9457), in words that name what the caller wrote."""

import pytest
from django.test import Client

from dashboard.api import api as handrail_api

pytestmark = pytest.mark.django_db

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
FILLED = "00000000-0000-0000-0000-000000000001"


def addresses():
    """Yield (path with its parameters filled in, the methods that it takes) of each address of the API."""
    for path, operations in handrail_api.get_openapi_schema()["paths"].items():
        parts = ["1" if part in ("{n}", "{number}") else FILLED if "{" in part else part for part in path.split("/")]
        yield "/".join(parts), {method.upper() for method in operations}


def test_a_method_that_an_address_does_not_take_is_a_problem():
    client, refused = Client(), 0
    for path, taken in addresses():
        method = next((method for method in METHODS if method not in taken), None)
        if method is None:
            continue
        answer = client.generic(method, path)
        if answer.status_code == 404:  # what was filled in fits no address of its own
            continue
        allowed = set(answer["Allow"].split(", "))
        assert (answer.status_code, answer["Content-Type"]) == (405, "application/problem+json"), (method, path)
        assert answer.json()["allowed"] == sorted(allowed)
        assert method not in allowed
        assert taken <= allowed
        refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=zzz", "state"), ("trashed=perhaps", "trashed")],
)
def test_a_parameter_is_named_as_it_was_written(api, agent_token, query, field):
    answer = api(agent_token).get(f"/api/v1/workspaces?{query}")
    assert answer.status_code == 422
    found = answer.json()
    assert found["detail"].startswith(f"{field}: "), found
    assert found.get("field", field) == field
