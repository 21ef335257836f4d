"""A credential is put into requests within its leash, over TLS that the proxy opened, and taken out of what returns."""

import asyncio
import base64
import gzip
import hashlib
import re
import socket
import ssl
from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.egress.grounds import OPEN, Running, Server, Site, certificate, read_request
from tests.workspaces.egress.leashes import NAME, REAL, STAND_IN, Leashes, inside_tls
from workspaces.egress.leash import BadLeash, read_header, read_host

BEARER = f"Authorization: Bearer {STAND_IN}\r\n"


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"), NAME, "other.test")


@pytest.fixture
def opened(made, tls, tmp_path):
    """`opened(talk, paths=…)`: (the proxy, its leashes, a server at the leashed host, and another server)."""

    def start(talk=None, *, paths=("/repos/acme/*",), methods=("GET",), answers=(), **options):
        server = made(Server(tls=tls[0], talk=talk or echo))
        hosts = [{"host": f"{NAME}:{server.port}", "paths": list(paths), "methods": list(methods)}]
        leashes = Leashes(tmp_path, tls[1], hosts, answers=answers, **options)
        site = Site(f"{NAME}:{server.port}", f"other.test:{server.port}")
        running = made(Running(site, {NAME: [OPEN], "other.test": [OPEN]}, leashes=leashes))
        return running, leashes, server

    return start


def echo(sock, got):
    """Return the head and body that came, as the body."""
    data = read_request(sock, got)
    head, _, body = data.partition(b"\r\n\r\n")
    if found := re.search(rb"(?i)\r\ncontent-length: *(\d+)", head):
        while len(body) < int(found[1]):
            part = sock.recv(65536)
            got += part
            body += part
    answer = head + b"\n" + body
    more = b"X-Echo: " + (re.search(rb"(?i)\r\nauthorization: ([^\r]*)", head) or [0, b"none"])[1] + b"\r\n"
    sock.sendall(b"HTTP/1.1 200 OK\r\n" + more + b"Content-Length: %d\r\n\r\n" % len(answer) + answer)


def request(path: str, port: int, more: str = BEARER, method="GET", body="", host="") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host or f'{NAME}:{port}'}\r\n{more}{length}\r\n{body}".encode()


# Within the leash ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (f"Bearer {STAND_IN}", f"Bearer {REAL}"),
        (f"token {STAND_IN}", f"token {REAL}"),
        (
            "Basic " + base64.b64encode(f"x-access-token:{STAND_IN}".encode()).decode(),
            "Basic " + base64.b64encode(f"x-access-token:{REAL}".encode()).decode(),
        ),
    ],
)
def test_the_real_value_is_put_in_as_the_program_wrote_the_stand_in(opened, sent, received):
    running, leashes, server = opened()
    heard = inside_tls(
        running, leashes, server.port, request("/repos/acme/shop", server.port, f"Authorization: {sent}\r\n")
    )
    assert f"authorization: {received}\r\n".encode() in server.got
    assert STAND_IN.encode() not in server.got
    assert leashes.uses == [("GET", "/repos/acme/shop")]
    assert heard.startswith(b"HTTP/1.1 200 OK\r\n")


def test_it_is_taken_out_of_the_head_and_the_body_that_return(opened):
    running, leashes, server = opened()
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port))
    assert REAL.encode() in server.got
    assert REAL.encode() not in heard
    assert heard.lower().count(b"bearer [secret github]") == 2  # the head and the body


@pytest.mark.parametrize("form", ["plain", "base64", "url", "in pieces", "chunks"])
def test_it_is_taken_out_in_each_form_and_across_pieces(opened, form):
    coded = base64.b64encode(REAL.encode()) if form == "base64" else REAL.replace("_", "%5F").encode()
    text = {"plain": REAL.encode(), "base64": coded, "url": REAL.encode()}.get(form, REAL.encode())

    def talk(sock, got):
        read_request(sock, got)
        if form == "chunks":
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for byte in b"before " + text + b" after":
                sock.sendall(b"1\r\n" + bytes([byte]) + b"\r\n")
            sock.sendall(b"0\r\n\r\n")
            return
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nbefore " % (len(text) + 13))
        for at in range(0, len(text), 3 if form == "in pieces" else len(text)):
            sock.sendall(text[at : at + (3 if form == "in pieces" else len(text))])
        sock.sendall(b" after")

    running, leashes, server = opened(talk)
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port))
    assert text not in heard
    assert REAL.encode() not in b"".join(re.findall(rb"1\r\n(.)\r\n", heard, re.DOTALL))
    plain = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", heard)
    assert b"before" in plain.replace(b"\r\n", b"")
    assert b"secret github" in plain


