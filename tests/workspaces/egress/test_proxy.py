"""The proxy alone, with real servers on loopback: what is allowed passes unchanged, everything else brings 0 bytes."""

import hashlib
import os
import socket
import ssl
import threading
import time

import pytest

from tests.support.waiting import until
from tests.workspaces.egress.grounds import HOST_LOOPBACK, OPEN, Running, Server, Site, certificate, read_request
from workspaces.egress import relay
from workspaces.egress.addresses import may_be_reached, read_networks

NAME = "allowed.test"


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def canary(made):
    """A server that must never hear anything."""
    return made(Server())


@pytest.fixture
def start(made):
    def running(*rules, names=None, **options):
        return made(Running(Site(*rules), names or {NAME: [OPEN]}, **options))

    return running


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"), NAME, "other.test", "deep.allowed.test")


def get(url: str, host: str, extra: str = "") -> bytes:
    return f"GET {url} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n".encode()


def hello(sock, name, trusted):
    context = ssl.create_default_context(cafile=trusted)
    return context.wrap_socket(sock, server_hostname=name)


# It works ------------------------------------------------------------------------------------------------------------


def test_a_listed_host_is_reached_over_plain_http(made, start):
    server = made(Server())
    running = start(f"{NAME}:{server.port}")
    url = f"http://{NAME}:{server.port}/a?b=c"
    heard = running.say(get(url, f"{NAME}:{server.port}", "Proxy-Connection: keep-alive\r\nX-Mine: 1\r\n"))
    assert heard.endswith(b"\r\n\r\nhello")
    assert b"connection: close" in heard
    assert (
        bytes(server.got)
        == f"GET /a?b=c HTTP/1.1\r\nhost: {NAME}:{server.port}\r\nx-mine: 1\r\nconnection: close\r\n\r\n".encode()
    )
    assert running.site.verdicts == [("allowed", NAME, server.port)]
    assert running.site.ended == [(NAME, len(server.got), len(heard))]


def test_fifty_megabytes_pass_unchanged_both_ways_in_a_tunnel(made, start, tls):
    size = 50 * 1024 * 1024
    data = os.urandom(1 << 20) * 50
    digests = {}

    def talk(sock, got):
        digest, left = hashlib.sha256(), size
        while left:
            part = sock.recv(min(left, 1 << 18))
            assert part, "cut short on the way up"
            digest.update(part)
            left -= len(part)
        digests["up"] = digest.hexdigest()
        sock.sendall(data)

    server = made(Server(talk=talk, tls=tls[0]))
    running = start(f"{NAME}:{server.port}")
    with hello(running.tunnel(NAME, server.port), NAME, tls[1]) as sock:
        sock.sendall(data)  # before reading, as two threads must not use one TLS connection at the same time
        digest, left = hashlib.sha256(), size
        while left:
            part = sock.recv(1 << 18)
            assert part, "cut short on the way down"
            digest.update(part)
            left -= len(part)
    assert digests["up"] == digest.hexdigest() == hashlib.sha256(data).hexdigest()


def test_an_answer_is_streamed_as_it_comes(made, start):
    go_on = threading.Event()

    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert go_on.wait(10)
        sock.sendall(b"4\r\nlast\r\n0\r\n\r\n")

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    with socket.create_connection(running.address, timeout=10) as sock:
        sock.sendall(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
        heard = b""
        while b"first" not in heard:
            heard += sock.recv(65536)
        go_on.set()
        while part := sock.recv(65536):
            heard += part
    assert heard.endswith(b"5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n")


def test_a_chunked_body_is_framed_anew_without_extensions_and_trailers(made, start):
    def talk(sock, got):
        while not got.endswith(b"0\r\n\r\n"):
            got += sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    chunked = get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}", "Transfer-Encoding: chunked\r\n")
    heard = running.say(
        chunked.replace(b"GET", b"POST") + b"5;a=b\r\nfirst\r\n0004\r\nlast\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    assert heard.startswith(b"HTTP/1.1 200 ")
    assert bytes(server.got).endswith(b"\r\n\r\n5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n")


def test_a_program_that_speaks_http_1_0_gets_no_chunks(made, start):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    heard = running.say(f"GET http://{NAME}:{server.port}/ HTTP/1.0\r\nHost: {NAME}:{server.port}\r\n\r\n".encode())
    assert heard.endswith(b"\r\n\r\nhello")
    assert b"chunked" not in heard


def test_the_answer_to_head_has_no_body(made, start):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    heard = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}").replace(b"GET", b"HEAD"))
    assert heard.lower().endswith(b"content-length: 5\r\nconnection: close\r\n\r\n")


