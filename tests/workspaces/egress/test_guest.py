"""The way out of a microVM, through the whole product: lists for each phase, *Ask to allow*, Handrail by its name."""

import json
from contextlib import contextmanager, nullcontext

import pytest

from tests.support.desk import Desk
from tests.workspaces.egress.test_workspace import fetch, rows, token_in

# A program that asks Handrail who it is whenever it is told to, with the token it was started with.
ASKER = r"""(while :; do if [ -e ~/ask ]; then
curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $HANDRAIL_TOKEN" $HANDRAIL_URL/api/v1/me > ~/said
rm ~/ask; fi; sleep 0.2; done) > /dev/null 2>&1 & sleep 1"""
ANSWER = "touch ~/ask; while [ -e ~/ask ]; do sleep 0.2; done; cat ~/said"


@pytest.fixture
def agent(agent):
    patient = Desk(agent.product, agent.token)
    patient.looks = 120  # an emulated guest without a template boots slowly on a busy machine
    return patient


@contextmanager
def moved_away(path):
    path.rename(path.with_name("aside"))
    try:
        yield
    finally:
        path.with_name("aside").rename(path)


@pytest.mark.usefixtures("guests_end")
@pytest.mark.timeout(600)  # emulated guests on a crowded machine
def test_a_guest_has_the_same_way_out_as_every_workspace(agent, reviewer, product, workspace, serve, name_for):
    server, canary = serve(), serve()
    port = server.port
    early, late, asked, never = (name_for(word) for word in ("early", "late", "asked", "never"))
    script = f"({fetch(early, port)}; {fetch(late, port)}) > said"
    key = workspace(script, driver="microvm", setup=[f"{early}:{port}"], agent=[f"{late}:{port}"])

    # While it is set up, the set-up's list; from then on the agent's.
    tries = f"cat said; {fetch(early, port)}; {fetch(late, port)}; {fetch(never, canary.port)}; {fetch(asked, port)}"
    said = agent.run(key, tries)
    assert (said.count(b"hello"), said.count(b"Blocked by Handrail")) == (2, 4)
    assert (canary.connections, bytes(canary.got)) == (0, b"")
    assert [row["host"] for row in rows(agent, key, "blocked", phase="setup")] == [late]
    held = rows(agent, key, "blocked", phase="agent", total=3)
    assert {row["host"] for row in held} == {early, never, asked}
    assert [row["count"] for row in rows(agent, key, "allowed", host=late)] == [1]

    # A person allows a host, and it is reached without a restart of anything.
    reviewer.post(f"/workspaces/{key}/network/allow", {"host": asked, "port": port})
    assert agent.run(key, f"until {fetch(asked, port)} | grep hello; do sleep 0.2; done") == b"hello\n"

    # Handrail itself, to the Run's own token. What runs keeps it over a pause; while it sleeps, and after a start that
    # failed, nobody is taken for it.
    me = 'curl -sS -H "Authorization: Bearer $HANDRAIL_TOKEN" $HANDRAIL_URL/api/v1/me'
    assert json.loads(agent.run(key, me))["name"] == "egress-tests"
    token = token_in(agent, key)
    agent.run(key, ASKER)
    assert agent.run(key, ANSWER) == b"200"
    for what, state, with_images in (("pause", "paused", True), ("resume", "paused", False), ("resume", "ready", True)):
        with nullcontext() if with_images else moved_away(product.home / "images" / "microvm"):
            agent.post(f"/workspaces/{key}/{what}", expect=202)
            assert agent.settled(key)["state"] == state
        assert product.get("/api/v1/me", token).status == (401 if state == "paused" else 200)
    assert agent.run(key, ANSWER) == b"200"
    assert token_in(agent, key) == token
    assert agent.run(key, fetch(late, port)) == b"hello"

    # A fork has a token of its own; a boot has another one, and the old one is dead.
    agent.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"})
    assert agent.settled(f"{key}-fork")["state"] == "ready"
    of_fork = token_in(agent, f"{key}-fork")
    assert product.get("/api/v1/workspaces", of_fork).json["workspaces"][0]["key"] == f"{key}-fork"
    for what in ("pause", "stop", "resume"):
        agent.post(f"/workspaces/{key}/{what}", expect=202)
        agent.settled(key)
    assert len({token, of_fork, token_in(agent, key)}) == 3
    assert product.get("/api/v1/me", token).status == 401
