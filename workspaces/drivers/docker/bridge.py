"""The bridge of a container in gVisor: `remote/linked_bridge.py` over programs that the engine starts in it.

The engine's socket is not the workspace's user's to open, so `execs.py`, a program of the runner's user, opens the
connections and hands them over. Once that has ended, or says that the container has, the bridge ends.
"""

import os
import socket
import sys
import threading
import time

import linked_bridge

STDOUT = 1
LAST_S = 0.2  # in which what the keeper said last arrives
HEAD = 8  # bytes before each piece of output: its stream (1 byte), 3 of nothing, the length (big-endian)


class Bridge(linked_bridge.Bridge):
    """The event loop, which removes the keeper's key before it takes clients, who could start programs."""

    def greeted(self, answer):
        try:
            os.unlink("keeper.json", dir_fd=self.config["once"])
        except FileNotFoundError:
            pass
        super().greeted(answer)


class Connector(linked_bridge.Connector):
    """Connects the link to the keeper, again after each cut."""

    def __init__(self, link, config):
        super().__init__(link, config)
        self.execs = socket.socket(fileno=config["execs"])
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """End the link once `execs.py` has ended."""
        os.read(self.config["life"], 1)
        time.sleep(LAST_S)
        self.link.drop()

    def reach(self):
        self.execs.sendall(b".")
        said, fds, _flags, _address = socket.recv_fds(self.execs, 1, 1)
        if said in (b"", b"g"):
            return None
        if not fds:
            raise ConnectionRefusedError("the engine does not answer")
        sock = Multiplexed(socket.socket(fileno=fds[0]))
        sock.settimeout(linked_bridge.SHAKE_S)
        return sock


class Multiplexed:
    """A connection to a program in a container: what the engine sends is its output in pieces, with heads."""

    def __init__(self, sock):
        self.sock = sock
        self.head, self.left, self.stream = bytearray(), 0, 0

    def __getattr__(self, name):
        return getattr(self.sock, name)

    def recv(self, size):
        """Return output, b"" at its end; what the program says on standard error is printed."""
        while True:
            while not self.left:
                data = self.sock.recv(HEAD - len(self.head))
                if not data:
                    return b""
                self.head += data
                if len(self.head) == HEAD:
                    self.stream, self.left = self.head[0], int.from_bytes(self.head[4:], "big")
                    self.head.clear()
            data = self.sock.recv(min(size, self.left))
            self.left -= len(data)
            if self.stream == STDOUT or not data:
                return data
            print(data.decode(errors="replace"), file=sys.stderr, end="", flush=True)


if __name__ == "__main__":
    linked_bridge.main(Bridge, Connector)
