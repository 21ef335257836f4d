"""A container beside the keeper in a pod that waits in a pool: it takes what makes the pod a Run's own.

    python3 keeper.pyz wait

The pod has a certificate of its pool. Whoever shows the pool's other certificate first hands over what `bring` finds
in a Run's Secret elsewhere: a length (4 bytes, big-endian) and JSON, {name: text}. The keeper, which looks for it, then
begins to listen in place of this program, with the Run's certificate, and the pool's counts no more for this pod. The
container goes on without doing anything until the pod ends, since a pod one of whose containers has ended is never
Ready.
"""

import json
import os
import signal
import socket
import struct
import sys

from bring import ETC, GIVEN, hand_on
from link import look_after
from tls import server_context

PORT = 7443
SHAKE_S = 5.0
MOST_BYTES = 1 << 20
FRAME = struct.Struct(">I")
CLAIMED = f"{ETC}/.claimed"  # who is started again after it was claimed takes nothing more
IDLE = "import signal; signal.sigwait([signal.SIGTERM])"


def main():
    os.umask(0o022)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if not os.path.exists(CLAIMED):
        be_claimed()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", IDLE])  # forgets the Run's key


def be_claimed():
    """Wait for who has the pool's key, and hand on what it brings."""
    context = server_context(f"{GIVEN}/keeper.crt", f"{GIVEN}/keeper.key", f"{GIVEN}/runner.crt")
    with socket.create_server(("0.0.0.0", PORT), backlog=16) as listener:
        sock, given = claim(listener, context)
        os.close(os.open(CLAIMED, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444))
    with sock:
        hand_on(given)
        sock.sendall(b"taken\n")


def claim(listener, context):
    """Return the first connection that brings all there is to hand over, and that."""
    while True:
        sock, _ = listener.accept()
        try:
            look_after(sock)
            sock.settimeout(SHAKE_S)
            sock = context.wrap_socket(sock, server_side=True)
            (length,) = FRAME.unpack(read(sock, FRAME.size))
            if length > MOST_BYTES:
                raise ValueError("too long")
            return sock, json.loads(read(sock, length))
        except (OSError, ValueError):
            sock.close()


def read(sock, length):
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise ConnectionResetError("closed")
        data += more
    return data
