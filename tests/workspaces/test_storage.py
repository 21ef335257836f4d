"""The team's store over the API: the runner does the work, and says how it ended."""

import time

import pytest


@pytest.fixture(scope="module")
def admin_token(product):
    return product.person_token("admin-of-storage", "admin")


def ended(product, token, work):
    """The store once that work is not under way (at most two minutes)."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = product.call("GET", "/api/v1/storage", token).json
        if work not in found["work"] or found["work"][work]["ended_at"]:
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def test_a_store_is_checked_weighed_and_freed(product, desk, admin_token):
    key = desk.create()["key"]
    product.call("PUT", f"/api/v1/workspaces/{key}/files/notes.txt", desk.token, b"kept\n" * 1000)
    desk.post(f"/workspaces/{key}/snapshots")
    for work, wish in (("check", {"full": True}), ("collect", {})):
        ended(product, admin_token, work)  # one that is under way would be joined, and knows nothing of this
        answer = product.call("POST", f"/api/v1/storage/{work}", admin_token, wish)
        assert (answer.status, answer.json["ended_at"]) == (202, None)
        found = ended(product, admin_token, work)
        assert found["work"][work]["ok"] is True, found
    assert found["work"]["check"]["full"] is True
    assert [row["frees"] > 0 for row in found["workspaces"] if row["key"] == key] == [True]


def test_agents_and_those_below_an_admin_have_nothing_done(product, token, lead_token):
    assert product.call("GET", "/api/v1/storage", token).status == 403
    assert product.call("GET", "/api/v1/storage", lead_token).status == 200
    for who in (token, lead_token):
        assert product.call("POST", "/api/v1/storage/repair", who, {}).status == 403
    assert product.call("POST", "/api/v1/storage/burn", lead_token, {}).status == 422
