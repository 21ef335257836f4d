"""Multiplex byte streams and messages over one connection, between a bridge of the runner and an agent elsewhere.

Standard library only, any Python from 3.9: the same file runs on both sides.

A frame is kind (1 byte), stream (4 bytes), length (4 bytes, all big-endian) and payload. MESSAGE carries JSON, on
stream 0. DATA, END (end of file) and RESET (the peer's end is gone) belong to a stream. CREDIT lets the other side send
that many more bytes of a stream, so that a full stream never blocks the others.
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
MAX_CREDIT = 2 * WINDOW  # a new peer after an adoption has a full window, besides the data still in the inbox
MAX_STREAMS = 4096


class LineLost(Exception):
    """The other side is gone, or violates the protocol."""


class ProtocolError(LineLost):
    """The other side violates the protocol; nothing it sends afterwards can be interpreted."""


class Line:
    """The connection, with its buffers. `on_message(dict)` is called for each message.

    Streams opened on this side are numbered `first`, `first + 2`, …, so that the two sides' numbers never clash.
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
        self.held = False  # nothing may be sent
        self.quiet = False  # streams are not read
        self.waiting = False  # until the connection is writable
        selector.register(fd, selectors.EVENT_READ, self.ready)

    def reopen(self, fd):
        """Go on over another connection, from the beginning of a frame."""
        self.selector.unregister(self.fd)
        os.set_blocking(fd, False)
        self.fd, self.waiting = fd, False
        self.received.clear()
        self.outgoing.clear()
        self.selector.register(fd, selectors.EVENT_READ, self.ready)

    def message(self, message):
        self.send(MESSAGE, 0, json.dumps(message).encode())

    def send(self, kind, stream, payload=b""):
        self.outgoing.append(HEAD.pack(kind, stream, len(payload)) + payload)

    def stop_sending(self):
        """Send what is queued now and nothing more until `go_on`."""
        self.be_quiet(True)
        self.outgoing.append(None)

    def go_on(self):
        self.held = False
        self.be_quiet(False)

    def be_quiet(self, quiet):
        """Stop or resume reading the streams; unread data stays in the kernel's buffers."""
        self.quiet = quiet
        for stream in list(self.streams.values()):
            stream.watch()
            stream.drain()

    def flush(self):
        """Send what the connection takes; called at the end of each round of the event loop."""
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
        """Receive data and handle each complete frame."""
        if not mask & selectors.EVENT_READ:
            return  # writable: flush is called at the end of the round
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
        try:
            while len(self.received) - start >= HEAD.size:
                kind, number, length = HEAD.unpack_from(self.received, start)
                if length > MAX_FRAME or kind > RESET or (kind == CREDIT and length != 4):
                    raise ProtocolError("a frame that makes no sense")
                end = start + HEAD.size + length
                if len(self.received) < end:
                    break
                payload = bytes(self.received[start + HEAD.size : end])
                start = end
                self.take(kind, number, payload)
        finally:
            del self.received[:start]  # no frame is handled twice, even if its handler raised

    def take(self, kind, number, payload):
        """Handle one frame."""
        if kind == MESSAGE:
            try:
                message = json.loads(payload)
            except (ValueError, RecursionError):
                raise ProtocolError("a message that makes no sense") from None
            if not isinstance(message, dict):
                raise ProtocolError("a message that makes no sense")
            self.on_message(message)
            return
        stream = self.streams.get(number)
        if stream is None:
            return  # closed here while the frame was in transit
        if kind == DATA:
            stream.put(payload)
        elif kind == CREDIT:
            stream.allow(struct.unpack(">I", payload)[0])
        elif kind == END:
            stream.no_more()
        else:
            stream.reset()


