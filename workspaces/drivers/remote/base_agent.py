"""The agent: serves the bridge of a runner where the programs are, in a guest or a pod.

Standard library only, any Python from 3.9. A driver's own agent subclasses it and adds its operations.

Messages from the bridge (an answer has the same `n`):

  hello      session                → {protocol, configured}; parks the programs of a former session, see
                                    conversations.py
  open, close, request  c           a connection to the init, carried frame by frame; `streams` stand for descriptors
  resize     stream, cols, rows     set the window size of a terminal
  dial       stream, port           connect a stream to a port on the loopback here
  is_serving                        fail if the program that serves the tree has ended
"""

import os
import selectors
import signal
import socket
import subprocess
import traceback

from init.terminals import resize
from mux import Line, LineLost, Stream

PROTOCOL = 1


class Agent:
    """The event loop between the bridge, the init, and connections of programs to the forwarded ports."""

    def __init__(self, port, conversations):
        """`port` is the line's descriptor, `conversations(line, selector)` makes what carries those with the init."""
        self.selector = selectors.DefaultSelector()
        self.line = Line(port, self.selector, self.handle, first=2)
        self.conversations = conversations(self.line, self.selector)
        self.listeners = []
        self.session = None
        self.configured = None
        self.server = None

    # Hooks

    def lost(self):
        """Handle the end of the line: another bridge may come."""
        raise NotImplementedError

    def reap(self):
        """Reap children."""
        raise NotImplementedError

    def listen_to_signals(self):
        """Let the end of a child wake the loop."""
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake_r, selectors.EVENT_READ, lambda _: os.read(wake_r, 4096))

    # The loop

    def run(self):
        """Serve without an end: the machine ends with its init."""
        self.listen_to_signals()
        while True:
            for key, mask in self.selector.select():
                try:
                    key.data(mask)
                except LineLost:
                    self.lost()
                except Exception:  # an error of one client must not end all programs
                    traceback.print_exc()
            self.reap()
            try:
                self.line.flush()
            except LineLost:
                self.lost()

    # Messages from the bridge

    def handle(self, message):
        op = str(message.get("op"))
        try:
            answer = getattr(self, "op_" + op)(message) or {}
        except (OSError, KeyError, ValueError, AttributeError, subprocess.SubprocessError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        if message.get("n") is not None:
            self.line.message({"n": message["n"]} | answer)

    def op_hello(self, message):
        if message["session"] != self.session:
            self.session = message["session"]
            self.conversations.part()
        self.line.go_on()
        return {"protocol": PROTOCOL, "configured": self.configured is not None}

    # The init

    def op_open(self, message):
        self.conversations.open(message["c"])

    def op_close(self, message):
        self.conversations.close(message["c"])

    def op_request(self, message):
        self.conversations.request(message["c"], message["request"], message.get("streams", ()), self.configured["uid"])

    def op_resize(self, message):
        stream = self.line.streams.get(message["stream"])
        if stream is not None and stream.fd is not None:
            resize(stream.fd, message["cols"], message["rows"])
            if stream.kept is not None:
                stream.kept.resized(message["cols"], message["rows"])

    # The network: forward connections from ports here to the runner, and from the runner to ports here

    def listen(self, number, name):
        """Forward connections to 127.0.0.1:`number` to the runner's socket `name`."""
        listener = socket.create_server(("127.0.0.1", number), backlog=64)
        listener.setblocking(False)
        self.listeners.append(listener)

        def accept(_mask):
            connection, _ = listener.accept()
            stream = next(self.line.numbers)
            Stream(self.line, stream, connection.detach(), reads=True, writes=True, half=True)
            self.line.message({"accepted": stream, "to": name})

        self.selector.register(listener, selectors.EVENT_READ, accept)

    def op_dial(self, message):
        try:
            connection = connect(socket.AF_INET, "127.0.0.1", message["port"])
        except ConnectionRefusedError as refused:
            try:
                connection = connect(socket.AF_INET6, "::1", message["port"])
            except OSError:
                raise refused from None  # or there is no IPv6
        connection.setblocking(False)
        Stream(self.line, message["stream"], connection.detach(), reads=True, writes=True, half=True)

    def op_is_serving(self, message):
        if self.server is None or self.server.poll() is not None:
            raise ValueError("the file server has ended")


def connect(family, host, port):
    """Return a connection to a port here. `socket.create_connection` needs an encoding that not every Python has."""
    connection = socket.socket(family)
    connection.settimeout(2)
    try:
        connection.connect((host, port))
    except BaseException:
        connection.close()
        raise
    return connection
