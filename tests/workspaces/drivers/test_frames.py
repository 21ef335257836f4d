"""Frames from a workspace's first process and from a guest: their size, their number and their time are bounded."""

import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from workspaces.drivers import init_client
from workspaces.drivers.init_client import InitClient, InitGone
from workspaces.drivers.remote import mux
from workspaces.drivers.remote.mux import CREDIT, DATA, HEAD, MESSAGE, WINDOW, Line, ProtocolError, Stream
from workspaces.store.guest.protocol import Closed, Wire

HELLO = {"protocol": 1, "pid": 1, "frozen": False, "shell": "/bin/sh"}


def frame(message) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


@contextmanager
def an_init(tmp_path, answer):
    """The path of a socket whose other side says hello and then does `answer(connection)`."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection:
                try:
                    connection.sendall(frame(HELLO))
                    connection.recv(65536)
                    answer(connection)
                    connection.recv(1)
                except OSError:
                    pass

        serving = threading.Thread(target=serve)
        serving.start()
        yield path
        serving.join(60)
        assert not serving.is_alive()


def trickle(connection):
    while True:
        connection.sendall(frame({"event": "exit", "pid": 7, "status": 0}))
        time.sleep(0.2)


def flood(connection):
    piece = frame({"event": "exit", "pid": 7, "status": 0}) * 1000
    while True:
        connection.sendall(piece)


def many_descriptors(connection):
    for _ in range(100):
        socket.send_fds(connection, [frame({"event": "exit", "pid": 7, "status": 0})], [0] * 4)


@pytest.mark.parametrize(
    "answer",
    [
        lambda connection: connection.sendall(struct.pack(">I", init_client.MAX_FRAME + 1) + b"x"),
        lambda connection: connection.sendall(frame(b"{")),
        lambda connection: connection.sendall(frame(b"\xff")),
        lambda connection: connection.sendall(frame([])),
        lambda connection: connection.sendall(frame(b"[" * 1_000_000)),
        lambda connection: connection.sendall(frame({"event": "exit"})),
        trickle,
        flood,
        many_descriptors,
    ],
    ids=["too-long", "no-json", "no-text", "no-object", "deep", "half-an-exit", "trickle", "flood", "descriptors"],
)
def test_an_init_that_talks_nonsense_or_for_ever_is_gone(tmp_path, answer):
    with an_init(tmp_path, answer) as path, InitClient(path, timeout_s=1.5) as client:
        open_before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(InitGone):
            client.request("processes")
        assert len(os.listdir("/proc/self/fd")) - open_before <= 2 * init_client.MAX_FDS


@pytest.fixture
def line():
    """A line of ours whose other end is a socket, and what it was told."""
    ours, theirs = socket.socketpair()
    selector, told = selectors.DefaultSelector(), []
    made = Line(ours.detach(), selector, told.append, first=1)
    made.told, made.theirs = told, theirs
    yield made
    os.close(made.fd)
    theirs.close()
    selector.close()


@pytest.mark.parametrize(
    "sent",
    [
        HEAD.pack(MESSAGE, 0, mux.MAX_FRAME + 1),
        HEAD.pack(9, 0, 0),
        HEAD.pack(MESSAGE, 0, 1) + b"{",
        HEAD.pack(MESSAGE, 0, 2) + b"[]",
        HEAD.pack(CREDIT, 1, 1) + b"x",
    ],
)
def test_a_frame_that_makes_no_sense_ends_the_line_and_is_taken_once(line, sent):
    line.theirs.sendall(HEAD.pack(MESSAGE, 0, 2) + b"{}" + sent)
    with pytest.raises(ProtocolError):
        line.ready(selectors.EVENT_READ)
    assert line.told == [{}]
    assert len(line.received) <= len(sent)


def overfill(stream):
    for _ in range(100):
        stream.put(b"x" * 65536)


def test_a_side_that_sends_beyond_its_leave_is_not_kept(line):
    read_end, write_end = os.pipe()
    stream = Stream(line, 7, write_end, reads=False, writes=True)
    with pytest.raises(ProtocolError):
        overfill(stream)
    assert len(stream.inbox) <= mux.MAX_CREDIT
    with pytest.raises(ProtocolError):
        line.take(CREDIT, 7, struct.pack(">I", 2**32 - 1))
    stream.close()
    os.close(read_end)


def test_what_keeps_to_its_leave_arrives_whole(line):
    read_end, write_end = os.pipe()
    stream = Stream(line, 7, write_end, reads=False, writes=True)
    sent, got, leave = b"".join(bytes([n]) * 5000 for n in range(250)), b"", WINDOW
    rest = sent
    while len(got) < len(sent):
        size = min(leave, 50_000, len(rest))
        line.take(DATA, 7, rest[:size])
        rest, leave = rest[size:], leave - size
        got += os.read(read_end, 65536)
        stream.pour()
        while line.outgoing:
            leave += struct.unpack(">I", line.outgoing.popleft()[HEAD.size :])[0]
    assert got == sent
    stream.close()
    os.close(read_end)


BRIDGE = """
import os, socket, sys
sys.path[:0] = [{folder!r}, {folder!r} + "/remote", {folder!r} + "/microvm"]
import bridge

