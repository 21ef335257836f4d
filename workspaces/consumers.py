"""A terminal over a WebSocket (frames: api.md). Bytes come straight from the terminal's host process, never through
a channel layer; what a viewer has not acknowledged is bounded, so one that stalls costs nothing but its place.

A viewer with `?typist=NAME` hears more: `ready` {offset, read_only, live_from, typed}, then {size, cols, rows}, {typed,
count}, {may, read_only} and {sleep, asleep} as they change. It types each byte once whatever breaks: `typed` counts
what arrived, and it says the rest again. {type: reply, data} is what its emulator says by itself: hosts/keyboard.py.
"""

import asyncio
import contextlib
import json
import logging
import time
from urllib.parse import parse_qs
from uuid import UUID

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from dashboard.live import feed
from dashboard.problems import Problem
from dashboard.socket_callers import NOT_SIGNED_IN, RECHECK, who_calls
from workspaces import activity, lifecycle, places, terminals
from workspaces.drivers.base import DriverError
from workspaces.hosts import client
from workspaces.hosts.recording import Gap, Output, Resized
from workspaces.models import State, Terminal, Workspace

logger = logging.getLogger("handrail.terminals")
WINDOW = 256 * 1024  # bytes in flight to a viewer that have not been acknowledged
NO_SUCH = 4404
BROKE = 4500
NONSENSE = 4400
TYPED_TOO_MUCH = 4413
WAITING_INPUT = 1024 * 1024  # typed bytes that wait here because the program does not read
LONGEST_REPLY = 4096
RECHECK_PAUSE = 1.0  # seconds between two looks at who calls, however much happens in the team


