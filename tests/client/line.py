"""The line between a client and the desk: it can be cut, and something that is no desk can answer on it."""

import socket
import threading
from contextlib import suppress

THROUGH = "through"
# What answers in the desk's place, as the bytes that it sends before it closes.
END = b"Connection: close\r\n\r\n"
NO_DESK = {
    "closes": b"",
    "500": b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n" + END + b"Oops",
    "503": b"HTTP/1.1 503 Away\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + END + b"{}",
    "302": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/sign-in\r\nContent-Length: 0\r\n" + END,
    "204": b"HTTP/1.1 204 No Content\r\n" + END,
    "empty": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + END,
    "{}": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + END + b"{}",
    "a list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + END + b"[]",
    "html": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\n" + END + b"<html></html>",
    "truncated": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n" + END + b'{"status": "approved", ',
    "garbage": b"\x16\x03\x01\x00\xff\xfe\n\n\n",
}


class Line:
    """A port that passes connections on to the desk, or answers as `NO_DESK[mode]` says."""

    def __init__(self, port: int):
        self._port, self.mode = port, THROUGH
        self._open: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.answered = 0  # requests that were not passed on
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self, mode: str = "closes"):
        """End all connections and answer so from now on."""
        self.mode = mode
        for end in list(self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self):
        self.mode = THROUGH

    def close(self):
        self.cut("")
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(client,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket):
        self._open.add(client)
        try:
            with client:
                if self.mode == THROUGH:
                    self._pass_on(client)
                else:
                    self._answer(client, NO_DESK.get(self.mode, b""))
        except OSError:
            pass
        finally:
            self._open.discard(client)

    def _answer(self, client: socket.socket, answer: bytes):
        client.recv(1 << 16)
        self.answered += 1
        client.sendall(answer)

    def _pass_on(self, client: socket.socket):
        with socket.create_connection(("127.0.0.1", self._port)) as desk:
            self._open.add(desk)
            back = threading.Thread(target=_pump, args=(desk, client))
            back.start()
            _pump(client, desk)
            back.join()
            self._open.discard(desk)


def _pump(source: socket.socket, target: socket.socket):
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
