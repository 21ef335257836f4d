"""Programs under their hosts over a pause that keeps memory: they go on where they were, and are heard to their end."""

import asyncio
from dataclasses import asdict

import pytest

from tests.support.waiting import until
from workspaces.shim import client
from workspaces.shim.record import ShimSpec
from workspaces.shim.recording import Output, Reader

COUNTS = 'n=0; while [ ! -e enough ]; do echo "$n"; n=$((n+1)); done; exit 7'


class Program:
    """One under a host process, in a folder of its own."""

    def __init__(self, guest, folder, command: str, **how):
        self.guest, self.folder = guest, folder
        asyncio.run(client.start(folder, ShimSpec.shell(command, guest.owner.address, **how)))

    def tell(self, op: str, **fields) -> dict:
        return asyncio.run(client.request(self.folder, {"op": op, **fields}))

    def type(self, text: str):
        asyncio.run(client.send_input(self.folder, text.encode()))

    def said(self) -> bytes:
        reader = Reader(self.folder, 0)
        try:
            found = b""
            while (part := reader.next(1 << 18)) is not None:
                assert isinstance(part, Output)
                found += part.data
            return found
        finally:
            reader.close()

    def end(self):
        return asyncio.run(client.wait(self.folder, 60)).exit


def sleep(guest, *programs):
    guest.do.freeze(guest.owner)
    for program in programs:
        program.tell("suspend")
    guest.pause()
    assert [program.tell("suspended")["suspended"] for program in programs] == [True] * len(programs)


def wake(guest, *programs):
    guest.resume()
    for program in programs:
        program.tell("resume", address=asdict(guest.owner.address))
    guest.do.thaw(guest.owner)


@pytest.fixture
def programs(guest, tmp_path):
    made = []

    def make(command: str, **how) -> Program:
        made.append(Program(guest, tmp_path / f"program-{len(made)}", command, **how))
        return made[-1]

    yield make
    for program in made:
        asyncio.run(client.cancel(program.folder))


def test_commands_and_terminals_go_on_after_each_pause_and_no_byte_is_lost(guest, programs):
    counts, shell = programs(COUNTS), programs("exec sh", pty=True)
    timed = programs("sleep 1000", timeout_s=600)
    until(lambda: len(counts.said()) > 2000, 60)
    shell.type("x=41\n")
    until(lambda: b"x=41" in shell.said(), 60)
    for round_ in range(2):
        before = len(counts.said())
        sleep(guest, counts, shell, timed)
        shell.type(f"echo $((x+{round_ + 1})) of round {round_}\n")  # while it sleeps
        shell.tell("resize", cols=100 + round_, rows=30)
        wake(guest, counts, shell, timed)
        until(lambda before=before: len(counts.said()) > before + 2000, 60)
        until(lambda round_=round_: f"{42 + round_} of round {round_}".encode() in shell.said(), 60)
    shell.type("stty size; exit 3\n")
    guest.sh("touch enough")
    end, of_shell = counts.end(), shell.end()
    assert (end.reason, end.exit_status, of_shell.reason, of_shell.exit_status) == ("exited", 7, "exited", 3)
    assert b"30 101" in shell.said()
    numbers = counts.said().split()
    assert numbers == [b"%d" % n for n in range(len(numbers))]
    timed.tell("cancel")
    assert timed.end().reason == "cancelled"


def test_what_is_not_woken_says_so_and_goes_on_unheard(guest, programs):
    lonely, ended = programs("while :; do date; date > beat; sleep 0.1; done"), programs("sleep 0.1; exit 4")
    assert ended.end().exit_status == 4
    unwanted = programs("sleep 1000")
    until(lambda: guest.sh("ls beat || true"))
    sleep(guest, lonely, unwanted)
    unwanted.tell("cancel")  # heard when it wakes
    wake(guest, unwanted)
    assert unwanted.end().reason == "cancelled"
    lonely.tell("discard", why="nobody came for it.")
    end = lonely.end()
    assert (end.reason, end.message()) == ("forgotten", "it ended while its workspace was paused: nobody came for it.")
    before = guest.sh("cat beat")
    until(lambda: guest.sh("cat beat") != before)