class Qemu:
    gone = False
    def ended(self): return self.gone
    def kill(self): self.gone = True

listener = socket.create_server(("127.0.0.1", 0))
console, _keep = socket.socketpair()
config = {{"guest": None, "oom": None, "ports": os.open({ports!r}, os.O_PATH)}}
bridge.Bridge(listener, config, Qemu(), socket.socket(fileno=int(sys.argv[1])), console).run()
"""


@contextmanager
def a_bridge(tmp_path):
    """A guest's end of the line of a real bridge, and its process."""
    ports = tmp_path / "ports"
    ports.mkdir()
    folder = str(Path(init_client.__file__).parent)
    guest, host = socket.socketpair()
    with guest, host:
        process = subprocess.Popen(
            [sys.executable, "-c", BRIDGE.format(folder=folder, ports=str(ports)), str(host.fileno())],
            pass_fds=[host.fileno()],
            stderr=subprocess.PIPE,
        )
        host.close()
        guest.settimeout(30)
        try:
            yield guest, process
        finally:
            process.kill()
            process.communicate()


def message(**told) -> bytes:
    body = json.dumps(told).encode()
    return HEAD.pack(MESSAGE, 0, len(body)) + body


@pytest.mark.parametrize(
    "sent",
    [
        HEAD.pack(MESSAGE, 0, 2**32 - 1),
        message(c=1, frame={}, streams=[[n, "pipe"] for n in range(10_000)]),
        message(c={}) * 1000,
    ],
    ids=["too long", "streams", "complaints"],
)
def test_a_guest_that_keeps_to_no_rule_is_ended(tmp_path, sent):
    with a_bridge(tmp_path) as (guest, process):
        guest.sendall(sent)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0
        assert b"the guest is ended" in said
        assert len(said) < 1 << 20


def test_a_guest_reaches_no_socket_but_those_that_are_its(tmp_path):
    with socket.socket(socket.AF_UNIX) as other, a_bridge(tmp_path) as (guest, _process):
        other.bind(str(tmp_path / "other"))
        other.listen()
        other.settimeout(1)
        guest.sendall(message(accepted=2, to="../other"))
        guest.sendall(message(accepted=4, to="../../../../../../.." + str(tmp_path / "other")))
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_frame_of_a_tree_must_end_in_time():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        wire = Wire(ours.fileno(), ours.fileno(), 1.0)
        done = threading.Event()

        def send():
            theirs.sendall(struct.pack(">II", 2, 1 << 20) + b"{}")
            while not done.wait(0.2):
                theirs.sendall(b"x")

        sending = threading.Thread(target=send)
        sending.start()
        began = time.monotonic()
        with pytest.raises(Closed):
            wire.receive()
        assert time.monotonic() - began < 30
        done.set()
        sending.join()