def test_below_a_starred_name_all_is_allowed_and_itself_is_not(made, start, canary):
    server = made(Server())
    names = {"deep.allowed.test": [OPEN], NAME: [OPEN]}
    running = start(f"*.{NAME}:{server.port}", names=names)
    there = running.say(get(f"http://deep.{NAME}:{server.port}/", f"deep.{NAME}:{server.port}"))
    itself = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert (there[:15], itself[:12]) == (b"HTTP/1.1 200 OK", b"HTTP/1.1 403")


# What is refused -----------------------------------------------------------------------------------------------------


def test_an_unlisted_host_is_never_even_looked_up(start, canary):
    running = start("somewhere.test", names={"secret-data.evil.test": [OPEN]})
    for request in (
        get(f"http://secret-data.evil.test:{canary.port}/", f"secret-data.evil.test:{canary.port}"),
        f"CONNECT secret-data.evil.test:{canary.port} HTTP/1.1\r\n\r\n".encode(),
    ):
        heard = running.say(request)
        assert heard.startswith(b"HTTP/1.1 403 ")
        assert b"not on the list. Ask." in heard
    assert (running.asked, canary.connections, bytes(canary.got)) == ([], 0, b"")
    assert running.site.verdicts == [("blocked", "secret-data.evil.test", "it is not on the list")] * 2


@pytest.mark.parametrize(
    "address",
    ["127.77.0.1", "0x7f4d0001", "0177.77.0.1", "2135752705", "127.77.1", "[::1]", "[::ffff:127.77.0.1]", "0x7f.77.1"],
)
def test_an_address_is_no_name_in_whatever_notation(start, canary, address):
    running = start(NAME)
    for request in (
        f"CONNECT {address}:{canary.port} HTTP/1.1\r\n\r\n".encode(),
        get(f"http://{address}:{canary.port}/", f"{address}:{canary.port}"),
    ):
        heard = running.say(request)
        assert heard.startswith(b"HTTP/1.1 403 ")
        assert b"Use host names" in heard
    assert (canary.connections, len(running.site.verdicts)) == (0, 2)


def test_a_name_that_leads_to_a_special_address_is_refused(made, start):
    canary = made(Server(HOST_LOOPBACK))
    running = start(
        f"{NAME}:{canary.port}", names={NAME: [HOST_LOOPBACK, "169.254.169.254", "::1", "::ffff:127.77.0.1"]}
    )
    heard = running.say(get(f"http://{NAME}:{canary.port}/", f"{NAME}:{canary.port}"))
    assert b"private or special address" in heard
    assert canary.connections == 0


def test_a_name_is_looked_up_once_and_its_address_kept(made, start):
    """A name that leads elsewhere the second time it is asked: the second answer is never asked for."""
    server, canary = made(Server()), made(Server(HOST_LOOPBACK))
    running = start(f"{NAME}:{server.port}", names={NAME: [[OPEN], [HOST_LOOPBACK]]})
    first = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert (first[:12], running.asked) == (b"HTTP/1.1 200", [NAME])
    second = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert b"private or special address" in second
    assert canary.connections == 0


def test_a_redirect_is_the_programs_to_follow_and_is_judged_again(made, start, canary):
    def talk(sock, got):
        read_request(sock, got)
        to = f"http://elsewhere.test:{canary.port}/"
        sock.sendall(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}", names={NAME: [OPEN], "elsewhere.test": [OPEN]})
    heard = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert b"302 Found" in heard
    followed = running.say(get(f"http://elsewhere.test:{canary.port}/", f"elsewhere.test:{canary.port}"))
    assert (followed[:12], canary.connections) == (b"HTTP/1.1 403", 0)


@pytest.mark.parametrize("named", ["other.test", None])
def test_the_tls_hello_must_name_the_same_host(made, start, tls, named):
    server = made(Server(tls=tls[0]))
    running = start(f"{NAME}:{server.port}", "other.test")
    context = ssl.create_default_context(cafile=tls[1])
    context.check_hostname = False
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        context.wrap_socket(running.tunnel(NAME, server.port), server_hostname=named)
    why = "names another host, 'other.test'" if named else "no SNI"
    assert why in running.site.verdicts[0][2]
    assert (bytes(server.got), [v[0] for v in running.site.verdicts]) == (b"", ["blocked"])


