"""A company's proxy, for real: CONNECT and plain HTTP on loopback, with a password if it wants one, over TLS if asked.

It looks names up in `hosts`, which this machine's resolver does not have to know. `asked` is the method and target of
each request, `shown` each Proxy-Authorization.
"""

import contextlib
import re
import socket
import threading
from urllib.parse import urlsplit


class CompanyProxy:
    def __init__(self, hosts: dict[str, tuple[str, int]], *, wants: str = "", refuses=(), tls=None):
        self.hosts, self.wants, self.refuses, self.tls = hosts, wants, set(refuses), tls
        self.asked, self.shown = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def address(self, user: str = "") -> str:
        at = f"{user}@" if user else ""
        return f"{'https' if self.tls else 'http'}://{at}{'localhost' if self.tls else '127.0.0.1'}:{self.port}"

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket):
        raw.settimeout(20)
        program = raw
        with contextlib.suppress(OSError, ValueError):
            program = self.tls.wrap_socket(raw, server_side=True) if self.tls else raw
            self._answer(program)
        program.close()

    def _answer(self, program: socket.socket):
        head = b""
        while b"\r\n\r\n" not in head:
            part = program.recv(65536)
            if not part:
                return
            head += part
        line = head.split(b"\r\n", 1)[0].decode()
        self.asked.append(line.removesuffix(" HTTP/1.1").removesuffix(" HTTP/1.0"))
        found = re.search(rb"(?i)\r\nproxy-authorization: ([^\r]*)", head)
        self.shown.append(found[1].decode() if found else "")
        if self.wants and self.shown[-1] != self.wants:
            program.sendall(b"HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
            return
        method, target, _ = line.split(" ")
        name = target.rpartition(":")[0] if method == "CONNECT" else urlsplit(target).hostname
        if name in self.refuses or name not in self.hosts:
            program.sendall(b"HTTP/1.1 403 Not for you\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(self.hosts[name], timeout=20) as host:
            if method == "CONNECT":
                program.sendall(b"HTTP/1.1 200 Go on\r\nX-Of: company\r\n\r\n")
            else:
                path = "/" + target.split("/", 3)[3]
                host.sendall(head.replace(target.encode(), path.encode(), 1))
            self._both(program, host)

    def _both(self, program: socket.socket, host: socket.socket):
        back = threading.Thread(target=_copy, args=(host, program), daemon=True)
        back.start()
        _copy(program, host)
        back.join(20)


def _copy(source: socket.socket, to: socket.socket):
    with contextlib.suppress(OSError, ValueError):
        while part := source.recv(65536):
            to.sendall(part)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_WR)
