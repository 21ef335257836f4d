"""A byte stream between a runner and a keeper that survives cut connections; standard library only, for both ends.

Each end numbers the bytes that it sends and keeps them until the other end has received them. A new connection begins
with what each has received, and the rest is sent again: nothing above notices the cut.

A frame is kind (1 byte), length (4 bytes, big-endian) and payload. DATA carries the stream, RECEIVED the number of
bytes that arrived so far (8 bytes), OVER says that the end is gone for good.
"""

import os
import select
import socket
import struct
import threading

try:
    from ssl import SSLWantReadError, SSLWantWriteError
except ImportError:  # in a container, whose Python has no TLS and needs none
    SSLWantReadError = SSLWantWriteError = BlockingIOError

DATA, RECEIVED, OVER = range(3)
HEAD = struct.Struct(">BI")
COUNT = struct.Struct(">Q")
CHUNK = 64 << 10
MOST_KEPT = 8 << 20  # bytes kept for a new connection; while it is full, nothing more is taken from the stream
ACKNOWLEDGE_EACH = 256 << 10  # bytes
MAX_FRAME = 1 << 20
NOT_NOW = (BlockingIOError, SSLWantReadError, SSLWantWriteError)


class Nonsense(Exception):
    """The other end breaks the protocol."""


class Link:
    """The end of a stream. `inner` is the local socket that carries it; run `serve` in a thread of its own.

    `on_cut()` is called when a connection is lost, `on_over()` when the other end is gone for good.
    """

    def __init__(self, inner, *, on_cut=None, on_over=None):
        inner.setblocking(False)
        self.inner, self.on_cut, self.on_over = inner, on_cut, on_over
        self.sock = None
        self.kept, self.begin, self.cursor = bytearray(), 0, 0  # what was not received yet, and its place in the stream
        self.received = self.acknowledged = 0
        self.inbox, self.frames, self.out = bytearray(), bytearray(), bytearray()
        self.offered = None  # (connection, how much its end has received) to go on with
        self.cutting = None  # set by who waits until no connection is read any more
        self.ending = self.over = False
        self.closed = threading.Event()
        self.changing = threading.Lock()
        self.session = ""
        self.wake_r, self.wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    # Called by other threads

    def attach(self, sock, received):
        """Go on over this connection, whose other end has received so many bytes of the stream."""
        with self.changing:
            if self.offered is not None:
                self.offered[0].close()
            self.offered = (sock, received)
        self.wake()

    def let_go(self, timeout_s=5.0):
        """Drop the connection, if there is one; return how much of the stream has been received, which then stays."""
        done = threading.Event()
        with self.changing:
            offered, self.offered = self.offered, None  # one that was not taken yet would be read after this
            self.cutting = done
        if offered is not None:
            offered[0].close()
        self.wake()
        if not done.wait(timeout_s):
            raise OSError("the former connection does not end")
        return self.received

    def drop(self):
        """End without a word to the other end: another stream takes the place of this one."""
        self.over = True
        self.wake()

    def end(self, timeout_s=2.0):
        """Send what is left and OVER, then close."""
        self.ending = True
        self.wake()
        self.closed.wait(timeout_s)

    def wake(self):
        try:
            os.write(self.wake_w, b".")
        except BlockingIOError:
            pass

    # The thread

    def serve(self):
        """Carry the stream until one end is over."""
        while not self.over:
            try:
                self.step()
            except (OSError, Nonsense):
                self.cut()
        self.cut(quietly=True)
        self.inner.close()
        self.closed.set()
        if self.on_over is not None:
            self.on_over()

    def step(self):
        poll = select.poll()
        poll.register(self.wake_r, select.POLLIN)
        inner = (select.POLLIN if len(self.kept) < MOST_KEPT and not self.ending else 0) | (
            select.POLLOUT if self.inbox else 0
        )
        if inner:
            poll.register(self.inner, inner)
        if self.sock is not None:
            more = self.out or self.cursor < self.begin + len(self.kept) or self.ending
            poll.register(self.sock, select.POLLIN | (select.POLLOUT if more else 0))
        found = dict(poll.poll())
        if self.wake_r in found:
            os.read(self.wake_r, 4096)
            if self.cutting is not None:
                done, self.cutting = self.cutting, None
                self.cut(quietly=True)
                done.set()
            self.take_offer()
        if self.inner.fileno() in found:
            self.exchange_inner(found[self.inner.fileno()])
        if self.sock is not None:
            self.receive()
            self.send()

    def take_offer(self):
        with self.changing:
            offered, self.offered = self.offered, None
        if offered is None:
            if self.ending and self.sock is None:
                self.over = True  # nobody is there to be told
            return
        self.cut(quietly=True)
        sock, received = offered
        if not self.begin <= received <= self.begin + len(self.kept):
            sock.close()
            self.over = True
            return
        del self.kept[: received - self.begin]
        self.begin = self.cursor = received
        sock.setblocking(False)
        self.sock, self.acknowledged = sock, self.received

    def exchange_inner(self, events):
        if events & (select.POLLIN | select.POLLHUP) and not self.ending:
            try:
                data = self.inner.recv(CHUNK)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self.ending = True
            elif data:
                self.kept += data
        if self.inbox:
            self.pour()

    def pour(self):
        try:
            sent = self.inner.send(memoryview(self.inbox)[:CHUNK])
        except BlockingIOError:
            return
        except OSError:
            self.inbox.clear()
            self.ending = True
            return
        del self.inbox[:sent]

    def receive(self):
        while len(self.inbox) < MOST_KEPT:
            try:
                data = self.sock.recv(CHUNK)
            except NOT_NOW:
                break
            if not data:
                raise ConnectionResetError("closed")
            self.frames += data
            self.take_frames()
        if self.received - self.acknowledged >= ACKNOWLEDGE_EACH:
            self.acknowledge()

    def take_frames(self):
        start = 0
        while len(self.frames) - start >= HEAD.size:
            kind, length = HEAD.unpack_from(self.frames, start)
            if kind > OVER or length > MAX_FRAME:
                raise Nonsense("a frame that makes no sense")
            end = start + HEAD.size + length
            if len(self.frames) < end:
                break
            payload = bytes(self.frames[start + HEAD.size : end])
            start = end
            self.take(kind, payload)
        del self.frames[:start]

    def take(self, kind, payload):
        if kind == DATA:
            self.received += len(payload)
            self.inbox += payload
            self.pour()
        elif kind == RECEIVED:
            (count,) = COUNT.unpack(payload)
            if not self.begin <= count <= self.begin + len(self.kept):
                raise Nonsense("it received more than was sent")
            del self.kept[: count - self.begin]
            self.begin = count
        else:
            self.over = True

    def acknowledge(self):
        self.out += HEAD.pack(RECEIVED, COUNT.size) + COUNT.pack(self.received)
        self.acknowledged = self.received

    def send(self):
        while True:
            at = self.cursor - self.begin
            if not self.out and at < len(self.kept):
                data = self.kept[at : at + CHUNK]
                self.out += HEAD.pack(DATA, len(data)) + data
                self.cursor += len(data)
            elif not self.out and self.ending:
                self.sock.setblocking(True)
                self.sock.settimeout(1.0)
                self.sock.sendall(HEAD.pack(OVER, 0))
                self.over = True
                return
            if not self.out:
                return
            try:
                sent = self.sock.send(self.out)
            except NOT_NOW:
                return
            del self.out[:sent]

    def cut(self, quietly=False):
        """Drop the connection; the stream goes on with the next one."""
        sock, self.sock = self.sock, None
        self.frames.clear()
        self.out.clear()
        self.cursor = self.begin
        if sock is None:
            return
        sock.close()
        if self.ending:
            self.over = True
        if not quietly and not self.over and self.on_cut is not None:
            self.on_cut()


def look_after(sock):
    """Have the kernel find out soon that the other machine is gone or cut off."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 15000)):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
        except OSError:
            pass  # not every kernel has each of them


def read_line(sock):
    """Read one line of at most 64 KiB from a blocking connection; b"" if it ends before."""
    line = bytearray()
    while not line.endswith(b"\n"):
        data = sock.recv(1)
        if not data or len(line) > 1 << 16:
            return b""
        line += data
    return bytes(line)