def test_what_is_neither_tls_nor_http_does_not_pass_a_tunnel(start, canary):
    running = start(f"{NAME}:{canary.port}")
    opened = f"CONNECT {NAME}:{canary.port} HTTP/1.1\r\n\r\n".encode()
    running.say(opened, then=b"\x00\x01binary")
    other = get("/", "other.test")
    heard = running.say(opened, then=other)
    assert b"names another host" in heard
    assert (bytes(canary.got), [v[0] for v in running.site.verdicts]) == (b"", ["blocked", "blocked"])


def test_an_encrypted_hello_is_refused(start, canary):
    def vector(size, data):
        return len(data).to_bytes(size) + data

    def extension(kind, data):
        return kind.to_bytes(2) + vector(2, data)

    name = extension(0, vector(2, b"\0" + vector(2, NAME.encode())))
    body = b"\3\3" + bytes(32) + vector(1, b"") + vector(2, b"\x13\x01") + vector(1, b"\0")
    running = start(f"{NAME}:{canary.port}")
    for extensions in (name + extension(0xFE0D, b"x"), name + name, b""):
        message = body + vector(2, extensions)
        record = b"\x16\3\1" + vector(2, b"\1" + vector(3, message))
        heard = running.say(f"CONNECT {NAME}:{canary.port} HTTP/1.1\r\n\r\n".encode(), then=record)
        assert heard.endswith(bytes((21, 3, 3, 0, 2, 2, 112)))
    assert "ECH" in running.site.verdicts[0][2]
    assert bytes(canary.got) == b""


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: other.test\r\n\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\nHost: other.test\r\n\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\n\r\n",
        b"GET http://other.test@user@allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n",
        b"GET http://allowed.test:PORT@other.test/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n",
        b"GET http://allowed.test\0.evil.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n",
        b"GET https://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n\r\n",
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\nContent-Length: 5\r\n"
        b"Content-Length: 6\r\n\r\nhello",
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n"
        b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n"
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\nX: a\r\n b\r\n\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\nHost: allowed.test:PORT\r\n\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET http://allowed.test:PORT/ HTTP/1.1\r\nHost: allowed.test:PORT\r\nX: " + b"y" * 40000 + b"\r\n\r\n",
    ],
)  # fmt: skip
def test_a_request_that_could_be_read_in_two_ways_is_not_passed_on(start, canary, request_bytes):
    running = start(f"{NAME}:{canary.port}")
    heard = running.say(request_bytes.replace(b"PORT", str(canary.port).encode()))
    assert heard[:11] in (b"HTTP/1.1 40", b"")
    assert (canary.connections, bytes(canary.got)) == (0, b"")
    assert [v[0] for v in running.site.verdicts] == ["blocked"]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nX: a\x01b\r\n\r\nhello",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nhello",
        b"HTTP/2.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 999 Odd\r\n\r\nhello",
    ],
)
def test_an_answer_that_could_be_read_in_two_ways_is_not_passed_on(made, start, answer):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(answer)

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    heard = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert b"hello" not in heard


@pytest.mark.parametrize(
    "body", [b"5\nhello\r\n0\r\n\r\n", b"5\r\nhelloX0\r\n\r\n", b"-5\r\nhello\r\n0\r\n\r\n", b"5\r\nhel"]
)
def test_an_answer_with_a_broken_body_is_not_completed(made, start, body):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)

    server = made(Server(talk=talk))
    running = start(f"{NAME}:{server.port}")
    heard = running.say(get(f"http://{NAME}:{server.port}/", f"{NAME}:{server.port}"))
    assert b"0\r\n\r\n" not in heard.partition(b"\r\n\r\n")[2]


def test_a_tunnel_inside_a_tunnel_is_refused(start, canary):
    running = start(f"{NAME}:{canary.port}")
    opened = f"CONNECT {NAME}:{canary.port} HTTP/1.1\r\n\r\n".encode()
    heard = running.say(opened, then=f"CONNECT /x HTTP/1.1\r\nHost: {NAME}:{canary.port}\r\n\r\n".encode())
    assert b"HTTP/1.1 400 " in heard
    assert (bytes(canary.got), [v[0] for v in running.site.verdicts]) == (b"", ["blocked"])