def test_an_answer_is_asked_for_as_a_whole(opened):
    running, leashes, server = opened()
    more = BEARER + "Range: bytes=0-9\r\nIf-Range: x\r\n"
    inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port, more))
    assert REAL.encode() in server.got
    assert b"range" not in server.got
    inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port, "Range: bytes=0-9\r\n"))
    assert b"\r\nrange: bytes=0-9\r\n" in server.got


def test_the_answer_to_head_keeps_its_length(opened):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")

    running, leashes, server = opened(talk)
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/blob", server.port, method="HEAD"))
    assert b"\r\ncontent-length: 1234\r\n" in heard.lower()
    assert heard.endswith(b"\r\n\r\n")


def test_the_next_handshake_with_the_host_goes_on_with_its_session(opened):
    reused = []

    def talk(sock, got):
        reused.append(sock.session_reused)
        echo(sock, got)

    running, leashes, server = opened(talk)
    context = leashes.tls()
    leashes.tls = lambda: context
    for _ in range(3):
        heard = inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port))
        assert heard.startswith(b"HTTP/1.1 200 ")
    assert reused == [False, True, True]


def test_a_host_that_ends_a_handshake_which_goes_on_is_connected_to_anew(opened):
    reused = []

    def talk(sock, got):
        reused.append(sock.session_reused)
        echo(sock, got)

    running, leashes, server = opened(talk)
    context, tls = leashes.tls(), server.tls
    leashes.tls = lambda: context
    answers = []
    for each in (tls, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), tls, tls):  # the second has no certificate
        server.tls = each
        answers.append(inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port))[:12])
    assert answers == [b"HTTP/1.1 200", b"HTTP/1.1 502", b"HTTP/1.1 200", b"HTTP/1.1 200"]
    assert reused == [False, False, False]


def test_a_session_is_of_the_authorities_that_the_host_was_checked_with(opened):
    running, leashes, server = opened()
    trusting, other = leashes.tls(), ssl.create_default_context()
    leashes.tls = lambda: trusting
    asked = request("/repos/acme/shop", server.port)
    assert inside_tls(running, leashes, server.port, asked).startswith(b"HTTP/1.1 200 ")
    leashes.tls = lambda: other
    assert b"is not trusted" in inside_tls(running, leashes, server.port, asked)


def test_a_body_goes_up_whole_and_an_expectation_is_answered(opened):
    running, leashes, server = opened(methods=["POST"])
    more = BEARER + "Expect: 100-continue\r\n"
    heard = inside_tls(
        running, leashes, server.port, request("/repos/acme/x", server.port, more, "POST", "z" * 300_000)
    )
    assert heard.startswith(b"HTTP/1.1 100 ")
    assert bytes(server.got).endswith(b"z" * 300_000)
    assert leashes.uses == [("POST", "/repos/acme/x")]


def test_a_request_without_the_stand_in_passes_without_a_credential(opened):
    running, leashes, server = opened()
    heard = inside_tls(running, leashes, server.port, request("/anything", server.port, "X-Mine: 1\r\n"))
    assert heard.startswith(b"HTTP/1.1 200 OK")
    assert REAL.encode() not in server.got
    assert (leashes.uses, leashes.asked) == ([], [])


def test_the_tls_of_a_host_that_no_credential_names_is_not_opened(opened, tls):
    running, _leashes, server = opened()
    context = ssl.create_default_context(cafile=tls[1])  # the server's own certificate
    with context.wrap_socket(running.tunnel("other.test", server.port), server_hostname="other.test") as sock:
        sock.sendall(request("/repos/acme/shop", server.port, host=f"other.test:{server.port}"))
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
    assert STAND_IN.encode() in server.got
    assert REAL.encode() not in server.got


def test_a_program_that_does_not_know_the_authority_is_said(opened, tls):
    running, _leashes, server = opened()
    context = ssl.create_default_context(cafile=tls[1])
    with pytest.raises(ssl.SSLCertVerificationError):
        context.wrap_socket(running.tunnel(NAME, server.port), server_hostname=NAME)
    until(lambda: [verdict for verdict in running.site.verdicts if verdict[0] == "blocked"])
    assert running.site.verdicts[-1][1] == NAME
    assert "the certificate of the workspace" in running.site.verdicts[-1][2]
    assert bytes(server.got) == b""


