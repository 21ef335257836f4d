"""The bridge: serves the init's protocol on the host for programs elsewhere, as the init itself does in other drivers.

Standard library only. A driver's own first process subclasses it and runs it as the workspace's user. It listens on
the Run's socket and speaks the protocol of the init (`init/protocol.py`): it forwards each request to the agent at the
other end of the line, and makes a pty or a pipe here for each descriptor in an answer.

Operations beside those of the init, for the runner only:

  dial  port   → one descriptor: a connection to a port on the loopback of the programs
  is_serving   fail if the program that serves the tree has ended

and those that a subclass names in `HERE_ONLY`.
"""

import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import tty

from init.protocol import PROTOCOL, Client
from init.terminals import resize
from mux import MAX_STREAMS, RESET, Line, LineLost, ProtocolError, Stream

SIZE_POLL_S = 0.1
MAX_NEW_STREAMS = 16
COMPLAINTS = 100  # errors that the other end may cause before it is given up; each is printed


class Bridge:
    """The event loop between clients on the host and the agent at the other end of the line."""

    HERE_ONLY = ("dial", "is_serving")
    first = 1  # number of the first stream opened here

    def __init__(self, listener, line, ports, oom=None):
        self.listener, self.ports, self.oom = listener, ports, oom
        self.selector = selectors.DefaultSelector()
        self.clients = {}  # number → Client
        self.numbers = iter(range(1, 1 << 60))
        self.asked = {}  # message number → callback for its answer
        self.terminals = {}  # stream number → (cols, rows) last sent to the other end
        self.ready = False
        self.waiting = []  # numbers of clients that connected before the other end was up
        self.complaints = 0
        self.lost = False
        self.line = Line(line, self.selector, self.handle, first=self.first)

    # Hooks

    def has_ended(self):
        """Return whether the other end is gone for good."""
        raise NotImplementedError

    def put_an_end(self):
        """End the other end, which violates the protocol."""
        raise NotImplementedError

    def is_alone(self):
        """Return whether clients are greeted here, because the other end answers nobody now."""
        return False

    # The loop

    def run(self):
        """Serve until the other end is gone for good."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake_r, selectors.EVENT_READ, lambda _: os.read(wake_r, 4096))
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        while not self.has_ended():
            for key, mask in self.selector.select(SIZE_POLL_S if self.terminals else None):
                self.guarded(key.data, mask)
            if self.lost:
                break
            self.look_at_sizes()
            if not self.line.quiet:
                for stream in [s for s in self.line.streams.values() if s.always_ready and s.reads and s.credit]:
                    self.guarded(stream.fetch)
            try:
                self.line.flush()
            except LineLost:
                break
            for number, client in list(self.clients.items()):
                self.guarded(self.flush, number, client)

    def guarded(self, step, *args):
        try:
            step(*args)
        except ProtocolError as error:
            self.give_up(error)
        except LineLost:
            pass  # the loop finds out
        except Exception:
            self.complaints += 1
            if self.complaints > COMPLAINTS:
                self.give_up("too much of what it says cannot be carried out")
                return
            import traceback  # deferred to keep the start fast

            traceback.print_exc()

    def give_up(self, why):
        """End another end that violates the protocol: it could make us use unbounded memory, or print for ever."""
        if not self.lost:
            self.lost = True
            self.selector.unregister(self.line.fd)
            print(f"the guest is ended: it sends {why}", file=sys.stderr, flush=True)
            self.put_an_end()

    # The other end

    def ask(self, message, then):
        """Send a message to the guest; call `then(answer)` when its answer arrives."""
        number = next(self.numbers)
        self.asked[number] = then
        self.line.message(message | {"n": number})

    def up(self):
        self.ready = True
        waiting, self.waiting = self.waiting, []
        for number in waiting:
            if number in self.clients:
                self.welcome(number)

    def handle(self, message):
        """Handle a message from the guest; raise ProtocolError if it is malformed."""
        try:
            self.carry_on(message)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"a message that cannot be carried out: {error!r}"[:500]) from error

    def carry_on(self, message):
        if "c" in message:
            self.from_init(message)
        elif "accepted" in message:
            self.carry_out(message["accepted"], message["to"])
        elif "gone" in message:
            self.drop(message["gone"])
        elif message.get("n") in self.asked:
            self.asked.pop(message["n"])(message)

    def from_init(self, message):
        """Forward an answer or event of the guest's init to its client, with a local descriptor for each stream."""
        client = self.clients.get(message["c"])
        if "oom_kills" in message and self.oom is not None:
            os.pwrite(self.oom, b"oom_kill %d\n" % message["oom_kills"], 0)
        if len(message["streams"]) > MAX_NEW_STREAMS or len(self.line.streams) > MAX_STREAMS:
            raise ProtocolError("more streams than there can be")
        fds = []
        for number, kind in message["streams"]:
            fd = self.terminal(number, message) if kind == "pty" else self.output(number)
            fds.append(fd)
        if client is None:
            for fd in fds:
                os.close(fd)  # the other end of the stream is reset
            return
        client.send(message["frame"], fds)

    def output(self, number):
        """Make a pipe fed by an output stream of the guest; return its read end."""
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        Stream(self.line, number, write_end, reads=False, writes=True)
        return read_end

    def terminal(self, number, message):
        """Make a pty connected with a terminal in the guest; return its master."""
        master, slave = os.openpty()
        tty.setraw(slave)
        client = self.clients.get(message["c"])
        cols, rows = client.sizes.pop(message["frame"].get("id"), (80, 24)) if client is not None else (80, 24)
        resize(master, cols, rows)
        self.terminals[number] = (cols, rows)
        Stream(self.line, number, slave, reads=True, writes=True, before_data=self.look_at_size)
        return master

    def look_at_size(self, stream):
        """Tell the guest if a terminal's window size has changed. There is no notification of that, so it is polled."""
        try:
            rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(stream.fd, termios.TIOCGWINSZ, bytes(8)))
        except OSError:
            return
        if (cols, rows) != self.terminals.get(stream.number):
            self.terminals[stream.number] = (cols, rows)
            self.line.message({"op": "resize", "stream": stream.number, "cols": cols, "rows": rows})

    def look_at_sizes(self):
        for number in list(self.terminals):
            stream = self.line.streams.get(number)
            if stream is None or stream.fd is None:
                del self.terminals[number]
            else:
                self.look_at_size(stream)

    # Clients

    def accept(self, _mask):
        sock, _ = self.listener.accept()
        _pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.getuid()):
            sock.close()
            return
        sock.setblocking(False)
        number = next(self.numbers)
        client = self.clients[number] = Client(sock)
        client.sizes = {}
        client.alone = False
        self.selector.register(sock, selectors.EVENT_READ, lambda _: self.serve(number))
        if self.ready:
            self.welcome(number)
        else:
            self.waiting.append(number)

    def welcome(self, number):
        """Open a connection to the guest's init for a client, or greet the client here while that is impossible."""
        if self.is_alone():
            self.clients[number].alone = True
            self.clients[number].send({"protocol": PROTOCOL, "pid": 0, "frozen": False})
        else:
            self.line.message({"op": "open", "c": number})

    def serve(self, number):
        client = self.clients.get(number)
        if client is None:
            return
        try:
            requests = client.receive()
        except ValueError:
            requests = None
        if requests is None:
            self.drop(number)
            return
        for request in requests:
            if not isinstance(request, dict):
                self.drop(number)
                return
            if request.get("op") in self.HERE_ONLY:
                self.serve_here(number, client, request)
            elif client.alone:
                client.send({"id": request.get("id"), "error": "the guest is being paused", "fds": 0})
            else:
                self.pass_on(number, client, request)

    def pass_on(self, number, client, request):
        """Forward a client's request to the guest, with a stream for each descriptor that came with it."""
        message = {"op": "request", "c": number, "request": request}
        if request.get("stdio") == "given" and request.get("op") == "start":
            given, client.fds = client.fds[:3], client.fds[3:]
            message["streams"] = [self.lend(fd, position) for position, fd in enumerate(given)]
        elif request.get("stdio") == "pty":  # ops `start` and `adopt`
            client.sizes[request.get("id")] = (request.get("cols", 80), request.get("rows", 24))
        self.line.message(message)

    def lend(self, fd, position):
        """Connect a client's descriptor with a stream; position 0 is standard input. Return the stream's number."""
        number = next(self.line.numbers)
        Stream(self.line, number, fd, reads=position == 0, writes=position > 0)
        return number

    def serve_here(self, number, client, request):
        """Handle one of the bridge's own operations (HERE_ONLY)."""
        op, asked = request["op"], request.get("id")

        def answer(said, fds=()):
            if number in self.clients:
                told = {"error": said["error"]} if "error" in said else {}
                client.send({"id": asked, **told, "fds": len(fds)}, fds)
            else:
                for fd in fds:
                    os.close(fd)

        getattr(self, "here_" + op)(request, answer)

    def here_is_serving(self, request, answer):
        self.ask({"op": "is_serving", "folder": request.get("folder", "tree")}, answer)

    def here_dial(self, request, answer):
        stream = next(self.line.numbers)
        mine, theirs = socket.socketpair()

        def connected(said):
            if "error" in said:
                mine.close()
                theirs.close()
                answer(said)
                return
            Stream(self.line, stream, mine.detach(), reads=True, writes=True, half=True)
            answer(said, [theirs.detach()])

        self.ask({"op": "dial", "stream": stream, "port": request["port"]}, connected)

    def flush(self, number, client):
        if not client.flush():
            self.drop(number)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.outgoing else 0)
        key = self.selector.get_key(client.sock)
        if key.events != wanted:
            self.selector.modify(client.sock, wanted, key.data)

    def drop(self, number):
        client = self.clients.pop(number, None)
        if client is None:
            return
        self.selector.unregister(client.sock)
        client.close()
        if self.ready and not client.alone:
            self.line.message({"op": "close", "c": number})

    def carry_out(self, number, name):
        """Connect a stream that a program of the guest opened to a forwarded port with the socket that serves it."""
        if len(self.line.streams) > MAX_STREAMS or not name.isalnum():
            self.line.send(RESET, number)
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.settimeout(2)
        try:
            sock.connect(f"/proc/self/fd/{self.ports}/{name}")
        except OSError:
            sock.close()
            self.line.send(RESET, number)
            return
        sock.settimeout(None)
        Stream(self.line, number, sock.detach(), reads=True, writes=True, half=True)
