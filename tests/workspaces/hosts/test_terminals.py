"""A terminal of one host through the web of another: typed into, followed, and nothing lost when that web dies."""

import asyncio
import os
import signal

from tests.support.waiting import until
from tests.workspaces.terminals.viewers import Viewer

LINES = 60_000


def opened(both_hosts, command: str = "") -> str:
    argv = {"argv": ["bash", "-c", command]} if command else {}
    return both_hosts.through_other.post("/workspaces/far/terminals", argv).json["id"]


def test_what_is_typed_at_another_web_arrives_once(both_hosts):
    terminal = opened(both_hosts)

    async def use():
        async with Viewer(both_hosts.other, both_hosts.token, terminal, name="one") as viewer:
            await viewer.frame("ready")
            await viewer.type(b"echo $((40 + 2))-here; exit 3\n")
            await viewer.sees(b"42-here")
            return await viewer.to_the_end()

    assert asyncio.run(use())["status"] == 3


def test_viewers_of_two_webs_see_each_other(both_hosts):
    terminal = opened(both_hosts, "cat")

    async def look():
        async with Viewer(both_hosts.other, both_hosts.token, terminal, name="one") as here:
            await here.frame("ready")
            async with Viewer(both_hosts.own, both_hosts.token, terminal, name="two") as there:
                await there.frame("ready")
                await here.until(lambda viewer: any(len(f.get("people", ())) == 1 for f in viewer.frames))
                await there.type(b"both\n")
                await here.sees(b"both")

    asyncio.run(look())


def test_a_web_that_is_killed_loses_no_byte_of_a_terminal(both_hosts):
    terminal = opened(both_hosts, f"for ((i = 0; i < {LINES}; i++)); do echo line $i; done; sleep 1")
    wanted = b"".join(b"line %d\r\n" % number for number in range(LINES))
    seen = bytearray()

    async def follow():
        killed, at = False, both_hosts.other
        while True:
            try:
                async with Viewer(at, both_hosts.token, terminal, len(seen)).forgets(seen.extend) as viewer:
                    while await viewer.step():
                        if not killed and len(seen) > len(wanted) // 3:
                            os.kill(at.part_pid("web"), signal.SIGKILL)
                            killed, at = True, both_hosts.own
                        if viewer.frames and viewer.frames[-1]["type"] == "exit":
                            return
            except OSError:
                await asyncio.sleep(0.1)

    asyncio.run(follow())
    assert bytes(seen) == wanted
    until(lambda: _answers(both_hosts.other))


def _answers(product) -> bool:
    try:
        return product.get("/healthz").status == 200
    except OSError:
        return False