def test_a_server_with_a_certificate_that_is_not_trusted_gets_nothing(opened, made, tmp_path):
    running, leashes, server = opened()
    leashes.tls = ssl.create_default_context
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/shop", server.port))
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert b"is not trusted" in heard
    assert bytes(server.got) == b""


# Beyond the leash ----------------------------------------------------------------------------------------------------


def test_a_use_beyond_the_leash_is_asked_with_all_that_it_would_send(opened):
    running, leashes, server = opened()
    heard = inside_tls(
        running, leashes, server.port, request("/repos/acme/shop?a=b", server.port, method="POST", body="new")
    )
    (use,) = leashes.asked
    assert (use.credential.name, use.host, use.port) == ("github", NAME, server.port)
    assert (use.method, use.path, use.query) == ("POST", "/repos/acme/shop", "a=b")
    assert (use.body_bytes, use.body_sha256) == (3, hashlib.sha256(b"new").hexdigest())
    assert heard.startswith(b"HTTP/1.1 403 ")
    assert b"Nobody allowed it." in heard
    assert bytes(server.got) == b""


def test_an_approval_sends_it_once(opened):
    running, leashes, server = opened(answers=[""])
    asked = request("/repos/acme/shop", server.port, method="POST", body="new")
    assert inside_tls(running, leashes, server.port, asked).startswith(b"HTTP/1.1 200 ")
    assert f"authorization: Bearer {REAL}".encode() in server.got
    assert bytes(server.got).endswith(b"\r\n\r\nnew")
    assert inside_tls(running, leashes, server.port, asked).startswith(b"HTTP/1.1 403 ")
    assert server.got.count(REAL.encode()) == 1


@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_the_credential_is_the_one_that_is_set_when_the_answer_comes(opened, change):
    running, leashes, server = opened()
    new = "ghp_NewNewNewNewNewNewNewNewNewNew5678"

    async def answered_after_a_change(use):
        if change == "deleted":
            leashes.credential = replace(leashes.credential, hosts=())
        else:
            leashes.credential = replace(leashes.credential, value=new, stand_in="ghp_" + "y" * len(new[4:]))
        return ""

    leashes.ask = answered_after_a_change
    heard = inside_tls(running, leashes, server.port, request("/admin", server.port, method="DELETE"))
    assert REAL.encode() not in server.got
    if change == "deleted":
        assert heard.startswith(b"HTTP/1.1 403 ")
        assert b"The credential github is not set for" in heard
        assert bytes(server.got) == b""
    else:
        assert f"authorization: Bearer {new}".encode() in server.got
        assert heard.startswith(b"HTTP/1.1 200 ")
        assert new.encode() not in heard


def test_a_tunnel_that_was_opened_before_a_change_is_held_to_it(opened):
    running, leashes, server = opened()
    context = ssl.create_default_context(cafile=leashes.trusted)
    with context.wrap_socket(running.tunnel(NAME, server.port), server_hostname=NAME) as sock:
        leashes.credential = replace(leashes.credential, hosts=())
        sock.sendall(request("/repos/acme/shop", server.port))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert REAL.encode() not in server.got
    assert leashes.uses == []


# Hostile requests ----------------------------------------------------------------------------------------------------

