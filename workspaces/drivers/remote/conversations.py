"""Conversations: connections of clients on the host to the init here, in a guest or a pod, carried frame by frame.

They survive the end of a bridge, as at a pause of a guest, which goes on from its memory: the clients' connections are
gone. A program's output and
exit event then wait until its host process connects again and adopts it, with a request that the init does not have:

  adopt  pid, stdio (pty | pipe), cols, rows  → pid, and one fd as for `start`, unless its output has ended

A program that was started with `kept_as` NAME can be adopted by one who knows nothing of it but this name, with all
that it has printed and its end, until the client that has it disconnects:

  adopt  kept_as, stdio, cols, rows  → pid, kept {start, total, sizes}, and one fd, from which the bytes `start` to
                                       `total` of its output come, then what follows. `sizes`: [offset, cols, rows] of
                                       each change of the terminal's size

`thaw` continues the programs; the output of those that no client has adopted by then is discarded. Where the clients'
host is gone, nobody adopts them:

  abandon                             end the programs that nobody has adopted
"""

import json
import os
import selectors
import signal
import socket
import struct

from kept_output import KeptOutput
from mux import Stream


class Conversation:
    """One client of the host and its connection to the init."""

    def __init__(self, number, sock):
        self.number, self.sock = number, sock
        self.received = bytearray()
        self.fds = []
        self.programs = {}  # pid → streams of each program started over it that has not ended
        self.waiting = False  # the client is gone and may come back
        self.missed = []  # exit events not yet delivered
        self.orphan = False  # the client will not come back
        self.to_keep = {}  # id of a request to start a program → the name under which its output is kept
        self.kept = {}  # pid → (name, KeptOutput) of each such program, also of one that has ended


