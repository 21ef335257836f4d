"""A program that prints without end and a viewer that stalls: memory stays bounded, nobody else is harmed."""

import asyncio
import hashlib
import json
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from tests.workspaces.terminals.viewers import Viewer

SIZE = 200_000_000
COMMAND = f"seq 1 40000000 | head -c {SIZE}"
MIB = 1 << 20


@pytest.fixture(scope="module")
def reviewer(product):
    return product.person_token("rita-of-terminals", "reviewer")


def resident(pid: int) -> int:
    """Bytes of memory of a process; 0 for one that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def host_of(product) -> int:
    """The process id of the host process of the newest terminal."""
    claims = product.home.glob("workspaces/*/programs/*/claim")
    return json.loads(max(claims, key=lambda claim: claim.stat().st_mtime_ns).read_text())["pid"]


async def answer_in(product, agent_token, reviewer, number: int) -> float:
    """Seconds from an agent's question to the agent's knowing of the answer."""

    def ask():
        began = time.monotonic()
        call = {"tool": "Bash", "arguments": {"command": f"git push origin main:{number}"}, "mode": "gate"}
        asked = product.post("/api/v1/actions", agent_token, call).json
        verdict = {"verdict": "approve", "digest": asked["digest"]}
        assert product.post(f"/api/v1/actions/{asked['id']}/decision", reviewer, verdict).status == 200
        assert product.get(f"/api/v1/actions/{asked['id']}?wait=5", agent_token).json["status"] == "approved"
        return time.monotonic() - began

    return await asyncio.to_thread(ask)


def test_two_hundred_megabytes_beside_a_viewer_that_stalls(product, lead, opened, reader, reviewer):
    terminal = opened(f"stty -opost -echo; echo ready; read -r; {COMMAND}")
    agent = product.agent_token("asks-during-the-flood")
    viewers = [Viewer(product, token, terminal) for token in (lead.token, reader, reader)]
    lena, vera, stalled = viewers
    digests = {viewer: hashlib.sha256() for viewer in viewers}
    answers, most = [], [0, 0]

    async def main():
        async with lena, vera, stalled:
            for viewer in viewers:
                await viewer.sees(b"ready\n")
                viewer.forgets(digests[viewer].update)
            before = resident(product.part_pid("web")), resident(host_of(product))
            await lena.type(b"\n")
            reading = asyncio.gather(lena.to_the_end(150), vera.to_the_end(150))
            while not reading.done():
                answers.append(await answer_in(product, agent, reviewer, len(answers)))
                for number, pid in enumerate((product.part_pid("web"), host_of(product))):
                    most[number] = max(most[number], resident(pid) - before[number])
                await asyncio.sleep(0.2)
            ends = await reading
        # The one that stalled (whose line a server may have given up) comes back to where it was: the beginning, a gap
        # that is marked, the end.
        async with Viewer(product, reader, terminal, stalled.offset).forgets(lambda data: None) as again:
            ends.append(await again.to_the_end(60))
        stalled.gaps, stalled.offset = again.gaps, again.offset
        return ends

    ends = asyncio.run(main())
    whole = subprocess.run(["bash", "-c", f"{COMMAND} | sha256sum"], capture_output=True, text=True, check=True)
    assert (lena.gaps, vera.gaps, len(stalled.gaps)) == ([], [], 1)
    assert [digests[viewer].hexdigest() for viewer in (lena, vera)] == [whole.stdout.split()[0]] * 2
    assert [end["status"] for end in ends] == [0, 0, 0]
    assert [viewer.offset for viewer in viewers] == [SIZE + len(b"ready\n")] * 3
    assert (statistics.median(answers) < 2, len(answers) > 1) == (True, True), answers
    assert [most[0] < 48 * MIB, most[1] < 16 * MIB] == [True, True], most


def test_what_nobody_takes_is_not_sent(product, lead, opened):
    """A viewer that acknowledges nothing is sent 256 KiB and the rest of one piece, and no more."""

    async def main():
        async with Viewer(product, lead.token, opened("head -c 3000000 /dev/zero")) as lena:
            lena.acked = 1 << 60  # never says that it took anything
            await lena.until(lambda viewer: viewer.offset >= 256 * 1024)
            await lena.rests(1.5)
            sent = lena.offset
            await lena.say(type="ack", offset=sent)
            lena.acked = sent
            await lena.to_the_end()
            return sent, lena.offset

    sent, whole = asyncio.run(main())
    assert 256 * 1024 <= sent < 256 * 1024 + 65536
    assert whole == 3_000_000