OTHER_PATHS = [
    "/", "/repos", "/repos/", "/repos/acme", "/repos/acmeX/shop", "/repos/other/acme/", "/Repos/acme/shop",
    "/repos/acme/../other/x", "/repos/acme/..", "/repos/acme/./x/../../other", "/repos//acme/x", "//repos/acme/x",
    "/repos/acme/%2e%2e/other", "/repos/acme/%2E%2e/other", "/repos/acme/.%2e/other", "/repos/acme/..%2fother",
    "/repos/acme%2f..%2fother", "/repos/acme/..%5cother", "/repos/acme/..\\other", "/repos/acme/x;/../../other",
    "/repos/acme/..;/other", "/repos/acme/%00", "/repos/acme/%252e%252e/other", "/repos%2facme/x", "/repos/acme/x%3b",
    "/x?/repos/acme/x", "/user?path=/repos/acme/", "/repos/acme/..?x", "/repos/acme/.", "/repos/./acme/x",
    "/repos/acme/%c0%ae%c0%ae/user", "/repos/acme/%e0%80%ae./user", "/repos/acme/%EF%BC%8E%EF%BC%8E/user",
    "/repos/acme/%e2%80%a5/user", "/repos/acme/x%0d%0aX-A:%20b", "/repos/acme/x%09", "/repos/acme/x%7F",
    "/repos/acme/%u002e%u002e/user", "/repos/acme/%%32%65%%32%65/user", "/repos/acme/x%", "/repos/acme/x%2",
    "/repos/acme/%f8%80%80%80%ae./user", "/repos/acme/%ef%b9%92./user",
    "/%72epos/acme/x", "/repos/%61cme/x", "/user", "/admin", "/graphql", "/repos/acme/../..",
]  # fmt: skip
OTHER_METHODS = [
    "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "MERGE", "get", "Get", "GETX", "TRACE", "LINK", "QUERY",
]  # fmt: skip
OTHER_HOSTS = [
    "other.test", "{name}.evil.test", "evil.test:{port}", "{name}", "{name}:443", "{name}:80", "user@{name}:{port}",
    "{name}:{port}@evil.test", "127.0.0.1", "[::1]:{port}", "{name}:{port}/x", "{name}:{port},evil.test", "", " ",
    "x{name}:{port}", "{name}:0{port}0", "handrail.internal", "localhost",
]  # fmt: skip
UPGRADES = ["websocket", "h2c", "TLS/1.0", "websocket, h2c", "foo", "WebSocket"]
IN_OTHER_PLACES = [
    "X-Token: {s}\r\n", "Cookie: token={s}\r\n", "Proxy-Authorization: Bearer {s}\r\n",
    "X-Authorization: Bearer {s}\r\n",
    "Authorization2: {s}\r\n", "Referer: https://x/{s}\r\n", "User-Agent: {s}\r\n", "Authorisation: {s}\r\n",
]  # fmt: skip
DOUBLED = [
    BEARER + BEARER, BEARER + "Authorization: Bearer x\r\n", "authorization: x\r\n" + BEARER,
    BEARER + "AUTHORIZATION: Basic eA==\r\n", "Authorization: \r\n" + BEARER,
]  # fmt: skip
OVERRIDES = [
    f"{name}: {value}\r\n{BEARER}"
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL")
    for value in ("DELETE", "/admin", "get")
]
SMUGGLED = [
    "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n",
    "Content-Length: +5\r\n", "Content-Length: 5, 5\r\n", "Content-Length: 0x5\r\n",
    "Transfer-Encoding:\x0bchunked\r\n",
    "Content-Length: -1\r\n", "X: a\r\n b\r\n", "X\x00: a\r\n", "X: a\nY: b\r\n", "X: a\rY: b\r\n", " X: a\r\n",
    "Host: evil.test\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "no colon\r\n", ": x\r\n",
    "Content-Length: 5\r\ncontent-length: 5\r\n", "Content-Length: \r\n", "Content-Length: 1e1\r\n",
]  # fmt: skip
WHOLE = [
    "http://{name}/repos/acme/x", "https://{name}:{port}/repos/acme/x", "http://evil.test/repos/acme/x", "*",
    "{name}:{port}", "repos/acme/x", "http:/repos/acme/x", "https://user@evil.test/repos/acme/x", "?/repos/acme/x",
    "/repos/acme/x#y", "#/repos/acme/x", "",
]  # fmt: skip
VERSIONS = ["HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/3", "http/1.1", "HTTP/1.1 x", "", "ICY/1.1"]
BROKEN_BASIC = ["Basic !!!", "Basic", "Basic " + STAND_IN[:-1], "Digest username=x", "Bearer", "Bearer ghp_other"]


