"""Plain HTTP in the forms that clients and servers really use, and WebSockets without TLS, through the proxy alone."""

import socket

import pytest

from tests.workspaces.egress.grounds import OPEN, Running, Server, Site, read_request

NAME = "allowed.test"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nX-Kept: 1\r\n\r\n"


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def ask(made):
    """`ask(request, answer)`: (what came back, what the server got); PORT in the request is the server's."""

    def asked(request: bytes, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", within=10):
        def talk(sock, got):
            read_request(sock, got)
            sock.sendall(answer)

        server = made(Server(talk=talk))
        asked.running = made(Running(Site(f"{NAME}:{server.port}"), {NAME: [OPEN]}))
        port = str(server.port).encode()
        heard = asked.running.say(request.replace(b"PORT", port), within=within)
        return heard, bytes(server.got).replace(port, b"PORT")

    return asked


GET = b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "got"),
    [
        (GET.replace(b"PORT/ ", "PORT/café?q=ü ".encode()), b"GET /caf%C3%A9?q=%C3%BC HTTP/1.1"),
        (GET.replace(b"PORT/ ", b"PORT/caf\xe9 "), b"GET /caf%E9 HTTP/1.1"),
        (GET.replace(b"PORT/ ", b"PORT/a%20b%2F{c}|[d] "), b"GET /a%20b%2F{c}|[d] HTTP/1.1"),
        (GET.replace(b"PORT/ ", b"PORT?q "), b"GET /?q HTTP/1.1"),
        (GET.replace(b"http://allowed", b"HTTP://Allowed"), b"GET / HTTP/1.1"),
        (b"GET http://allowed.test:PORT/ HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1"),
        (GET.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 30_000 + b"\r\n\r\n"), b"x: " + b"y" * 30_000),
        (GET.replace(b"\r\n\r\n", b"\r\nX-Empty:\r\n\r\n"), b"x-empty:"),
        (GET.replace(b"\r\n\r\n", "\r\nX: ü\r\n\r\n".encode()), "x: ü".encode()),
    ],
)
def test_a_request_as_people_write_them_reaches_its_host(ask, request_bytes, got):
    heard, server_got = ask(request_bytes)
    assert heard.endswith(b"\r\n\r\nhello")
    assert got in server_got
    assert server_got.count(b"host: allowed.test:PORT\r\n") == 1


@pytest.mark.parametrize("host", [b"allowed.test:PORT", b"u:p%40@allowed.test:PORT"])
@pytest.mark.parametrize(
    ("user", "field", "sent"),
    [
        (b"u:p%40", b"", b"authorization: Basic dTpwQA=="),
        (b"u", b"", b"authorization: Basic dTo="),
        (b"u:p", b"Authorization: Bearer t\r\n", b"authorization: Bearer t"),
    ],
)
def test_a_user_name_in_an_address_becomes_the_authorization(ask, host, user, field, sent):
    request = b"GET http://%s@allowed.test:PORT/ HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (user, host, field)
    heard, got = ask(request)
    assert heard.endswith(b"hello")
    assert (got.count(b"authorization:"), sent in got) == (1, True)
    assert b"@" not in got


def test_the_log_of_a_blocked_address_has_no_password(ask):
    heard, got = ask(b"GET http://u:secret@10.1.2.3/ HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 403 ")
    assert "secret" not in str(ask.running.site.verdicts)
    assert (got, b"secret" in heard) == (b"", False)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello",
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\n\nhello",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 30_000 + b"\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTRANSFER-ENCODING: Chunked\r\n\r\n0005;a=b\r\nhello\r\n0;x\r\nX-Trailer: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3  \r\nllo\r\n000\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_an_answer_as_servers_send_them_reaches_the_program(ask, answer):
    heard, _ = ask(GET.replace(b"HTTP/1.1\r", b"HTTP/1.0\r"), answer)  # which gets the body without chunks
    head, _, body = heard.partition(b"\r\n\r\n")
    assert (head[:12], body) == (b"HTTP/1.1 200", b"hello")
    assert head.lower().count(b"content-length") <= 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", b"ended the connection before the head"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", b"ended the connection before the head"),
        (b"ICY 200 OK\r\n\r\nhello", b"first line is not one of HTTP/1.1"),
        (b"hello\n\n", b"first line is not one of HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\nhello", b"no field of the form"),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\nhello", b"control character"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\nhello", b"only Transfer-Encoding"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40_000 + b"\r\n\r\nhello", b"at most 32 KB"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\nhello", b"at most 100 fields"),
        (SWITCHED, b"switched protocols without being asked"),
    ],
)
def test_an_answer_that_is_not_passed_on_says_why(ask, answer, words):
    heard, _ = ask(GET, answer)
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert words in heard
    assert not heard.endswith(b"hello")


