"""The socket of a terminal: bytes both ways, offsets, who may type, who has the word."""

import asyncio
import hashlib
import random

import aiohttp
import pytest

from tests.workspaces.terminals.viewers import Viewer

LINES = 60_000


@pytest.fixture
def viewer(product, lead):
    """`viewer(id)`: somebody who may type."""
    return lambda terminal, offset=0, token=None, **more: Viewer(product, token or lead.token, terminal, offset, **more)


def test_typed_text_arrives_and_output_comes_back(opened, viewer):
    async def main():
        async with viewer(opened("read -r line; echo got $line; exit 7")) as lena:
            await lena.type(b"hello\r")
            end = await lena.to_the_end()
            return lena, end

    lena, end = asyncio.run(main())
    assert bytes(lena.data) == b"hello\r\ngot hello\r\n"
    assert end == {"type": "exit", "status": 7, "words": "Exited (7)."}
    assert lena.frames[0]["type"] == "ready"
    assert (lena.frames[0]["offset"], lena.frames[0]["read_only"]) == (0, False)
    assert [frame["type"] for frame in lena.frames] == ["ready", "exit"]  # what api.md names, and nothing else


def test_any_offset_can_be_asked_for_long_after_the_end(opened, viewer):
    async def main():
        terminal = opened("printf 'abcdefghij'")
        async with viewer(terminal) as first:
            await first.to_the_end()
        async with viewer(terminal, offset=7) as later:
            end = await later.to_the_end()
        return first, later, end

    first, later, end = asyncio.run(main())
    assert (bytes(first.data), bytes(later.data)) == (b"abcdefghij", b"hij")
    assert (later.frames[0]["offset"], end["status"]) == (7, 0)


def test_looking_at_a_terminal_that_has_ended_resumes_nothing(lead, viewer):
    key = lead.create()["key"]
    terminal = lead.post(f"/workspaces/{key}/terminals", {"argv": ["bash", "-c", "echo over"]}).json["id"]

    async def look(*typed):
        async with viewer(terminal) as lena:
            end = await lena.to_the_end()
            for data in typed:
                await lena.type(data)
            return end

    assert asyncio.run(look())["status"] == 0
    lead.post(f"/workspaces/{key}/pause", expect=202)
    assert lead.settled(key)["state"] == "paused"
    assert asyncio.run(look(b"ls\r"))["status"] == 0
    asked = lead.get(f"/workspaces/{key}/operations").json["operations"]
    assert (lead.settled(key)["state"], {each["kind"] for each in asked}) == ("paused", {"create", "pause"})


def test_a_terminal_that_cannot_start_says_why(lead, place, viewer):
    terminal = lead.post(f"/workspaces/{place}/terminals", {"argv": ["/nowhere/tool"]}).json["id"]

    async def main():
        async with viewer(terminal) as lena:
            return await lena.to_the_end()

    assert asyncio.run(main()) == {
        "type": "exit",
        "status": None,
        "words": "it could not be started: /nowhere/tool: No such file or directory",
    }


def test_a_hundred_dropped_lines_lose_and_double_nothing(opened, viewer):
    chance = random.Random(5)

    async def main():
        terminal, data, drops = opened(f"stty -opost; seq 1 {LINES}; read -r; seq 1 {LINES}"), bytearray(), 0
        while drops < 100:
            async with viewer(terminal, offset=len(data)) as lena:
                if drops == 50:
                    await lena.type(b"\n")
                for _ in range(chance.randrange(1, 4)):
                    try:
                        await lena.step(0.05)
                    except TimeoutError:
                        break
                data += lena.data
                lena.drop()
                drops += 1
        async with viewer(terminal, offset=len(data)) as lena:
            await lena.to_the_end()
            return bytes(data + lena.data)

    whole = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()
    found = asyncio.run(main())
    assert (
        hashlib.sha256(found.replace(b"\r\n", b"\n", 1)).hexdigest()
        == hashlib.sha256(whole + b"\n" + whole).hexdigest()
    )


