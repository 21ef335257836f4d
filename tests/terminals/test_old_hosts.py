"""A host lives as long as its program, across an upgrade: one of protocol 1 is watched, typed into and played."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync

from tests.drivers.runs import until
from tests.terminals.conftest import ended, make_row
from tests.terminals.test_who_looks import heard, socket  # noqa: F401 - a fixture
from workspaces import places, terminals
from workspaces.hosts import client
from workspaces.hosts.recording import Output

RECORDED = Path(__file__).parent / "recorded_by_host_1"
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture
def recorded(in_team):
    """A terminal whose folder was left by a host of protocol 1, long ago."""
    terminal = make_row(in_team, "an old one")
    shutil.copytree(RECORDED, places.program_of(in_team.pk, terminal.effect_id))
    yield terminal
    shutil.rmtree(places.folder_of(in_team.pk))


@pytest.fixture
def old_host(in_team):
    """`old_host("cat")`: a Terminal whose live host speaks protocol 1."""
    made = []

    def start(command: str):
        terminal = make_row(in_team, command)
        folder = places.program_of(in_team.pk, terminal.effect_id)
        folder.mkdir(parents=True)
        argv = [sys.executable, "-m", "tests.terminals.host_one", str(folder), command]
        made.append(subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL))
        until(lambda: (folder / "socket").exists())
        return terminal

    yield start
    for host in made:
        host.kill()
        host.wait()
    shutil.rmtree(places.folder_of(in_team.pk), ignore_errors=True)


def test_what_an_old_host_left_is_read_and_played(recorded, browser_of, lena):
    done = ended(recorded)
    assert (done.exit_status, terminals.state_of(done)) == (4, ("quiet", "It ended with status 4."))
    assert b"".join(terminals.log_of(done)) == b"what are you? old\r\nyou are old\r\n40 100\r\n"
    cast = browser_of(lena).get(f"/w/payments/repo/terminals/{done.pk}/cast/")
    _, *events = [json.loads(line) for line in b"".join(cast.streaming_content).splitlines()]
    assert [text for _at, kind, text in events if kind == "r"] == ["90x30", "100x40"]


def test_an_old_host_is_watched_typed_into_and_resized(old_host, socket, lena):  # noqa: F811
    page = socket(lena, old_host("read -r line; echo got $line; stty size; exit 6"))

    async def main():
        opened = page()
        assert (await opened.connect(timeout=10))[0] is True
        ready = await heard(opened, "ready")
        size = await heard(opened, "size")
        await opened.send_to(
            text_data=json.dumps({"type": "reply", "data": "\x1b[0n"})
        )  # it cannot say whose word counts
        await opened.send_to(text_data=json.dumps({"type": "resize", "cols": 100, "rows": 40}))
        await asyncio.sleep(0.3)
        await opened.send_to(bytes_data=b"hello\r")
        typed, printed = await heard(opened, "typed"), b""
        while not printed.endswith(b"40 100\r\n"):
            printed += (await opened.receive_output(10)).get("bytes") or b""
        end = await heard(opened, "exit")
        await opened.disconnect()
        return ready, size, typed, printed, end

    ready, size, typed, printed, end = async_to_sync(main)()
    assert (ready["read_only"], ready["live_from"] > 1 << 50, ready["typed"]) == (False, True, 0)
    assert (size["cols"], size["rows"], typed["count"]) == (90, 30, 6)
    assert printed.endswith(b"got hello\r\n40 100\r\n")
    assert b"[0n" not in printed
    assert (end["status"], end["words"]) == (6, "It ended with status 6.")


def test_much_output_of_an_old_host_arrives_whole(old_host):
    terminal = old_host("stty -opost; seq 1 600000")

    async def read():
        parts = client.attach(terminals.folder_of(terminal), sizes=True)
        return b"".join([part.data async for part in parts if isinstance(part, Output)])

    assert asyncio.run(read()) == "".join(f"{number}\n" for number in range(1, 600_001)).encode()