@pytest.mark.parametrize(
    ("request_bytes", "words"),
    [
        (GET.replace(b"\r\n", b"\n"), b"a line ends without CR"),
        (GET.replace(b"\r\n\r\n", b"\r\nX: a\r\n b\r\n\r\n"), b"goes on in a second line"),
        (GET.replace(b"\r\n\r\n", b"\r\nX : a\r\n\r\n"), b"no field of the form"),
        (GET.replace(b"\r\n\r\n", b"\r\nX: a\0\r\n\r\n"), b"control character"),
        (GET.replace(b"PORT/ ", b"PORT/a b "), b"first line is not one of HTTP/1.1"),
        (GET.replace(b"Host: allowed.test:PORT\r\n", b""), b"exactly one Host field"),
        (GET.replace(b"\r\n\r\n", b"\r\nHost: allowed.test:PORT\r\n\r\n"), b"exactly one Host field"),
        (GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx"), b"one Content-Length"),
        (GET.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), b"only Transfer-Encoding"),
    ],
)
def test_a_request_that_is_not_passed_on_says_why(ask, request_bytes, words):
    heard, got = ask(request_bytes, within=5)
    assert (heard[:12], got) == (b"HTTP/1.1 400", b"")
    assert words in heard


# WebSockets without TLS ----------------------------------------------------------------------------------------------

WEBSOCKET = b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n\r\n"


@pytest.fixture
def echo(made):
    """A server that switches to a WebSocket, speaks first, and sends back what it hears."""

    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(SWITCHED + b"first")
        while part := sock.recv(65536):
            sock.sendall(part)

    return made(Server(talk=talk))


def opened(running, port: int, way: str) -> socket.socket:
    sock = running.tunnel(NAME, port) if way == "connect" else socket.create_connection(running.address, timeout=10)
    where = "/ws" if way == "connect" else f"http://{NAME}:{port}/ws"
    sock.sendall(f"GET {where} HTTP/1.1\r\nHost: {NAME}:{port}\r\n".encode() + WEBSOCKET)
    return sock


@pytest.mark.parametrize("way", ["connect", "whole address"])
def test_a_websocket_passes_both_ways_and_is_counted(made, echo, way):
    running = made(Running(Site(f"{NAME}:{echo.port}"), {NAME: [OPEN]}))
    with opened(running, echo.port, way) as sock, sock.makefile("rb") as heard:
        assert heard.readline() == b"HTTP/1.1 101 Switching Protocols\r\n"
        head = b"".join(iter(heard.readline, b"\r\n")).lower()
        assert b"upgrade: websocket\r\n" in head
        assert b"x-kept: 1\r\n" in head
        assert heard.read(5) == b"first"
        sock.sendall(b"\x81\x00frame")
        assert heard.read(7) == b"\x81\x00frame"
        sock.shutdown(socket.SHUT_WR)
        assert heard.read() == b""
    head = bytes(echo.got).partition(b"\r\n\r\n")[0]
    assert b"connection: Upgrade\r\nupgrade: websocket" in head
    assert running.site.verdicts == [("allowed", NAME, echo.port)]
    running.close()
    assert [host for host, *_ in running.site.ended] == [NAME]
    assert running.site.ended[0][1] > len(head)


def test_a_websocket_to_a_host_that_is_not_listed_is_refused(made, echo):
    running = made(Running(Site("other.test"), {NAME: [OPEN]}))
    with opened(running, echo.port, "whole address") as sock:
        assert sock.recv(65536).startswith(b"HTTP/1.1 403 ")
    assert echo.connections == 0


@pytest.mark.parametrize(
    "fields",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: a\r\n\r\n",
        b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
        b"Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
        b"Upgrade: websocket\r\n\r\n",
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\nx",
    ],
)
def test_no_other_switch_is_asked_for(ask, fields):
    heard, got = ask(GET.replace(b"\r\n\r\n", b"\r\n" + fields))
    assert heard.endswith(b"hello")
    assert (b"upgrade" in got.lower(), b"connection: close" in got) == (False, True)


def test_a_host_that_does_not_switch_answers_as_ever(ask):
    heard, _ = ask(GET[:-2] + WEBSOCKET, b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno")
    assert (heard[:12], heard[-4:]) == (b"HTTP/1.1 426", b"\r\nno")


def test_a_switch_to_another_protocol_is_not_passed_on(ask):
    heard, _ = ask(GET[:-2] + WEBSOCKET, SWITCHED.replace(b"WebSocket", b"h2c") + b"hello")
    assert (heard[:12], b"another protocol than WebSocket" in heard) == (b"HTTP/1.1 502", True)
