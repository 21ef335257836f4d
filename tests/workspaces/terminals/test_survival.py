"""Terminals outlive web and runner."""

import asyncio
import os
import signal

import aiohttp

from tests.workspaces.terminals.viewers import Viewer

LINES = 400


def kill_both(product):
    for name in ("web", "runner"):
        os.kill(product.part_pid(name), signal.SIGKILL)


def test_web_and_runner_are_killed_while_somebody_types(product, lead, opened):
    """Every line that was typed arrives once and in order, and every byte that was printed is seen once."""
    text = b"".join(b"line %d\n" % number for number in range(LINES))

    async def main():
        terminal = opened(f"stty -icanon -echo; echo ready; head -n {LINES} | tee typed | sed s/line/got/; sleep 1")
        seen, said, kills = bytearray(), 0, 0
        while b"got %d\r\n" % (LINES - 1) not in seen:
            try:
                async with Viewer(product, lead.token, terminal, len(seen), name="lena", typed=said) as lena:
                    said = (await lena.frame("ready"))["typed"]
                    while b"got %d\r\n" % (LINES - 1) not in seen:
                        chunk = text[said : said + 7]
                        if chunk and b"ready" in seen:  # before stty has run, the terminal would echo it
                            await lena.type(chunk)
                            said += len(chunk)
                        if kills < 1 and said > len(text) // 2:
                            kills += 1
                            kill_both(product)
                        alive = await _take(lena, seen)
                        if not alive:
                            break
            except (aiohttp.ClientError, OSError, AssertionError):
                await asyncio.sleep(0.2)
        return bytes(seen), kills

    seen, kills = asyncio.run(asyncio.wait_for(main(), 90))
    product.wait_for("/readyz", within=60)
    assert kills == 1
    assert seen == b"ready\r\n" + text.replace(b"line", b"got").replace(b"\n", b"\r\n")
    assert lead.get("/workspaces/terminals/files/typed").body == text


async def _take(lena, seen) -> bool:
    before = len(lena.data)
    try:
        alive = await lena.step(0.02)
    except TimeoutError:
        return True
    seen += lena.data[before:]
    return alive
