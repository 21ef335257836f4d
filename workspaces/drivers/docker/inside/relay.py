"""What the engine starts in a container for a connection to its keeper: standard input and output are the other end.

python3 keeper.pyz relay
"""

import ctypes
import os
import select
import socket
import time

from keeper import ADDRESS

PR_SET_DUMPABLE = 4
STARTS_S, PAUSE_S = 15.0, 0.02
CHUNK = 64 << 10


def main():
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    keeper = connect()
    while True:
        ready, _, _ = select.select([0, keeper], [], [])
        if 0 in ready:
            data = os.read(0, CHUNK)
            if not data:
                return
            keeper.sendall(data)
        if keeper in ready:
            data = keeper.recv(CHUNK)
            if not data:
                return
            while data:
                data = data[os.write(1, data) :]


def connect():
    """Return a connection to the keeper, which may still be starting."""
    deadline = time.monotonic() + STARTS_S
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(ADDRESS)
            return sock
        except OSError:
            sock.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
