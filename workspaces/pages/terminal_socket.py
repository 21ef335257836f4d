"""A terminal over a WebSocket (frames: api.md).

Output comes from the terminal's shim (by way of its runner, if that is another host's), never through a channel layer.
At most WINDOW unacknowledged bytes are in flight to a viewer, so a stalled one costs no more than its connection.

A viewer with `?typist=NAME` gets further frames: `ready` {offset, read_only, live_from, typed}, then {size, cols,
rows}, {typed, count}, {may, read_only}, {sleep, asleep} and {people, people: [{name, you, typing}]} when they change.
Each byte it types arrives exactly once, even when connections break: `typed` counts the bytes that arrived, and the
viewer sends the rest again. {type: reply, data} is what its terminal emulator sends by itself (shim/input.py).

{type: alive} is answered with the same, so that a viewer finds out when its network is gone without a word.
"""

import asyncio
import contextlib
import json
import logging
import time
from urllib.parse import parse_qs
from uuid import UUID, uuid4

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from dashboard.database.threads import query_in_thread
from dashboard.door import entering
from dashboard.live.feed import feed
from dashboard.problems import Problem
from dashboard.text.visible_text import is_hidden
from dashboard.web.socket_auth import NOT_SIGNED_IN, RECHECK_INTERVAL, who_calls
from workspaces import extensions, lifecycle
from workspaces.drivers.base import DriverError
from workspaces.lifecycle import activity
from workspaces.models import State, Terminal, Workspace
from workspaces.operations import absent, needs_approval
from workspaces.programs import recordings, terminals
from workspaces.shim import client
from workspaces.shim.recording import Gap, Output, Resized

logger = logging.getLogger("handrail.terminals")
WINDOW = 256 * 1024  # bytes in flight to a viewer that have not been acknowledged
NO_SUCH = 4404
PURGED = 4410  # its workspace was deleted for good
ASKS = 4403  # a person has to allow it; the close reason is the action's id
BROKE = 4500
NONSENSE = 4400
TYPED_TOO_MUCH = 4413
WAITING_INPUT = 1024 * 1024  # typed bytes that are buffered here while the program does not read
LONGEST_REPLY = 4096
NOTED_S = 4.0  # how long the last word on an ended program waits for the runner's
LONGEST_NAME = 60
RECHECK_PAUSE = 1.0  # least seconds between two checks of the caller, however many events the team has


