"""Open listening sockets inside a Run's network namespace from the host (docs/decisions gives the reason)."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

PROXY_PORT, HANDRAIL_PORT = 3128, 80
HELPER_TIMEOUT = 15.0


class NoListeners(Exception):
    """The workspace's listening sockets could not be opened; the message can be shown."""


class Opener:
    """Client of the helper process, which is started at first use and restarted after a failure. Methods block."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._control: socket.socket | None = None

    def listen(self, pid: int, start_time: int, ports=(PROXY_PORT, HANDRAIL_PORT)) -> list[socket.socket]:
        """Return one listening socket on 127.0.0.1 for each port, in the network namespace of process `pid`.

        Raise NoListeners if the helper fails or a socket is missing.
        """
        return self._open({"pid": pid, "start_time": start_time, "ports": list(ports)}, len(ports))

    def make_socket(self, pid: int, start_time: int, family: int) -> socket.socket:
        """Return an unconnected TCP socket in the network namespace of process `pid`. NoListeners as in `listen`."""
        return self._open({"pid": pid, "start_time": start_time, "family": int(family)}, 1)[0]

    def _open(self, asked: dict, count: int) -> list[socket.socket]:
        request = json.dumps(asked).encode()
        with self._lock:
            try:
                if self._control is None:
                    self._start()
                self._control.send(request)
                data, fds, _flags, _address = socket.recv_fds(self._control, 4096, count)
                response = json.loads(data)
            except (OSError, ValueError) as error:
                self._end()
                raise NoListeners(f"The helper that opens the network failed ({error}).") from error
        found = [socket.socket(fileno=fd) for fd in fds]
        if "error" in response or len(found) != count:
            for each in found:
                each.close()
            raise NoListeners(f"The network could not be opened: {response.get('error', 'a socket is missing')}.")
        for each in found:
            each.setblocking(False)
        return found

    def close(self):
        with self._lock:
            self._end()

    def _start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(HELPER_TIMEOUT)
        with theirs:
            program = Path(__file__).with_name("netns_sockets.py")
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(program), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={},
                cwd="/",
            )
        self._control = ours

    def _end(self):
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None
