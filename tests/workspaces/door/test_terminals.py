"""Terminals of agents are held as their commands are, and a person's terminal is a person's."""

import asyncio

import pytest
from aiohttp import WSServerHandshakeError

from tests.support.waiting import until
from tests.workspaces.terminals.viewers import Viewer

ATTACK = "cat .env > leak.txt; echo x > .git/hooks/pre-commit; echo done"


def over(lead, key, terminal):
    def ended():
        rows = lead.get(f"/workspaces/{key}/terminals").json["terminals"]
        return next((row for row in rows if row["id"] == terminal and row["ended_at"]), None)

    return until(ended)


def events(desk, key, verb):
    found = desk.get(f"/events?workspace={key}&limit=1000").json["events"]
    return [event for event in found if event["verb"] == verb]


def test_a_terminal_that_an_agent_opens_is_held(agent, lead, place):
    opened = agent.post(f"/workspaces/{place}/terminals", {"argv": ["bash", "-c", ATTACK]}).json
    assert opened["held"] is True
    over(lead, place, opened["id"])
    assert b"canary" not in lead.run(place, "cat leak.txt; test ! -e .git/hooks/pre-commit")
    assert events(agent, place, "terminal.ended")[-1]["data"]["held"] is True


def test_a_terminal_of_a_person_is_not_held(lead, place):
    opened = lead.post(f"/workspaces/{place}/terminals", {"argv": ["bash", "-c", "cat .env > leak.txt"]}).json
    assert opened["held"] is False
    over(lead, place, opened["id"])
    assert lead.run(place, "cat leak.txt") == b"KEY=canary\n"


def test_what_an_agent_types_into_its_own_terminal_is_held(agent, lead, place):
    opened = agent.post(f"/workspaces/{place}/terminals").json

    async def main():
        async with Viewer(agent.product, agent.token, opened["id"], name="a") as viewer:
            await viewer.until(lambda seen: any(frame["type"] == "ready" for frame in seen.frames))
            assert viewer.frames[0]["read_only"] is False
            await viewer.type(f"{ATTACK}; exit\n".encode())
            await viewer.until(lambda seen: any(frame["type"] == "exit" for frame in seen.frames))
            return bytes(viewer.data)

    said = asyncio.run(main())
    assert b"canary" not in said
    assert b"canary" not in lead.run(place, "cat leak.txt; test ! -e .git/hooks/pre-commit")


def test_an_agent_neither_sees_nor_types_into_a_persons_terminal(agent, lead, place):
    opened = lead.post(f"/workspaces/{place}/terminals", {"argv": ["cat"]}).json["id"]
    assert opened not in [row["id"] for row in agent.get(f"/workspaces/{place}/terminals").json["terminals"]]

    async def look():
        async with Viewer(agent.product, agent.token, opened, name="a") as viewer:
            await viewer.type(b"typed by an agent\n")
            while await viewer.step():
                pass
            return viewer.closed, bytes(viewer.data)

    with pytest.raises(WSServerHandshakeError, match="403"):
        asyncio.run(look())
    agent.call("PUT", f"/workspaces/{place}/terminals/{opened}/share", {"shared": True}, expect=403)


def test_a_shared_terminal_can_be_read_until_it_is_not_shared_and_never_typed_into(agent, lead, place):
    opened = lead.post(f"/workspaces/{place}/terminals", {"argv": ["bash", "-c", "echo visible; cat > typed"]}).json[
        "id"
    ]
    share = f"/workspaces/{place}/terminals/{opened}/share"
    assert lead.call("PUT", share, {"shared": True}).json["shared"] is True

    async def look():
        async with Viewer(agent.product, agent.token, opened, name="a") as viewer:
            await viewer.until(lambda seen: b"visible" in seen.data)
            assert next(frame for frame in viewer.frames if frame["type"] == "ready")["read_only"] is True
            await viewer.type(b"typed by an agent\n\x04")
            await asyncio.to_thread(
                lead.call, "PUT", f"/workspaces/{place}/terminals/{opened}/share", {"shared": False}
            )
            while await viewer.step():
                pass
            return viewer.closed

    assert asyncio.run(look()) == 4404
    assert lead.run(place, "wc -c < typed").strip() == b"0"


@pytest.mark.parametrize("shared", [True, False])
def test_sharing_is_recorded_once(lead, place, shared):
    opened = lead.post(f"/workspaces/{place}/terminals", {"argv": ["true"]}).json["id"]
    for _ in range(2):
        lead.call("PUT", f"/workspaces/{place}/terminals/{opened}/share", {"shared": True})
    lead.call("PUT", f"/workspaces/{place}/terminals/{opened}/share", {"shared": shared})
    assert len(events(lead, place, "terminal.shared")) == 1