def hostile():
    for path in OTHER_PATHS:
        yield "path", lambda port, path=path: request(path, port)
    for method in OTHER_METHODS:
        yield "method", lambda port, method=method: request("/repos/acme/x", port, method=method)
        yield "method with body", lambda port, method=method: request("/repos/acme/x", port, method=method, body="abc")
    for host in OTHER_HOSTS:
        yield (
            "host",
            lambda port, host=host: request("/repos/acme/x", port, host=host.format(name=NAME, port=port) or "-"),
        )
    for word in UPGRADES:
        more = f"{BEARER}Connection: Upgrade\r\nUpgrade: {word}\r\nSec-WebSocket-Key: eA==\r\n"
        yield "upgrade", lambda port, more=more: request("/repos/acme/x", port, more)
    for more in IN_OTHER_PLACES:
        yield "place", lambda port, more=more: request("/repos/acme/x", port, more.format(s=STAND_IN))
    yield "place", lambda port: request(f"/repos/acme/{STAND_IN}", port, "")
    yield "place", lambda port: request(f"/repos/acme/x?token={STAND_IN}", port, "")
    yield "place", lambda port: request("/repos/acme/x", port, "", "POST", STAND_IN)
    for more in DOUBLED:
        yield "doubled", lambda port, more=more: request("/repos/acme/x", port, more)
    for more in OVERRIDES:
        yield "override", lambda port, more=more: request("/repos/acme/x", port, more)
    for more in SMUGGLED:
        yield (
            "smuggling",
            lambda port, more=more: request("/repos/acme/x", port, more + BEARER, "GET") + b"5\r\nabcde\r\n",
        )
        yield "smuggling after", lambda port, more=more: request("/repos/acme/x", port, BEARER + more) + b"abcde"
    for target in WHOLE:
        yield "target", lambda port, t=target: request(t.format(name=NAME, port=port), port)
    for version in VERSIONS:
        yield "version", lambda port, v=version: request("/repos/acme/x", port).replace(b"HTTP/1.1", v.encode(), 1)
    for shown in BROKEN_BASIC:
        yield "scheme", lambda port, s=shown: request("/repos/acme/x", port, f"Authorization: {s}\r\n")
    yield "pipelined", lambda port: request("/repos/acme", port) + request("/repos/acme/x", port)
    yield "connect", lambda port: request("/repos/acme/x", port, method="CONNECT")
    yield "bare line ends", lambda port: request("/repos/acme/x", port).replace(b"\r\n", b"\n")
    yield "nothing", lambda port: b"\r\n\r\n"
    yield "tls again", lambda port: b"\x16\x03\x01\x00\x05hello" + request("/repos/acme/x", port)
    yield "http/2", lambda port: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield "long", lambda port: request("/repos/acme/" + "x" * 40_000, port)
    yield "many fields", lambda port: request("/repos/acme/x", port, BEARER + "X: y\r\n" * 200)


CASES = list(hostile())


def test_there_are_some_hundreds_in_many_classes():
    assert len(CASES) > 180
    assert len({kind for kind, _ in CASES}) >= 18


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in CASES}))
def test_hostile_requests_get_no_credential(opened, kind):
    running, leashes, server = opened()
    for made in (make for name, make in CASES if name == kind):
        server.got.clear()
        heard = inside_tls(running, leashes, server.port, made(server.port))
        assert REAL.encode() not in server.got, made(server.port)
        assert REAL.encode() not in heard
    assert leashes.uses == []


@pytest.mark.parametrize("sni", ["other.test", "x.allowed.test", "allowed.test.evil.test"])
def test_another_name_in_the_tls_hello_gets_none(opened, sni):
    running, leashes, server = opened()
    context = ssl.create_default_context(cafile=leashes.trusted)
    context.check_hostname = False
    with running.tunnel(NAME, server.port) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock, server_hostname=sni)
    assert bytes(server.got) == b""


def test_plain_http_gets_none_also_in_a_tunnel(opened, made):
    plain = made(Server(talk=echo))
    running, leashes, _ = opened()
    leashes.credential = leashes.credential.__class__(
        *("1", "github", "authorization", STAND_IN, REAL), (read_host({"host": f"{NAME}:{plain.port}"}),)
    )
    running.site.rules += Site(f"{NAME}:{plain.port}").rules
    heard = running.say(request(f"http://{NAME}:{plain.port}/repos/acme/x", plain.port))
    with running.tunnel(NAME, plain.port) as sock:
        sock.sendall(request("/repos/acme/x", plain.port))
        heard += sock.recv(65536)
    assert b"200 OK" in heard
    assert STAND_IN.encode() in plain.got
    assert REAL.encode() not in plain.got


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x-unknown", "gzip, identity"])
def test_a_compressed_answer_is_not_passed_on(opened, coding):
    def talk(sock, got):
        read_request(sock, got)
        body = gzip.compress(REAL.encode())
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)

    running, leashes, server = opened(talk)
    more = BEARER + "Accept-Encoding: gzip, br\r\n"
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/x", server.port, more))
    assert b"accept-encoding: identity\r\n" in server.got
    assert heard.startswith(b"HTTP/1.1 502 ")
    assert REAL.encode() not in heard