def test_what_follows_a_request_on_its_connection_is_not_passed_on(made, start):
    server = made(Server())
    running = start(f"{NAME}:{server.port}")
    one = get(f"http://{NAME}:{server.port}/one", f"{NAME}:{server.port}")
    hidden = b"GET /two HTTP/1.1\r\nHost: other.test\r\n\r\n"
    heard = running.say(one + hidden)
    assert heard.count(b"HTTP/1.1 200") == 1
    assert b"two" not in server.got


def test_special_addresses_are_never_part_of_the_internet():
    special = [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:8.8.8.8",
        "::8.8.8.8",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "ff02::1",
        "fec0::1",
        "2130706433",
        "0x7f000001",
        "nonsense",
    ]
    assert [address for address in special if may_be_reached(address)] == []
    assert [may_be_reached(a) for a in ("93.184.216.34", "2606:2800:220:1::1")] == [True, True]
    assert may_be_reached("10.1.2.3", read_networks("10.1.0.0/16"))
    assert not may_be_reached("::ffff:10.1.2.3", read_networks("10.1.0.0/16,::/0"))


# Handrail itself -----------------------------------------------------------------------------------------------------


def test_handrail_is_reached_at_its_own_name_and_only_its_api_and_hooks(made, start):
    web = made(Server(HOST_LOOPBACK))
    running = start(NAME, web=(web.address, web.port))
    sent = get(
        "/api/v1/me?x=1", "handrail.internal", "Authorization: Bearer t\r\nCookie: a=b\r\nX-Forwarded-For: 1\r\n"
    )
    assert running.say(sent, to=running.inside).endswith(b"hello")
    assert bytes(web.got).split(b"\r\n")[:-2] == [
        b"GET /api/v1/me?x=1 HTTP/1.1",
        b"host: handrail.internal",
        b"authorization: Bearer t",
        b"x-handrail-inside: w-1",
        b"connection: close",
    ]
    web.got.clear()
    for target in ("/", "/admin/", "/api/v1/../../admin/", "/api/v1/%2e%2e/%2e%2e/admin/", "//api/v1/me", "/api/v2/me"):
        assert running.say(get(target, "handrail.internal"), to=running.inside).startswith(b"HTTP/1.1 404 ")
    assert running.say(get("/api/v1/me", "localhost"), to=running.inside).startswith(b"HTTP/1.1 421 ")
    assert bytes(web.got) == b""
    # A program that takes the proxy for every address finds it all the same.
    assert running.say(get("http://handrail.internal/api/v1/me", "handrail.internal")).endswith(b"hello")


def test_a_hook_that_handrail_holds_is_not_cut_as_an_idle_connection_to_a_host_is(made, start, monkeypatch):
    monkeypatch.setattr(relay, "IDLE_TIMEOUT", 0.3)

    def answer_late(sock, got):
        read_request(sock, got)
        time.sleep(1.5)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")

    web, host = made(Server(HOST_LOOPBACK, talk=answer_late)), made(Server(talk=answer_late))
    running = start(f"{NAME}:{host.port}", web=(web.address, web.port))
    assert running.say(get("/hooks/codex", "handrail.internal"), to=running.inside).endswith(b"late")
    cut = running.say(get(f"http://{NAME}:{host.port}/", f"{NAME}:{host.port}"))
    assert b"late" not in cut


@pytest.mark.parametrize("body", [b"", b"half"])
def test_a_program_that_goes_away_while_handrail_holds_its_hook_is_seen_to_be_gone(made, start, body):
    """Only then is its card cancelled, and an approval not used for nobody."""
    seen = threading.Event()

    def hold(sock, got):
        read_request(sock, got)
        while sock.recv(65536):
            pass
        seen.set()

    web = made(Server(HOST_LOOPBACK, talk=hold))
    running = start(web=(web.address, web.port))
    length = f"Content-Length: {len(body) * 2}\r\n"
    with socket.create_connection(running.inside, timeout=20) as program:
        program.sendall(get("/hooks/codex", "handrail.internal", length).replace(b"GET", b"POST", 1) + body)
        until(lambda: b"hooks/codex" in web.got)
        assert not seen.is_set()
    assert seen.wait(20)