class TerminalSocket(AsyncWebsocketConsumer):
    """Output from an offset on; input, resize and acknowledgements the other way, input by those who may type."""

    async def connect(self):
        self._tasks = []
        self._typist: client.Typist | None = None
        caller = await who_calls(self.scope)
        if caller is None:
            await self.close(NOT_SIGNED_IN)
            return
        self._terminal = await sync_to_async(self._find)(caller)
        if self._terminal is None:
            await self.close(NO_SUCH)
            return
        self._caller = caller
        self._may_type = caller.can("type_in_terminal", self._terminal.workspace.team_id)
        self._folder = places.program_of(self._terminal.workspace_id, self._terminal.effect_id)
        self._asked = parse_qs(self.scope["query_string"].decode("latin-1"))
        self._name = self._asked.get("typist", [""])[0][:64]
        self._offset = self._taken = self._asked_number("offset")
        self._acked = asyncio.Event()
        self._input: list[bytes] = []
        self._typed = self._asked_number("typed")
        self._has_input = asyncio.Event()
        self._touched = float("-inf")
        self._asleep = False
        await self.accept()
        work = (self._show(), self._recheck(), self._hand_over())
        self._tasks = [asyncio.create_task(self._or_break(task)) for task in work]

    async def _or_break(self, work):
        """Whatever goes wrong breaks the line, so that the viewer comes again, and is in the log."""
        try:
            await work
        except Exception:
            logger.exception("terminal %s", self._terminal.pk)
            await self.close(BROKE)

    def _find(self, caller) -> Terminal | None:
        try:
            pk = UUID(self.scope["url_route"]["kwargs"]["id"])
        except ValueError:
            return None
        visible = Workspace.objects.visible_to(caller)
        return Terminal.objects.select_related("workspace").filter(pk=pk, workspace__in=visible).first()

    def _asked_number(self, name: str) -> int:
        asked = self._asked.get(name, ["0"])[0]
        return int(asked) if asked.isdecimal() and asked.isascii() and len(asked) < 16 else 0

    async def disconnect(self, code):
        for task in self._tasks:
            task.cancel()
        if self._typist:
            self._typist.close()

    async def _say(self, **frame):
        await self.send(json.dumps(frame))

    async def _tell(self, **frame):
        """Say what only viewers with a name know of."""
        if self._name:
            await self._say(**frame)

    # To the viewer

    async def _show(self):
        await self._until_started()
        joined = await self._join() if self._may_type else {}
        self._typed = joined.get("typed", self._typed)
        live_from = joined.get("live_from", 1 << 53)  # without a word from the host nothing is answered
        await self._say(
            type="ready", offset=self._offset, read_only=not self._may_type, live_from=live_from, typed=self._typed
        )
        await self._tell_sleep(self._terminal.workspace)
        if size := terminals.only_size(self._folder):
            await self._tell(type="size", cols=size[0], rows=size[1])
        async for part in client.attach(self._folder, self._offset, sizes=True):
            if isinstance(part, Output):
                await self._room()
                self._offset = part.offset + len(part.data)
                await self.send(bytes_data=part.data)
            elif isinstance(part, Resized):
                await self._tell(type="size", cols=part.cols, rows=part.rows)
            elif isinstance(part, Gap):
                await self._say(type="gap", **{"from": part.start, "to": part.end})
                self._offset = self._taken = part.end
        status, words = await sync_to_async(terminals.end_of)(self._terminal.pk)
        await self._say(type="exit", status=status, words=words)

    async def _until_started(self):
        """The runner starts it a moment after it was asked for; a terminal that could not start says so by its exit."""
        while not (self._folder / "claim").exists():
            if await sync_to_async(terminals.is_over)(self._terminal.pk):
                break
            await asyncio.sleep(0.1)

    async def _join(self) -> dict:
        self._typist = client.Typist(self._folder)
        self._has_input.set()
        try:
            return await self._typist.join(self._name) if self._name else {}
        except DriverError:
            return {}  # it has ended

    async def _room(self):
        while self._offset - self._taken >= WINDOW:
            self._acked.clear()
            await self._acked.wait()

    async def _recheck(self):
        """Session, role and membership are looked up again when anything happens in the team, else every RECHECK s."""
        team = self._terminal.workspace.team_id
        while True:
            await feed().wait([team], timeout=RECHECK)
            caller = await who_calls(self.scope)
            if caller is None:
                await self.close(NOT_SIGNED_IN)
                return
            if (found := await sync_to_async(self._find)(caller)) is None:
                await self.close(NO_SUCH)
                return
            await self._tell_sleep(found.workspace)
            if caller.can("type_in_terminal", team) != self._may_type:
                await self._may(not self._may_type)
            await asyncio.sleep(RECHECK_PAUSE)

    async def _tell_sleep(self, workspace: Workspace):
        """Its program sleeps with it, or ends: then the exit frame says so."""
        asleep = workspace.state == State.PAUSED
        if asleep != self._asleep:
            self._asleep = asleep
            await self._tell(type="sleep", asleep=asleep)

    async def _may(self, may_type: bool):
        """The role changed. Whoever may type from now on takes a seat by connecting again."""
        self._may_type = may_type
        self._input.clear()
        if self._typist:
            self._typist.close()
            self._typist = None
        await self._tell(type="may", read_only=not may_type)

    # From the viewer

    async def receive(self, text_data=None, bytes_data=None):
        if bytes_data is not None:
            await self._type(bytes_data)
            return
        try:
            frame = json.loads(text_data)
            kind = frame["type"]
            if kind == "ack":
                self._taken = max(self._taken, min(int(frame["offset"]), self._offset))
                self._acked.set()
            elif kind == "resize":
                await self._resize(int(frame["cols"]), int(frame["rows"]))
            elif kind == "reply":
                await self._reply(frame["data"].encode())
        except (ValueError, KeyError, TypeError, AttributeError):
            await self.close(NONSENSE)

    async def _resize(self, cols: int, rows: int):
        if self._may_type and self._typist and 1 <= cols <= 1000 and 1 <= rows <= 1000:
            with contextlib.suppress(DriverError):  # it has just ended; the exit frame is on its way
                await self._typist.resize(cols, rows)

    async def _reply(self, data: bytes):
        if self._may_type and self._typist and len(data) <= LONGEST_REPLY:
            with contextlib.suppress(DriverError):
                await self._typist.reply(data)

    async def _type(self, data: bytes):
        """Somebody who only reads types nothing, whatever the page sends."""
        if not self._may_type:
            return
        if sum(map(len, self._input)) + len(data) > WAITING_INPUT:
            await self.close(TYPED_TOO_MUCH)
            return
        self._input.append(data)
        self._has_input.set()

    async def _hand_over(self):
        """Typed bytes to the host, in order; those that it has no room for wait here."""
        while True:
            await self._has_input.wait()
            self._has_input.clear()
            while self._input and self._typist and self._may_type:
                data = self._input[0]
                try:
                    self._typed = await self._typist.type(data, self._typed)
                except DriverError:
                    if client.status(self._folder).state != "running":
                        self._input.clear()
                        break
                    await asyncio.sleep(0.05)
                    continue
                self._input[:1] = []
                await self._tell(type="typed", count=self._typed)
            await self._touch()

    async def _touch(self):
        if time.monotonic() - self._touched > 5:
            self._touched = time.monotonic()
            await sync_to_async(self._used)()

    def _used(self):
        """Somebody types: that is use, which also wakes a program that sleeps with its workspace."""
        workspace = Workspace.objects.get(pk=self._terminal.workspace_id)
        activity.touch(workspace)
        if workspace.state == State.PAUSED:
            with contextlib.suppress(Problem):  # it has just become something else
                lifecycle.wake(workspace, by=self._caller.actor)