SPLITTING = [
    b"HTTP/1.1 200 OK\r\nX: a\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 36\r\n\r\n" + REAL.encode(),
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + REAL.encode(),
    b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n" + REAL.encode(),
    b"HTTP/1.1 103 Early\r\nLink: " + REAL.encode() + b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 " + REAL.encode() + b"\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/?" + REAL.encode() + b"\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Trailer: " + REAL.encode() + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + REAL.encode() + b"\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + REAL.encode() + b": x\r\nContent-Length: 2\r\n\r\nok",
    b"garbage " + REAL.encode(),
    b"HTTP/1.1 200 OK\nSet-Cookie: t=" + REAL.encode() + b"\n\n",
]


@pytest.mark.parametrize("at", range(len(SPLITTING)))
def test_a_hostile_answer_brings_the_value_nowhere(opened, at):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(SPLITTING[at])

    running, leashes, server = opened(talk)
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/x", server.port))
    assert REAL.encode() in server.got
    assert REAL.encode().lower() not in heard.lower()


def test_a_redirect_is_the_programs_own_next_request(opened):
    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: /admin\r\nContent-Length: 0\r\n\r\n")

    running, leashes, server = opened(talk)
    heard = inside_tls(running, leashes, server.port, request("/repos/acme/x", server.port))
    assert heard.startswith(b"HTTP/1.1 302 ")
    assert server.connections == 1
    inside_tls(running, leashes, server.port, request("/admin", server.port))
    assert [use.path for use in leashes.asked] == ["/admin"]


def test_a_program_that_leaves_stops_the_question(opened):
    running, leashes, server = opened()
    left = []

    async def wait_for_ever(use):
        try:
            await asyncio.Event().wait()
        finally:
            left.append(use)

    leashes.ask = wait_for_ever
    context = ssl.create_default_context(cafile=leashes.trusted)
    raw = running.tunnel(NAME, server.port)
    sock = context.wrap_socket(raw, server_hostname=NAME)
    sock.sendall(request("/admin", server.port))
    sock.settimeout(0.5)
    with pytest.raises(socket.timeout):
        sock.recv(1)
    sock.close()
    until(lambda: left)
    assert bytes(server.got) == b""


# The leash itself ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "path", "is_covered"),
    [
        (["/repos/acme/*"], "/repos/acme/shop", True),
        (["/repos/acme/*"], "/repos/acme/shop/issues/1", True),
        (["/repos/acme/*"], "/repos/acme", False),
        (["/repos/*/issues"], "/repos/acme/issues", True),
        (["/repos/*/issues"], "/repos/acme/shop/issues", False),
        (["/repos/*/issues*"], "/repos/acme/issues/1", True),
        (["/user"], "/user", True),
        (["/user"], "/users", False),
        (["/*"], "/@acme%2fui", True),
        (["/@acme*"], "/@acme%2fui", False),
        (["/a.b"], "/aXb", False),
    ],
)
def test_paths(paths, path, is_covered):
    assert read_host({"host": "a.test", "paths": paths}).covers("GET", path) is is_covered


@pytest.mark.parametrize(
    "wish",
    [
        {"host": "127.0.0.1"},
        {"host": "a.test:80"},
        {"host": "*.test"},
        {"host": "https://a.test"},
        {"host": "a.test/repos"},
        {"host": "localhost"},
        {"host": "app.localhost"},
        {"host": "handrail.internal"},
        {"host": "a.test", "paths": ["repos"]},
        {"host": "a.test", "paths": ["/a/../b"]},
        {"host": "a.test", "paths": ["/a?b"]},
        {"host": "a.test", "methods": ["GE T"]},
    ],
)
def test_a_leash_that_means_nothing_is_refused(wish):
    with pytest.raises(BadLeash):
        read_host(wish)


@pytest.mark.parametrize(
    "text",
    [
        *("Authorization", "Authorization: Bearer", "Host: {}", "A b: {}", "X: {} {}"),
        *("X: {}\r\nY: z", "x-http-method: {}"),
    ],
)
def test_a_header_that_holds_no_credential_is_refused(text):
    with pytest.raises(BadLeash):
        read_header(text)
