"""Real servers that count every byte they get, and the proxy core on a loop of its own."""

import asyncio
import datetime
import socket
import ssl
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from workspaces.egress.addresses import read_networks
from workspaces.egress.attempts import Block, BlockCode
from workspaces.egress.names import read_rules
from workspaces.egress.proxy import Proxy

OPEN, HOST_LOOPBACK = "127.77.0.1", "127.0.0.1"
NOT_LISTED = Block(BlockCode.NOT_LISTED, "it is not on the list")
NETWORKS = read_networks("127.77.0.0/16")


class Server:
    """Talks with each connection by `talk(socket, got)`; `got` is every byte that it ever received."""

    def __init__(self, address=OPEN, port=0, *, talk=None, tls=None):
        self.got, self.connections, self.talk, self.tls = bytearray(), 0, talk or answer_hello, tls
        self.listener = socket.create_server((address, port))
        self.address, self.port = self.listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw):
        with raw:
            raw.settimeout(20)
            try:
                if self.tls:
                    with self.tls.wrap_socket(raw, server_side=True) as wrapped:
                        self.talk(wrapped, self.got)
                else:
                    self.talk(raw, self.got)
            except (OSError, ValueError):
                pass

    def close(self):
        self.listener.close()


def read_request(sock, got) -> bytes:
    """Up to the end of the head; everything goes into `got`."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            raise ValueError("gone")
        got += part
        data += part
    return data


def answer_hello(sock, got):
    read_request(sock, got)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def certificate(folder: Path, *names: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context for these names, and the file by which clients trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "egress tests")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(1)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    pem.write_bytes(secret + public)
    trusted = folder / "trusted.pem"
    trusted.write_bytes(public)
    trusted.chmod(0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context, trusted


class Site:
    """A list, and a memory of verdicts."""

    def __init__(self, *rules: str):
        self.rules, self.verdicts, self.ended = read_rules(rules), [], []

    async def check(self, host, port):
        return None if any(rule.allows(host, port) for rule in self.rules) else NOT_LISTED

    async def admit(self, attempt):
        self.verdicts.append(("allowed", attempt.host, attempt.port))

    def log_blocked(self, attempt):
        self.verdicts.append(("blocked", attempt.host, attempt.block.message))

    def log_ended(self, attempt):
        self.ended.append((attempt.host, attempt.sent, attempt.received))

    def how_to_allow(self, host, port):
        return "Ask."


class Running:
    """The proxy on a thread. `names`: what its resolver answers, or one answer for each time; `asked`: what for."""

    def __init__(self, site: Site, names: dict, *, networks=NETWORKS, web=None, listeners=(), **options):
        self.site, self.names, self.asked = site, names, []
        self.loop = asyncio.new_event_loop()
        self.outward, self.inward = listeners or [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.proxy = Proxy(site, resolve=self._resolve, networks=networks, web=web, workspace="w-1", **options)
        self.address = self.outward.getsockname()
        self.inside = self.inward.getsockname()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        serving = self.proxy.serve(self.outward, self.inward)
        asyncio.run_coroutine_threadsafe(serving, self.loop).result(10)

    async def _resolve(self, name):
        self.asked.append(name)
        answers = self.names.get(name, [])
        return answers.pop(0) if answers and isinstance(answers[0], list) else answers

    def say(self, data: bytes, *, to=None, then=b"", within=10) -> bytes:
        """Send bytes as they are; everything that comes back until the end."""
        with socket.create_connection(to or self.address, timeout=within) as sock:
            sock.sendall(data)
            heard = b""
            if then:
                heard = sock.recv(65536)
                sock.sendall(then)
            try:
                while part := sock.recv(65536):
                    heard += part
            except ConnectionResetError:
                pass
            return heard

    def tunnel(self, host: str, port: int) -> socket.socket:
        sock = socket.create_connection(self.address, timeout=20)
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        heard = sock.recv(65536)
        assert heard.startswith(b"HTTP/1.1 200 "), heard
        return sock

    def close(self):
        if self.loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self.proxy.close(), self.loop).result(10)
        # Transports close their sockets in a later turn of the loop.
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()
