"""Many byte streams and messages over one line: what the bridge on the host and the agent in the guest speak.

Standard library only, any Python from 3.9: the same file runs on both sides.

A frame is kind (1 byte), stream (4 bytes), length (4 bytes, all big-endian) and payload. MESSAGE carries JSON, on
stream 0. DATA, END (no more will come) and RESET (nobody is there any more) belong to a stream; CREDIT lets the other
side send so many more bytes of it, so that one full stream never holds up the others.
"""

import collections
import itertools
import json
import os
import selectors
import socket
import struct

MESSAGE, DATA, CREDIT, END, RESET = range(5)
HEAD = struct.Struct(">BII")
WINDOW = 256 << 10
CHUNK = 64 << 10
MAX_FRAME = 32 << 20


class LineLost(Exception):
    """The other side is gone, or talks nonsense."""


class Line:
    """The one connection: frames in, frames out. `on_message(dict)` is called for each message.

    Streams that begin here have every second number, from `first` on.
    """

    def __init__(self, fd, selector, on_message, first):
        os.set_blocking(fd, False)
        self.numbers = itertools.count(first, 2)
        self.fd = fd
        self.selector = selector
        self.on_message = on_message
        self.streams = {}
        self.outgoing = collections.deque()
        self.received = bytearray()
        self.held = False  # nothing may be sent now
        self.quiet = False  # nothing new is read to be sent
        self.waiting = False  # for room on the line
        selector.register(fd, selectors.EVENT_READ, self.ready)

    def message(self, message):
        self.send(MESSAGE, 0, json.dumps(message).encode())

    def send(self, kind, stream, payload=b""):
        self.outgoing.append(HEAD.pack(kind, stream, len(payload)) + payload)

    def hold(self):
        """Send nothing behind what waits now, until `go_on`."""
        self.be_quiet(True)
        self.outgoing.append(None)

    def go_on(self):
        self.held = False
        self.be_quiet(False)

    def be_quiet(self, quiet):
        """What is not read stays where it is: with the program, or with whoever types."""
        self.quiet = quiet
        for stream in self.streams.values():
            stream.watch()

    def flush(self):
        """Send what the line takes; called at the end of each round of the loop."""
        while self.outgoing and not self.held:
            data = self.outgoing[0]
            if data is None:
                self.outgoing.popleft()
                self.held = True
                break
            try:
                sent = os.write(self.fd, data)
            except BlockingIOError:
                break
            except OSError as error:
                raise LineLost(str(error)) from error
            if sent == len(data):
                self.outgoing.popleft()
            else:
                self.outgoing[0] = data[sent:]
        waiting = bool(self.outgoing) and not self.held
        if waiting != self.waiting:
            self.waiting = waiting
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
            self.selector.modify(self.fd, events, self.ready)

    def ready(self, mask):
        if not mask & selectors.EVENT_READ:
            return  # room to write: flush comes at the end of the round
        try:
            data = os.read(self.fd, 1 << 18)
        except BlockingIOError:
            return
        except OSError as error:
            raise LineLost(str(error)) from error
        if not data:
            raise LineLost("closed")
        self.received += data
        start = 0
        while len(self.received) - start >= HEAD.size:
            kind, number, length = HEAD.unpack_from(self.received, start)
            if length > MAX_FRAME or kind > RESET:
                raise LineLost("a frame that makes no sense")
            end = start + HEAD.size + length
            if len(self.received) < end:
                break
            payload = bytes(self.received[start + HEAD.size : end])
            start = end
            self.take(kind, number, payload)
        del self.received[:start]

    def take(self, kind, number, payload):
        if kind == MESSAGE:
            self.on_message(json.loads(payload))
            return
        stream = self.streams.get(number)
        if stream is None:
            return  # it ended here while this was on its way
        if kind == DATA:
            stream.put(payload)
        elif kind == CREDIT:
            stream.allow(struct.unpack(">I", payload)[0])
        elif kind == END:
            stream.no_more()
        else:
            stream.reset()