class TerminalSocket(AsyncWebsocketConsumer):
    """Send output from an offset on; receive acknowledgements and, from callers who may type, input and resizes."""

    VERB = "WS /ws/terminals/{id}"
    TYPING = f"{VERB} type"
    VERBS = (VERB, TYPING)

    async def connect(self):
        self._tasks = []
        self._typist: client.Typist | None = None
        self._viewer = uuid4().hex  # its key in the list of those who have the terminal open
        caller = await who_calls(self.scope, self.VERB)
        if caller is None:
            await self.close(NOT_SIGNED_IN)
            return
        self._terminal = await sync_to_async(self._find)(caller)
        if self._terminal is None:
            await self.close(NO_SUCH)
            return
        if self._terminal.workspace.purged_at is not None:
            await self.accept()  # a connection that was never accepted gets no code
            await self.close(PURGED, reason=absent.PURGED)
            return
        self._caller = caller
        self._may_type = self._types(caller)
        self._recording = recordings.of(self._terminal)
        self._asked = parse_qs(self.scope["query_string"].decode("latin-1"))
        self._name = self._asked.get("typist", [""])[0][:64]
        self._offset = self._taken = self._asked_number("offset")
        self._acked = asyncio.Event()
        self._input: list[bytes] = []
        self._typed = self._asked_number("typed")  # at which byte of all that was typed the next one stands
        self._has_input = asyncio.Event()
        self._ready = asyncio.Event()
        self._touched = float("-inf")
        self._using: asyncio.Task | None = None  # kept, so that the task is not collected
        self._asleep = False
        await self.accept()
        work = (self._show(), self._recheck(), self._hand_over(), self._tell_people())
        self._tasks = [asyncio.create_task(self._or_break(task)) for task in work]

    def _types(self, caller) -> bool:
        """Return True if the caller may type without approval of each piece."""
        return self._takes(caller) and not needs_approval.must_ask(self._terminal.workspace, caller.actor)

    def _takes(self, caller) -> bool:
        """Return True if the terminal takes input of the caller, after approval or without."""
        may = caller.can("type_in_terminal", self._terminal.workspace.team_id)
        return may and terminals.takes_typing_of(self._terminal, caller.actor)

    async def _or_break(self, work):
        """Close the connection at any exception, so that the viewer reconnects; log those of a fault here in full."""
        try:
            await work
        except (Problem, DriverError) as error:
            logger.warning("terminal %s: %s", self._terminal.pk, error)
            await self.close(BROKE)
        except Exception:
            logger.exception("terminal %s", self._terminal.pk)
            await self.close(BROKE)

    def _find(self, caller) -> Terminal | None:
        try:
            pk = UUID(self.scope["url_route"]["kwargs"]["id"])
        except ValueError:
            return None
        visible = Workspace.objects.visible_to(caller)
        return (
            Terminal.objects.select_related("workspace__environment", "workspace__team", "workspace__runner")
            .readable_by(caller.actor)
            .filter(pk=pk, workspace__in=visible)
            .first()
        )

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
        """Send a frame that only viewers with a typist name understand."""
        if self._name:
            await self._say(**frame)

    # To the viewer

    async def _show(self):
        await self._until_started()
        joined = await self._join() if self._may_type else {}
        self._typed = joined.get("typed", self._typed)
        live_from = joined.get("live_from", 1 << 53)  # unknown: the emulator then answers no queries
        await self._say(
            type="ready", offset=self._offset, read_only=not self._may_type, live_from=live_from, typed=self._typed
        )
        self._ready.set()
        await self._tell_sleep(self._terminal.workspace)
        async for part in self._recording.parts(self._offset, sizes=True):
            if isinstance(part, Output):
                await self._room()
                self._offset = part.offset + len(part.data)
                await self.send(bytes_data=part.data)
            elif isinstance(part, Resized):
                await self._tell(type="size", cols=part.cols, rows=part.rows)
            elif isinstance(part, Gap):
                await self._say(type="gap", **{"from": part.start, "to": part.end})
                self._offset = self._taken = part.end
        await self._until_noted()
        status, words = await sync_to_async(terminals.end_of)(self._terminal.pk)
        await self._say(type="exit", status=status, words=words)

    async def _until_started(self):
        """Wait until the runner has started the program; return early if it could not, which the exit frame tells."""
        while not await query_in_thread(self._recording.has_started):
            if await sync_to_async(terminals.is_over)(self._terminal.pk):
                break
            await asyncio.sleep(0.1)

    async def _until_noted(self):
        """Wait a moment for the runner to note why the program ended, so that it is said here as everywhere else."""
        deadline = time.monotonic() + NOTED_S
        while time.monotonic() < deadline and not await sync_to_async(terminals.is_over)(self._terminal.pk):
            await asyncio.sleep(0.1)

    async def _join(self) -> dict:
        self._typist = client.Typist(self._recording.end, self._viewer)
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
        """Check session, role and membership at each event of the team, and at least every RECHECK_INTERVAL."""
        team = self._terminal.workspace.team_id
        while True:
            await feed().wait([team], timeout=RECHECK_INTERVAL)
            caller = await who_calls(self.scope, self.VERB)
            if caller is None:
                await self.close(NOT_SIGNED_IN)
                return
            if (found := await sync_to_async(self._find)(caller)) is None:
                await self.close(NO_SUCH)
                return
            if found.workspace.purged_at is not None:
                await self.close(PURGED, reason=absent.PURGED)
                return
            await self._tell_sleep(found.workspace)
            if self._types(caller) != self._may_type:
                await self._may(not self._may_type)
            await asyncio.sleep(RECHECK_PAUSE)

    async def _tell_sleep(self, workspace: Workspace):
        """Send a frame when the workspace is paused or resumed. If the program ended instead, the exit frame tells."""
        asleep = workspace.state == State.PAUSED
        if asleep != self._asleep:
            self._asleep = asleep
            await self._tell(type="sleep", asleep=asleep)

    async def _tell_people(self):
        """List this viewer for the others, and tell it who else has the terminal open, each time that changes."""
        await self._ready.wait()
        actor = self._caller.actor
        me = {"name": _plain(actor.label), "by": f"{actor.type} {actor.id}"}
        async for listed in client.looking(self._recording.end, self._viewer, me):
            others = [entry for entry in listed if entry["viewer"] != self._viewer]
            people = [
                {"name": other["label"]["name"], "you": other["label"]["by"] == me["by"], "typing": other["typing"]}
                for other in others
            ]
            await self._tell(type="people", people=sorted(people, key=lambda one: (one["you"], one["name"])))

    async def _may(self, may_type: bool):
        """Apply a change of role. A caller who may type from now on has to reconnect to become a typist."""
        self._may_type = may_type
        self._input.clear()
        if self._typist:
            self._typist.close()
            self._typist = None
        await self._tell(type="may", read_only=not may_type)

    # From the viewer

    async def receive(self, text_data=None, bytes_data=None):
        if not self._tasks:
            return  # it was accepted to be closed with a code
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
            elif kind == "alive":
                await self._say(type="alive")
        except (ValueError, KeyError, TypeError, AttributeError):
            await self.close(NONSENSE)

    async def _resize(self, cols: int, rows: int):
        if self._may_type and self._typist and 1 <= cols <= 1000 and 1 <= rows <= 1000:
            with contextlib.suppress(DriverError):  # the program has just ended; the exit frame follows
                await self._typist.resize(cols, rows)

    async def _reply(self, data: bytes):
        if self._may_type and self._typist and len(data) <= LONGEST_REPLY:
            with contextlib.suppress(DriverError):
                await self._typist.reply(data)

    async def _type(self, data: bytes):
        """Queue input of a caller who may type, and drop that of others.

        An agent's input to a connected folder becomes an action for approval.
        """
        if not self._takes(self._caller):
            return
        if needs_approval.must_ask(self._terminal.workspace, self._caller.actor):
            await self._ask(data)
            return
        if not self._may_type:
            return
        if sum(map(len, self._input)) + len(data) > WAITING_INPUT:
            await self.close(TYPED_TOO_MUCH)
            return
        if not await sync_to_async(self._may_change)():
            return
        self._input.append(data)
        self._has_input.set()

    def _may_change(self) -> bool:
        """Return whether the door lets this input pass: not while the agent is interrupted or the team is stopped."""
        try:
            entering.refuse_held_back(self._caller, self.TYPING, self._terminal.workspace.key)
        except Problem:
            return False
        return entering.is_open(self._caller, self.TYPING)

    async def _ask(self, data: bytes):
        """Request approval of the input and close with the action's id; Handrail itself types approved input."""
        if len(data) > terminals.LONGEST_ASKED:
            await self.close(TYPED_TOO_MUCH)
            return

        def ask() -> dict:
            try:
                terminals.check_typing(self._terminal, data, by=self._caller.actor)
            except needs_approval.AskFirst as wanted:
                return extensions.ports.ask_a_person(self._caller, wanted)
            raise ValueError("nothing has to be asked")

        try:
            told = await sync_to_async(ask)()
        except UnicodeDecodeError:
            await self.close(NONSENSE)
            return
        except Problem as problem:
            await self.close(ASKS, problem.extra.get("action") or problem.detail[:60])
            return
        await self._say(type="asked", action=told["action"]["id"], status=told["status"], url=told["url"])
        await self.close(ASKS, told["action"]["id"])

    async def _hand_over(self):
        """Send typed bytes to the shim in order; bytes that it has no room for wait here."""
        while True:
            await self._has_input.wait()
            self._has_input.clear()
            while self._input and self._typist and self._may_type:
                self._touch()  # a connection that types nothing is no use of the workspace
                data = self._input[0]
                try:
                    arrived = await self._typist.type(data, self._typed)
                except DriverError:
                    if not await self._is_running():
                        self._input.clear()
                        break
                    await asyncio.sleep(0.05)
                    continue
                self._input[:1] = []
                # Not `arrived`: a second connection of the same viewer may be ahead, and what follows here is older.
                self._typed += len(data)
                await self._tell(type="typed", count=arrived)

    def _touch(self):
        """Count what is typed as use of the workspace, unless the program has ended and takes nothing.

        Beside the typing, which does not wait for the database: the line may be gone in a moment.
        """
        if time.monotonic() - self._touched > 5:
            self._touched = time.monotonic()
            self._using = asyncio.create_task(self._or_break(self._use()))

    async def _use(self):
        if await self._is_running():
            await sync_to_async(self._used)()

    async def _is_running(self) -> bool:
        return (await query_in_thread(self._recording.status)).state == "running"

    def _used(self):
        """Record typing as activity, and resume the workspace if it is paused."""
        workspace = Workspace.objects.get(pk=self._terminal.workspace_id)
        activity.touch(workspace)
        if workspace.state == State.PAUSED:
            with contextlib.suppress(Problem):  # its state has just changed
                lifecycle.resume_for_use(workspace, by=self._caller.actor)


def _plain(name: str) -> str:
    """Return at most LONGEST_NAME characters of a name, which an agent may have chosen, without hidden ones."""
    name = name[:LONGEST_NAME]
    return "".join("\ufffd" if is_hidden(name, at) else char for at, char in enumerate(name))
