"""Who else has a terminal open, and who types, as frames of the socket."""

import asyncio

from tests.support.desk import Desk
from tests.workspaces.terminals.viewers import Viewer


async def told(viewer, holds):
    return await viewer.until(
        lambda v: next((f for f in reversed(v.frames) if f["type"] == "people" and holds(f["people"])), None)
    )


def test_a_program_that_looks_or_types_over_the_api_is_named(product, lead, opened):
    typist = Desk(product, product.person_token("otto-of-terminals", "lead"))

    async def main():
        terminal = opened("cat")
        async with Viewer(product, lead.token, terminal, name="lena") as lena:
            assert (await told(lena, lambda people: True))["people"] == []
            async with Viewer(product, typist.token, terminal) as otto:
                come = await told(lena, lambda people: people)
                await otto.type(b"x")
                types = await told(lena, lambda people: people and people[0]["typing"])
                rests = await told(lena, lambda people: people and not people[0]["typing"])
                await otto.rests()
                assert [frame["type"] for frame in otto.frames] == ["ready"]  # frames that it knows, and nothing else
                otto.drop()
            gone = await told(lena, lambda people: not people)
            return come["people"], types["people"], rests["people"], gone["people"]

    otto = {"name": "otto-of-terminals", "you": False}
    assert asyncio.run(main()) == (
        [otto | {"typing": False}],
        [otto | {"typing": True}],
        [otto | {"typing": False}],
        [],
    )


def test_hidden_characters_of_an_agents_name_are_seen(product, lead):
    agent = Desk(product, product.agent_token("bot\u202egnipyt"))
    key = agent.create()["key"]
    terminal = agent.post(f"/workspaces/{key}/terminals", {"argv": ["cat"]}).json["id"]

    async def main():
        async with (
            Viewer(product, lead.token, terminal, name="lena") as lena,
            Viewer(product, agent.token, terminal),
        ):
            return await told(lena, lambda people: people)

    assert asyncio.run(main())["people"] == [{"name": "bot\ufffdgnipyt", "you": False, "typing": False}]


def test_a_question_whether_it_is_alive_is_answered(product, lead, opened):
    async def main():
        async with Viewer(product, lead.token, opened("cat"), name="lena") as lena:
            await lena.frame("ready")
            await lena.say(type="alive")
            return await lena.frame("alive")

    assert asyncio.run(main()) == {"type": "alive"}