def test_a_viewer_cannot_type_resize_or_reply(opened, viewer, reader):
    async def main():
        terminal = opened("stty size; read -r line; echo got $line; stty size")
        async with viewer(terminal, token=reader, name="vera") as vera, viewer(terminal) as lena:
            await vera.sees(b"24 80\r\n")
            await vera.type(b"rm -rf /\r")
            await vera.say(type="reply", data="\x1b[0n")
            await vera.say(type="resize", cols=50, rows=50)
            await vera.rests()
            await lena.type(b"fine\r")
            await lena.to_the_end()
            await vera.to_the_end()
        return vera, lena

    vera, lena = asyncio.run(main())
    assert vera.frames[0]["read_only"] is True
    assert bytes(vera.data) == bytes(lena.data) == b"24 80\r\nfine\r\ngot fine\r\n24 80\r\n"


def test_strangers_and_nobody_are_refused(opened, product):
    terminal = opened("sleep 30")
    stranger = product.agent_token("stranger-to-terminals")

    async def refused(token):
        async with Viewer(product, token, terminal):
            pass

    for token in ("", "hr_wrong", stranger):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refusal:
            asyncio.run(refused(token))
        assert refusal.value.status == 403
    with pytest.raises(aiohttp.WSServerHandshakeError):
        asyncio.run(refused_other_origin(product, terminal))


async def refused_other_origin(product, terminal):
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{product.url}/ws/terminals/{terminal}", headers={"Origin": "https://evil.example"}),
    ):
        pass


@pytest.mark.parametrize("text", ["", "no json", "[]", "7", '{"type": "ack", "offset": "many"}', '{"type": "resize"}'])
def test_a_frame_that_makes_no_sense_ends_the_line_and_not_the_terminal(opened, viewer, text):
    async def main():
        terminal = opened("read -r line; echo got $line")
        async with viewer(terminal) as odd:
            await odd.frame("ready")
            await odd.socket.send_str(text)
            code = await odd.closes()
        async with viewer(terminal) as lena:
            await lena.type(b"on\r")
            return code, await lena.to_the_end()

    code, end = asyncio.run(main())
    assert (code, end["status"]) == (4400, 0)


def test_what_a_typist_typed_arrives_once_although_the_line_broke(opened, viewer):
    async def main():
        terminal = opened("stty raw -echo; echo ready; head -c 12; echo; sleep 30")
        async with viewer(terminal, name="lena") as lena:
            await lena.sees(b"ready")
            await lena.type(b"abcdef")
            await lena.until(lambda v: any(f["type"] == "typed" and f["count"] == 6 for f in v.frames))
            lena.drop()
        # It heard of two bytes only, and says again what it was not told of.
        async with viewer(terminal, name="lena", typed=2) as again:
            ready = await again.frame("ready")
            await again.type(b"abcdefghijkl"[ready["typed"] :])
            await again.sees(b"abcdefghijkl")
            return ready["typed"], bytes(again.data)

    typed, data = asyncio.run(main())
    assert typed == 6
    assert data.count(b"abcdef") == 1


def test_what_an_older_line_hands_over_late_does_not_arrive_twice(opened, viewer):
    """The page came back and sent everything again before what it had sent on the broken line was handed over."""

    async def main():
        terminal = opened("stty raw -echo; echo ready; head -c 5; echo; sleep 30")
        async with viewer(terminal, name="lena") as older, viewer(terminal, name="lena") as newer:
            await older.sees(b"ready")
            await newer.sees(b"ready")
            for line in (newer, older):
                for letter in (b"a", b"b", b"c"):
                    await line.type(letter)
                await line.until(lambda v: sum(f["type"] == "typed" for f in v.frames) == 3)
            await newer.type(b"de")
            await newer.sees(b"abcde")

    asyncio.run(main())


def test_more_than_a_program_takes_ends_the_line_of_who_types_it(opened, viewer):
    async def main():
        async with viewer(opened("stty raw -echo; echo ready; sleep 30"), name="lena") as lena:
            await lena.sees(b"ready")
            for _ in range(48):
                await lena.type(b"x" * 65536)
            return await lena.closes()

    assert asyncio.run(main()) == 4413


