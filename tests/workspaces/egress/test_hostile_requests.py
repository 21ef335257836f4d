"""A thousand hostile requests and answers of more than 40 classes get no credential."""

import base64
import contextlib
import os
import random
import re
import socket
import ssl

import pytest

from tests.workspaces.egress.grounds import OPEN, Running, Server, Site, certificate, read_request
from tests.workspaces.egress.hostile import ANSWERS, OTHER, TRIES, Ports, Try
from tests.workspaces.egress.leashes import NAME, REAL, STAND_IN, Leashes

SEED = os.environ.get("HANDRAIL_TEST_SEED", "handrail")
EACH = 18  # of a class: more than a thousand in all
FORMS = [REAL.encode(), REAL.lower().encode()]
# Base64 of the value behind any bytes, without the characters at both ends that those change too.
FORMS += [base64.b64encode(b"x" * shift + REAL.encode())[4:-4] for shift in range(3)]


class Grounds:
    """A leashed host, its plain HTTP, another host, and the proxy between; `answers` are the leashed host's by path."""

    def __init__(self, folder):
        tls, trusted = certificate(folder, NAME, OTHER, f"*.{NAME}")
        self.answers: dict[bytes, bytes] = {}
        self.leashed, self.other = Server(tls=tls, talk=self.talk), Server(tls=tls, talk=self.talk)
        self.plain = Server(talk=self.talk)
        self.ports = Ports(self.leashed.port, self.plain.port, self.other.port)
        hosts = [{"host": f"{NAME}:{self.leashed.port}", "paths": ["/repos/acme/*"], "methods": ["GET"]}]
        self.leashes = Leashes(folder, trusted, hosts)
        rules = [f"{name}:{server.port}" for name in (NAME, OTHER, f"x.{NAME}", f"{NAME}x") for server in self.servers]
        self.running = Running(
            Site(*rules), {name: [OPEN] for name in (NAME, OTHER, f"x.{NAME}")}, leashes=self.leashes
        )

    @property
    def servers(self):
        return self.leashed, self.other, self.plain

    def talk(self, sock, got):
        asked = read_request(sock, got)
        path = asked.split(b" ", 2)[1]
        sock.sendall(self.answers.get(path, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
        with contextlib.suppress(OSError):
            sock.settimeout(0.02)
            while part := sock.recv(65536):
                got += part

    def close(self):
        self.running.close()
        for server in self.servers:
            server.close()

    def heard(self, one: Try) -> bytes:
        """All that comes back when a program does this."""
        port = self.ports.other if one.host == OTHER else self.ports.leashed
        connect = one.connect or f"CONNECT {one.host}:{port} HTTP/1.1\r\nHost: {one.host}:{port}"
        with socket.create_connection(self.running.address, timeout=5) as sock:
            if one.via == "proxy":
                return exchanged(sock, one.data)
            sock.sendall(f"{connect}\r\n\r\n".encode())
            answer = sock.recv(65536)
            if not answer.startswith(b"HTTP/1.1 200 "):
                return answer
            if one.via == "tunnel":
                return exchanged(sock, one.data)
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            try:
                with context.wrap_socket(sock, server_hostname=one.sni) as inner:
                    return exchanged(inner, one.data)
            except (OSError, ssl.SSLError) as error:
                return str(error).encode()


def exchanged(sock, data: bytes) -> bytes:
    heard = b""
    with contextlib.suppress(OSError):
        sock.settimeout(2)
        sock.sendall(data)
        while part := sock.recv(65536):
            heard += part
    return heard


@pytest.fixture(scope="module")
def grounds(tmp_path_factory):
    found = Grounds(tmp_path_factory.mktemp("hostile"))
    yield found
    found.close()


def test_there_are_a_thousand_of_forty_classes():
    assert len(TRIES) + len(ANSWERS) >= 40
    assert (len(TRIES) + len(ANSWERS)) * EACH >= 1000


def test_the_ordinary_request_does_get_it(grounds):
    one = Try(f"GET /repos/acme/shop HTTP/1.1\r\nHost: {NAME}:{grounds.ports.leashed}\r\n"
              f"Authorization: Bearer {STAND_IN}\r\n\r\n".encode())  # fmt: skip
    assert grounds.heard(one).startswith(b"HTTP/1.1 200 ")
    assert REAL.encode() in grounds.leashed.got


@pytest.mark.parametrize("name", TRIES)
def test_no_server_gets_it_by(grounds, name):
    draw = random.Random(f"{SEED} {name}")
    for number in range(EACH):
        before = [len(server.got) for server in grounds.servers]
        one = TRIES[name](draw, grounds.ports)
        heard = grounds.heard(one)
        new = [bytes(server.got[at:]) for server, at in zip(grounds.servers, before, strict=True)]
        for form in FORMS:
            assert not any(form in each for each in new), (number, one, heard)
            assert form not in heard, (number, one)


@pytest.mark.parametrize("name", ANSWERS)
def test_no_program_gets_it_by(grounds, name):
    draw = random.Random(f"{SEED} {name}")
    for number in range(EACH):
        path = f"/repos/acme/{name}/{number}"
        grounds.answers[path.encode()] = ANSWERS[name](draw)
        sent = (
            f"GET {path} HTTP/1.1\r\nHost: {NAME}:{grounds.ports.leashed}\r\nAuthorization: Bearer {STAND_IN}\r\n\r\n"
        )
        heard = grounds.heard(Try(sent.encode()))
        assert heard.startswith(b"HTTP/1.1 "), heard
        whole = heard + re.sub(rb"\r\n[0-9a-f]+\r\n", b"", heard)
        assert not [form for form in FORMS if form in whole], (number, grounds.answers[path.encode()], heard)