class Stream:
    """A descriptor on this side, connected with one on the other side.

    `reads`: data read from the descriptor is sent. `writes`: data received is written to the descriptor. `half`: the
    descriptor is a socket, whose two directions are shut down separately. `on_reset`: what to do when the other end is
    gone, "close" the descriptor or "discard" what is read from it.
    """

    def __init__(self, line, number, fd, *, reads, writes, half=False, on_reset="close", before_data=None):
        self.line, self.number, self.fd = line, number, fd
        self.reads, self.writes, self.half, self.on_reset = reads, writes, half, on_reset
        self.before_data = before_data  # called with the stream before its data is sent
        self.credit = WINDOW
        self.inbox = bytearray()
        self.taken = 0  # bytes written here and not yet credited
        self.ending = False  # the other side has sent END
        self.discarding = False
        self.parked = False
        self.is_terminal = False
        self.kept = None  # a KeptOutput that gets what is read
        self.replayed = None  # the offset in it up to which a new peer has it, while it does not have all
        self.watched = 0
        self.always_ready = False  # a regular file, which epoll does not support
        self.hung_up = False  # what can be read now is the last
        line.streams[number] = self
        os.set_blocking(fd, False)
        self.watch()

    def watch(self):
        """Register with the selector for the events that matter now."""
        wanted = 0
        if self.fd is not None and not self.parked:
            if self.reads and self.replayed is None and (self.discarding or (self.credit > 0 and not self.line.quiet)):
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
        """Read from the descriptor and send the data, or END at the end of file."""
        try:
            data = os.read(self.fd, CHUNK if self.discarding else min(self.credit, CHUNK))
        except BlockingIOError:
            if not self.hung_up:
                return
            data = b""
        except OSError:
            data = b""  # a pty gives EIO after its last program has closed it
        if self.discarding:
            if not data:
                self.close()
            return
        if self.before_data is not None:
            self.before_data(self)
        if data:
            if self.kept is not None:
                self.kept.write(data)
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
        """Add credit from the other side."""
        if self.credit + count > MAX_CREDIT:
            raise ProtocolError("leave to send more than was ever sent")
        self.credit += count
        self.replay()
        self.watch()
        self.drain()

    def hang_up(self):
        """Send what can still be read, then END: nobody has the other end, whatever the kernel says."""
        self.hung_up = True
        self.drain()

    def drain(self):
        while self.hung_up and self.fd is not None and self.reads and (self.credit > 0 or self.discarding):
            if self.line.quiet or self.parked:
                return
            self.fetch()

    def put(self, data):
        """Queue received data for the descriptor; raise ProtocolError if it exceeds the credit given."""
        if self.fd is None or not self.writes:
            return
        if len(self.inbox) + self.taken + len(data) > MAX_CREDIT:
            raise ProtocolError("more bytes than it had leave to send")
        self.inbox += data
        self.pour()

    def pour(self):
        """Write received data to the descriptor, and credit it to the other side."""
        while self.inbox:
            try:
                count = os.write(self.fd, self.inbox[:CHUNK])
            except BlockingIOError:
                break
            except OSError:
                # The reader is gone. The other side decides what that means for the program.
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
        """Handle END: finish writing once all received data is written."""
        self.ending = True
        if not self.inbox:
            self.finish_writing()

    def finish_writing(self):
        """Close the descriptor, or shut down only its writing direction while it is still read."""
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
        """Remove the stream from the line's streams."""
        if self.line.streams.get(self.number) is self:  # a new session may have reused the host's number
            del self.line.streams[self.number]

    def park(self):
        """Stop reading and writing, for a peer that is gone and may come back; the program's I/O blocks."""
        self.leave_line()
        self.parked = True
        self.watch()

    def go_on_as(self, number):
        """Connect the stream with a new peer under a new number, with a fresh window."""
        self.number, self.parked = number, False
        self.credit, self.taken, self.ending = WINDOW, 0, False
        self.line.streams[number] = self
        self.watch()
        self.drain()

    def begin_again(self, number):
        """Connect the stream with a new peer, which gets what was kept before what comes."""
        self.go_on_as(number)
        self.replayed = self.kept.start
        self.replay()
        self.watch()

    def replay(self):
        """Send the new peer what it lacks, as far as it takes that; then END, if the program's output has ended."""
        while self.replayed is not None and self.credit > 0:
            data = self.kept.read(self.replayed, min(self.credit, CHUNK))
            if data:
                self.replayed += len(data)
                self.credit -= len(data)
                self.line.send(DATA, self.number, data)
                continue
            self.replayed = None
            if self.fd is None:
                self.line.send(END, self.number)
                self.leave_line()

    def keep_no_more(self):
        """Forget what was read; a new peer cannot have it any more."""
        self.kept = self.replayed = None
        self.watch()

    def discard(self):
        """Give up the peer: the program continues, and its output is read and discarded."""
        self.parked, self.on_reset, self.replayed = False, "discard", None
        self.reset()

    def reset(self):
        """Handle RESET: close the descriptor, or discard its output, according to `on_reset`."""
        if self.on_reset == "discard" and self.reads and self.fd is not None:
            self.leave_line()
            self.discarding = True
            if self.kept is not None:
                self.kept.broken = True
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
