"""Whether a Run lives is asked on the runner's event loop, which goes on meanwhile, whoever has to answer."""

import asyncio
import os
from contextlib import AsyncExitStack

import pytest

from dashboard.files.locks import take_lock
from workspaces.drivers.base import Address, DriverError, RunRecord, get_driver
from workspaces.drivers.processes import boot_id, this_host

# What a runner that was killed left of a Run, and who is asked then. The marks are those of a pause and of a resume.
LEFT = {"up": "", "ended": "docker", "pausing": "microvm", "filling": "microvm"}


class Left:
    """A Run whose runner was killed; its engine, its QEMU and its init listen, answer nothing, and end once asked."""

    def __init__(self, name: str, left: str, ground):
        home, runtime = ground / "h", ground / "r"
        folder = home / "runs" / "one"
        folder.mkdir(parents=True)
        runtime.mkdir()
        self.addresses = [runtime / "one", runtime / "one.qmp", runtime / "engine"]
        self.driver = get_driver(name, home, runtime, {"address": f"unix://{runtime}/engine"})
        where = {"address": Address(str(runtime / "one")), "tree": str(ground / "tree"), "home": str(home)}
        who = {"host": this_host(), "boot_id": boot_id(), "uid": os.getuid(), "workspace_id": "1"}
        self.record = RunRecord(driver=name, run_id="one", **who, **where)
        (folder / "record.json").write_text(self.record.to_json())
        self.lock = None if left == "ended" else take_lock(folder / "lock")
        if left in ("pausing", "filling"):
            (folder / left).write_text("memory")
        self.heard = []  # for each connection, whether the loop took it before the driver had its answer

    async def ask(self):
        """Return what `alive` answers, a DriverError too. Whoever is asked is served by the loop that asks."""
        async with AsyncExitStack() as listening:
            for address in self.addresses:
                await listening.enter_async_context(await asyncio.start_unix_server(self.hear, address))
            self.asking = asyncio.create_task(self.driver.alive(self.record))
            try:
                return await self.asking
            except DriverError as error:
                return error

    def hear(self, _reader, writer):
        self.heard.append(not self.asking.done())
        self.end()
        writer.close()

    def end(self):
        if self.lock is not None:
            os.close(self.lock)
        self.lock = None


@pytest.mark.parametrize("left", LEFT)
def test_the_loop_goes_on_while_a_driver_finds_out_whether_a_run_lives(driver_name, left, ground):
    run = Left(driver_name, left, ground)
    try:
        answer = asyncio.run(run.ask())
    finally:
        run.end()
    asked = LEFT[left] == driver_name
    assert (bool(run.heard), all(run.heard)) == (asked, True)
    if not asked:
        assert answer is (left != "ended")
    else:
        assert isinstance(answer, DriverError) if driver_name == "docker" else answer is False