class Stream:
    """A descriptor of ours whose twin is on the other side.

    `reads`: what can be read here goes over the line. `writes`: what comes over the line is written here. `half`: the
    descriptor is a socket, whose two directions end apart. `on_reset`: what to do when nobody is there any more,
    "close" it or "discard" what it still gives.
    """

    def __init__(self, line, number, fd, *, reads, writes, half=False, on_reset="close", before_data=None):
        self.line, self.number, self.fd = line, number, fd
        self.reads, self.writes, self.half, self.on_reset = reads, writes, half, on_reset
        self.before_data = before_data  # called before what was read goes out
        self.credit = WINDOW
        self.inbox = bytearray()
        self.taken = 0  # bytes written here and not yet credited
        self.ending = False  # the other side sends no more
        self.discarding = False
        self.parked = False
        self.watched = 0
        self.always_ready = False  # a regular file: there is nothing to wait for
        line.streams[number] = self
        os.set_blocking(fd, False)
        self.watch()

    def watch(self):
        wanted = 0
        if self.fd is not None and not self.parked:
            if self.reads and (self.discarding or (self.credit > 0 and not self.line.quiet)):
                wanted |= selectors.EVENT_READ
            if self.inbox:
                wanted |= selectors.EVENT_WRITE
        if wanted == self.watched or self.always_ready:
            return
        selector = self.line.selector
        try:
            if not self.watched:
                selector.register(self.fd, wanted, self.ready)
            elif not wanted:
                selector.unregister(self.fd)
            else:
                selector.modify(self.fd, wanted, self.ready)
        except PermissionError:
            self.always_ready = True
            return
        self.watched = wanted

    def ready(self, mask):
        if mask & selectors.EVENT_WRITE and self.fd is not None:
            self.pour()
        if mask & selectors.EVENT_READ and self.fd is not None and self.reads:
            self.fetch()

    def fetch(self):
        try:
            data = os.read(self.fd, CHUNK if self.discarding else min(self.credit, CHUNK))
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a pty whose last program is gone says EIO
        if self.discarding:
            if not data:
                self.close()
            return
        if self.before_data is not None:
            self.before_data(self)
        if data:
            self.credit -= len(data)
            self.line.send(DATA, self.number, data)
            self.watch()
            return
        self.reads = False
        self.line.send(END, self.number)
        if self.half and self.writes:
            self.watch()
        else:
            self.close()

    def allow(self, count):
        self.credit += count
        self.watch()

    def put(self, data):
        if self.fd is None or not self.writes:
            return
        self.inbox += data
        self.pour()

    def pour(self):
        """Write what came; give the other side leave to send as much again."""
        while self.inbox:
            try:
                count = os.write(self.fd, self.inbox[:CHUNK])
            except BlockingIOError:
                break
            except OSError:
                # Nobody reads here any more. The other side decides what that means for the program.
                self.line.send(RESET, self.number)
                self.close()
                return
            del self.inbox[:count]
            self.taken += count
        if self.taken >= WINDOW // 4:
            self.line.send(CREDIT, self.number, struct.pack(">I", self.taken))
            self.taken = 0
        if self.ending and not self.inbox:
            self.finish_writing()
        else:
            self.watch()

    def no_more(self):
        self.ending = True
        if not self.inbox:
            self.finish_writing()

    def finish_writing(self):
        self.writes = False
        if not self.half or not self.reads:
            self.close()
            return
        with socket.socket(fileno=os.dup(self.fd)) as both:
            try:
                both.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        self.watch()

    def leave_line(self):
        if self.line.streams.get(self.number) is self:  # another session has the host's numbers anew
            del self.line.streams[self.number]

    def park(self):
        """The other side is gone and may come back: what the program prints and reads waits."""
        self.leave_line()
        self.parked = True
        self.watch()

    def go_on_as(self, number):
        """Another twin, which knows nothing of what was before."""
        self.number, self.parked = number, False
        self.credit, self.taken, self.ending = WINDOW, 0, False
        self.line.streams[number] = self
        self.watch()

    def discard(self):
        """Nobody comes for it: the program goes on, and what it prints is read and thrown away."""
        self.parked, self.on_reset = False, "discard"
        self.reset()

    def reset(self):
        if self.on_reset == "discard" and self.reads and self.fd is not None:
            self.leave_line()
            self.discarding = True
            self.inbox.clear()
            self.watch()
        else:
            self.close()

    def close(self):
        self.leave_line()
        if self.fd is None:
            return
        if self.watched:
            self.line.selector.unregister(self.fd)
            self.watched = 0
        os.close(self.fd)
        self.fd = None