def test_a_long_paste_arrives_whole(opened, viewer):
    paste = bytes(random.Random(3).choices(b"abcdefghijklmnopqrstuvwxyz \n", k=700_000))

    async def main():
        async with viewer(opened("stty raw -echo; echo ready; head -c 700000 | sha256sum"), name="lena") as lena:
            await lena.sees(b"ready")
            for at in range(0, len(paste), 16384):
                await lena.type(paste[at : at + 16384])
            await lena.to_the_end()
            return bytes(lena.data)

    assert hashlib.sha256(paste).hexdigest().encode() in asyncio.run(main())


def test_replies_count_from_one_viewer_only_the_one_that_typed_last(opened, viewer):
    async def main():
        terminal = opened("stty raw -echo; echo ready; head -c 12; echo end; sleep 30")
        async with viewer(terminal, name="lena") as lena:
            await lena.sees(b"ready")  # the first to come has the word, so otto comes when she is there
            async with viewer(terminal, name="otto") as otto:
                await otto.sees(b"ready")
                await lena.say(type="reply", data="[L]")
                await lena.rests(0.3)
                await otto.say(type="reply", data="[o]")
                await otto.rests(0.3)
                await otto.type(b"typed")
                await otto.frame("typed")
                await lena.say(type="reply", data="[l]")
                await lena.rests(0.3)
                await otto.say(type="reply", data="[O]")
                await otto.type(b".")
                await otto.sees(b"end")
                return bytes(otto.data)

    assert asyncio.run(main()).split(b"ready")[1].strip() == b"[L]typed[O].end"


def test_what_was_asked_before_anybody_looked_is_answered_only_while_it_is_fresh(opened, viewer):
    async def main():
        terminal = opened("printf asked; sleep 30")
        async with viewer(terminal, name="lena") as lena:
            first = await lena.frame("ready")
            await lena.sees(b"asked")
            async with viewer(terminal, name="otto") as otto:
                second = await otto.frame("ready")
        async with viewer(terminal, name="lena") as again:
            third = await again.frame("ready")
        return first["live_from"], second["live_from"], third["live_from"]

    # The first answers all; with somebody there all so far is history; and so is what the last one saw.
    assert asyncio.run(main()) == (0, 5, 5)


def test_the_size_is_that_of_who_typed_last_and_everybody_hears_of_it(opened, viewer, reader):
    async def main():
        terminal = opened()
        async with viewer(terminal, name="vera", token=reader) as vera, viewer(terminal, name="lena") as lena:
            await vera.frame("ready")
            await lena.frame("ready")  # before otto comes: the first who may type says how large it is
            async with viewer(terminal, name="otto") as otto:
                await otto.frame("ready")
                await lena.say(type="resize", cols=100, rows=30)
                await lena.until(lambda v: {"type": "size", "cols": 100, "rows": 30} in v.frames)
                await otto.say(type="resize", cols=40, rows=50)
                await otto.rests(0.3)
                await otto.type(b"echo\r")
                await otto.frame("typed")
                await otto.say(type="resize", cols=41, rows=51)
                await otto.until(lambda v: {"type": "size", "cols": 41, "rows": 51} in v.frames)
                await vera.until(lambda v: {"type": "size", "cols": 41, "rows": 51} in v.frames)
                return [(f["cols"], f["rows"]) for f in vera.frames if f["type"] == "size"]

    assert asyncio.run(main())[-2:] == [(100, 30), (41, 51)]


def test_a_pause_ends_the_terminal_in_words(lead, viewer):
    key = lead.create()["key"]
    terminal = lead.post(f"/workspaces/{key}/terminals", {"argv": ["sleep", "100"]}).json["id"]

    async def main():
        async with viewer(terminal) as lena:
            await lena.frame("ready")
            await asyncio.to_thread(lead.post, f"/workspaces/{key}/pause", expect=202)
            return await lena.to_the_end()

    words = "Ended when the workspace was paused."
    assert asyncio.run(main()) == {"type": "exit", "status": None, "words": words}
    lead.settled(key)

    async def look_again():
        async with viewer(terminal) as lena:
            return await lena.to_the_end()

    assert asyncio.run(look_again())["words"] == words
