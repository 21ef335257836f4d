"""A stream between a runner and a pod: cut at any byte, it goes on at that byte."""

import random
import socket
import threading
import time
from contextlib import contextmanager

from workspaces.drivers.remote.link import Link

SIZE = 3 << 20


class Ends:
    """Two links, joined by connections that a test cuts, as a runner's connector joins them."""

    def __init__(self):
        self.outer, self.links = [], []
        for _ in range(2):
            inner, outer = socket.socketpair()
            self.outer.append(outer)
            self.links.append(Link(inner))
        self.threads = [threading.Thread(target=link.serve) for link in self.links]
        for thread in self.threads:
            thread.start()
        self.wires = []

    def join(self):
        """Connect them anew: each hears how much the other has received."""
        received = [link.let_go() for link in self.links]
        self.wires = list(socket.socketpair())
        for link, wire, other in zip(self.links, self.wires, reversed(received), strict=True):
            link.attach(wire, other)

    def cut(self):
        for wire in self.wires:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the link has closed it already

    def end(self):
        for link in self.links:
            link.drop()
        for thread in self.threads:
            thread.join(10)
        for sock in self.outer:
            sock.close()


@contextmanager
def ends():
    made = Ends()
    try:
        made.join()
        yield made
    finally:
        made.end()


def sent_over(sock: socket.socket, content: bytes) -> threading.Thread:
    thread = threading.Thread(target=sock.sendall, args=(content,))
    thread.start()
    return thread


def read_whole(sock: socket.socket, size: int, into: bytearray) -> threading.Thread:
    def read():
        while len(into) < size:
            into.extend(sock.recv(1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_both_directions_arrive_whole_over_connections_that_are_cut():
    chance = random.Random(7)
    contents = [chance.randbytes(SIZE) for _ in range(2)]
    found = [bytearray(), bytearray()]
    with ends() as made:
        work = [sent_over(made.outer[side], contents[side]) for side in range(2)]
        work += [read_whole(made.outer[1 - side], SIZE, found[side]) for side in range(2)]
        while any(thread.is_alive() for thread in work):
            time.sleep(chance.uniform(0, 0.02))
            made.cut()
            made.join()
        assert [bytes(part) for part in found] == contents


def test_what_is_sent_while_nobody_is_connected_arrives_later():
    with ends() as made:
        made.cut()
        made.outer[0].sendall(b"said into a cut")
        made.join()
        assert made.outer[1].recv(100) == b"said into a cut"


def test_a_connection_that_claims_too_much_is_not_believed():
    with ends() as made:
        made.outer[0].sendall(b"five!")
        assert made.outer[1].recv(100) == b"five!"
        mine, theirs = socket.socketpair()
        with theirs:
            made.links[0].attach(mine, 1 << 40)
            assert made.links[0].closed.wait(10)


def test_an_end_that_is_over_ends_the_other():
    with ends() as made:
        made.links[0].end()
        assert made.links[1].closed.wait(10)
        assert made.outer[1].recv(1) == b""