class Conversations:
    """All conversations here: those with a connected client, and those waiting for an adoption.

    `connect()` returns a socket of the init, `oom_kills()` how many programs were killed for lack of memory so far.
    """

    def __init__(self, line, selector, connect, oom_kills):
        self.line, self.selector, self.connect, self.oom_kills = line, selector, connect, oom_kills
        self.known = {}  # number → Conversation
        self.waiting = []
        self.oom_before = 0
        self.on_end = None  # called with the pid of a program that has ended, and its streams

    def open(self, number):
        conversation = self.known[number] = Conversation(number, self.connect())
        self.selector.register(conversation.sock, selectors.EVENT_READ, lambda _mask: self.from_init(conversation))

    def close(self, number):
        conversation = self.known.pop(number, None)
        if conversation is not None:
            self.drop(conversation)

    def request(self, number, request, streams, uid):
        """Forward a client's request to the init, with a pipe for each of its `streams`; handle `adopt` here."""
        conversation = self.known.get(number)
        if conversation is None:
            return
        if request.get("op") == "adopt":
            self.adopt(conversation, request)
            return
        if request.get("op") == "abandon":
            self.abandon()
            self.say(conversation, {"id": request["id"], "fds": 0})
            return
        if request.get("op") == "thaw":
            self.forsake()
        if request.get("op") == "start" and request.get("kept_as"):
            conversation.to_keep[request["id"]] = request["kept_as"]
        body = json.dumps(request).encode()
        fds = [self.given(stream, position, uid) for position, stream in enumerate(streams)]
        try:
            conversation.sock.setblocking(True)
            socket.send_fds(conversation.sock, [struct.pack(">I", len(body)) + body], fds)
        finally:
            for fd in fds:
                os.close(fd)

    def given(self, number, position, uid):
        """Make a pipe connected with a descriptor of the host; return the program's end."""
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        if uid != os.geteuid():  # older gVisor refuses to give a pipe to whom it belongs
            for fd in (read_end, write_end):
                os.fchown(fd, uid, -1)
        mine, theirs = (write_end, read_end) if position == 0 else (read_end, write_end)
        Stream(self.line, number, mine, reads=position > 0, writes=position == 0)
        return theirs

    # From the init

    def from_init(self, conversation):
        if conversation.sock.fileno() < 0:
            return  # closed by another event of the same round
        data, fds, _flags, _address = socket.recv_fds(conversation.sock, 1 << 16, 16)
        conversation.fds += fds
        if not data:
            if self.known.get(conversation.number) is conversation:
                del self.known[conversation.number]
                self.line.message({"gone": conversation.number})
            self.drop(conversation)
            return
        conversation.received += data
        while len(conversation.received) >= 4:
            (length,) = struct.unpack_from(">I", conversation.received)
            if len(conversation.received) < 4 + length:
                return
            frame = json.loads(bytes(conversation.received[4 : 4 + length]))
            del conversation.received[: 4 + length]
            self.pass_on(conversation, frame)

    def pass_on(self, conversation, frame):
        """Handle a frame from the init: register a started program's streams and forward the frame."""
        fds = [conversation.fds.pop(0) for _ in range(frame.get("fds", 0))]
        name = conversation.to_keep.pop(frame.get("id"), None)
        if "pid" in frame and "id" in frame:
            streams = conversation.programs[frame["pid"]] = [self.stream_of(fd) for fd in fds]
            if name is not None:
                self.keep(conversation, frame["pid"], name)
            if conversation.orphan or conversation.waiting:
                self.unheard(streams)  # the client never learned the pid, so it cannot adopt the program
            fds = []
        else:
            streams = []
        for fd in fds:
            os.close(fd)
        if frame.get("event") == "exit":
            self.ended(conversation, frame)
        elif conversation.orphan:
            self.let_go(conversation)
        elif not conversation.waiting:
            self.say(conversation, frame, streams)

    def stream_of(self, fd):
        """Connect a program's pty or pipe with a new stream."""
        terminal = os.isatty(fd)
        how = {"writes": terminal, "on_reset": "close" if terminal else "discard"}
        stream = Stream(self.line, next(self.line.numbers), fd, reads=True, **how)
        stream.is_terminal = terminal
        return stream

    def keep(self, conversation, pid, name):
        """Keep what a program prints, until its client disconnects."""
        output = KeptOutput()
        conversation.kept[pid] = (name, output)
        for stream in conversation.programs[pid]:
            stream.kept = output

    def ended(self, conversation, frame):
        """Handle an exit event: keep it for a waiting conversation, else forward it."""
        if frame["pid"] in conversation.kept:
            conversation.kept[frame["pid"]][1].end = {"frame": frame, "streams": []} | self.oom_kills_at(frame)
            if not conversation.waiting:
                self.say_end(conversation, frame["pid"])
            return
        if conversation.waiting:
            conversation.missed.append(frame)
            return
        streams = conversation.programs.pop(frame["pid"], ())
        if self.on_end is not None:
            self.on_end(frame["pid"], streams)
        if conversation.orphan:
            self.let_go(conversation)
            return
        self.say(conversation, frame)

    def say(self, conversation, frame, streams=()):
        """Send a frame of the init to the client, with the OOM kills of this session if a program got SIGKILL."""
        message = {"frame": frame, "streams": [_named(stream) for stream in streams]}
        self.line.message({"c": conversation.number} | message | self.oom_kills_at(frame))

    def say_end(self, conversation, pid):
        """Send the exit event of a program whose output is kept, if it has ended."""
        end = conversation.kept[pid][1].end
        if end is not None:
            self.line.message({"c": conversation.number} | end)

    def oom_kills_at(self, frame):
        if frame.get("event") == "exit" and frame["status"] == -signal.SIGKILL:
            return {"oom_kills": self.oom_kills() - self.oom_before}
        return {}

    # Between two sessions

    def part(self):
        """End a session: park the programs of clients for adoption, and discard or close all other streams."""
        self.oom_before = self.oom_kills()  # each session counts from 0
        clients = [c for c in self.waiting + list(self.known.values()) if c.programs]
        streams = [stream for c in clients for of_one in c.programs.values() for stream in of_one]
        parked = {stream.number for stream in streams if stream.fd is not None or stream.kept is not None}
        for stream in list(self.line.streams.values()):
            if stream.number in parked:
                stream.park()
            elif stream.half:
                stream.close()
            else:
                stream.discard()
        self.line.outgoing.clear()
        for conversation in self.known.values():
            conversation.waiting = bool(conversation.programs)
            if not conversation.waiting:
                self.drop(conversation)
        self.waiting, self.known = clients, {}

    def adopt(self, client, request):
        """Continue the waiting conversation of a program over a new client's connection."""
        name, pid = request.get("kept_as"), request.get("pid")
        if name is not None:
            pid = next((pid for c in self.waiting for pid, (known, _) in c.kept.items() if known == name), None)
        found = next((c for c in self.waiting if pid in c.programs), None)
        if found is None or (name is not None and found.kept[pid][1].broken):
            words = "no program of before has this number" if found is None else "its output was not kept"
            self.say(client, {"id": request["id"], "error": words, "fds": 0})
            return
        self.waiting.remove(found)
        self.known[client.number], found.number = found, client.number
        self.drop(client)
        found.waiting, missed, found.missed = False, found.missed, []
        if name is not None:
            self.hand_all(found, pid, request["id"])
            return
        streams = [stream for stream in found.programs[pid] if stream.fd is not None]
        for stream in streams:
            stream.go_on_as(next(self.line.numbers))
        self.say(found, {"id": request["id"], "pid": pid, "fds": len(streams)}, streams)
        for frame in missed:
            self.ended(found, frame)

    def hand_all(self, conversation, pid, asked):
        """Give a new client all that a program has printed, and its end if it has ended."""
        output = conversation.kept[pid][1]
        streams = {next(self.line.numbers): stream for stream in conversation.programs[pid]}
        kept = {"start": output.start, "total": output.total, "sizes": output.sizes}
        answer = {"id": asked, "pid": pid, "fds": len(streams), "kept": kept}
        named = [[number, _kind(stream)] for number, stream in streams.items()]
        self.line.message({"c": conversation.number, "frame": answer, "streams": named})
        for number, stream in streams.items():
            stream.begin_again(number)
        self.say_end(conversation, pid)

    def forsake(self):
        """Give up the clients that have not come back: discard the output of their programs."""
        for conversation in self.waiting:
            conversation.waiting, conversation.orphan = False, True
            self.forget_kept(conversation)
            for streams in conversation.programs.values():
                self.unheard(streams)
            for frame in conversation.missed:
                conversation.programs.pop(frame["pid"], None)
            self.let_go(conversation)
        self.waiting = []

    def abandon(self):
        """End the programs that nobody has adopted, as the init does when a client disconnects."""
        for conversation in self.waiting:
            for streams in conversation.programs.values():
                self.unheard(streams)
            self.drop(conversation)
        self.waiting = []

    def unheard(self, streams):
        """Discard the output of these streams."""
        for stream in streams:
            if stream.fd is not None:
                stream.discard()

    def let_go(self, conversation):
        """Close an orphaned conversation once all of its programs have ended."""
        # Keep the connection while one of its programs runs: the init ends a disconnected client's programs.
        if not conversation.programs:
            self.drop(conversation)

    def drop(self, conversation):
        """Close the connection to the init and the descriptors received over it."""
        if conversation.sock.fileno() >= 0:
            self.selector.unregister(conversation.sock)
            conversation.sock.close()
        for fd in conversation.fds:
            os.close(fd)
        conversation.fds = []
        self.forget_kept(conversation)

    def forget_kept(self, conversation):
        """Forget what its programs have printed, and those that have ended."""
        for pid, (_name, output) in conversation.kept.items():
            for stream in conversation.programs[pid]:
                stream.keep_no_more()
            if output.end is not None:
                del conversation.programs[pid]
            output.close()
        conversation.kept = {}


def _named(stream):
    """Return [number, kind] of a stream, as the bridge expects it."""
    return [stream.number, _kind(stream)]


def _kind(stream):
    return "pty" if stream.is_terminal else "pipe"
