"""Listening sockets inside the network namespace of a Run, made from outside (docs/decisions says why)."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

PROXY_PORT, HANDRAIL_PORT = 3128, 80
ANSWER_S = 15.0


class NoListeners(Exception):
    """Why a workspace cannot be given its way out, in words."""


class Opener:
    """The helper process; started at the first use, and again when it is gone. Its verbs block."""

    def __init__(self):
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._control: socket.socket | None = None

    def listen(self, pid: int, start_time: int, ports=(PROXY_PORT, HANDRAIL_PORT)) -> list[socket.socket]:
        """One listening socket for each port of 127.0.0.1, as the process with this pid sees it. NoListeners."""
        request = json.dumps({"pid": pid, "start_time": start_time, "ports": list(ports)}).encode()
        with self._lock:
            try:
                if self._control is None:
                    self._start()
                self._control.send(request)
                data, fds, _flags, _address = socket.recv_fds(self._control, 4096, len(ports))
                answer = json.loads(data)
            except (OSError, ValueError) as error:
                self._end()
                raise NoListeners(f"The helper that opens the network failed ({error}).") from error
        made = [socket.socket(fileno=fd) for fd in fds]
        if "error" in answer or len(made) != len(ports):
            for listener in made:
                listener.close()
            raise NoListeners(f"The network could not be opened: {answer.get('error', 'a socket is missing')}.")
        for listener in made:
            listener.setblocking(False)
        return made

    def close(self):
        with self._lock:
            self._end()

    def _start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(ANSWER_S)
        with theirs:
            program = Path(__file__).with_name("opener.py")
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
