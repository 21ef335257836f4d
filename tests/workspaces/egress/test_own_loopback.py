"""A program that asks the proxy for its own loopback gets there, by each name, never to that of the host."""

import asyncio
import json

import pytest

from tests.workspaces.egress.grounds import HOST_LOOPBACK, Running, Server, Site
from workspaces.egress.own_loopback import addresses_of
from workspaces.egress.relay import Peer

OWN = {
    "localhost": ("127.0.0.1", "::1"),
    "LOCALHOST.": ("127.0.0.1", "::1"),
    "app.localhost": ("127.0.0.1", "::1"),
    "localhost.localdomain": ("127.0.0.1", "::1"),
    "web-1": ("127.0.0.1", "::1"),
    "Web-1.": ("127.0.0.1", "::1"),
    "ip6-localhost": ("::1",),
    "ip6-loopback": ("::1",),
    "127.0.0.1": ("127.0.0.1",),
    "127.0.0.2": ("127.0.0.2",),
    "127.255.255.254": ("127.255.255.254",),
    "127.1": ("127.0.0.1",),
    "0x7f000001": ("127.0.0.1",),
    "2130706433": ("127.0.0.1",),
    "0177.0.0.1": ("127.0.0.1",),
    "0.0.0.0": ("127.0.0.1",),
    "0": ("127.0.0.1",),
    "[::1]": ("::1",),
    "::1": ("::1",),
    "[0:0:0:0:0:0:0:1]": ("::1",),
    "[::1%lo]": ("::1",),
    "[::]": ("::1",),
    "[::ffff:127.0.0.2]": ("127.0.0.2",),
    "[::ffff:0.0.0.0]": ("127.0.0.1",),
}
OTHERS = [
    "example.org",
    "localhost.example.org",
    "mylocalhost",
    "web-1.example.org",
    "web-10",
    "10.0.0.1",
    "128.0.0.1",
    "0.0.0.1",
    "169.254.169.254",
    "[::2]",
    "[fe80::1]",
    "[::ffff:10.0.0.1]",
    "[::127.0.0.1]",
    "[2001:db8::1]",
    "[64:ff9b::7f00:1]",
    "127.0.0.256",
    "127.0.0.1.nip.io",
    "[::1",
    "[]",
    "x",
]


@pytest.mark.parametrize("name", OWN)
def test_a_name_of_the_own_loopback(name):
    assert addresses_of(name, frozenset({"web-1"})) == OWN[name]


@pytest.mark.parametrize("name", ["", "localhost.localhost.", *OTHERS])
def test_no_other_name_is_one(name):
    expected = OWN["localhost"] if name == "localhost.localhost." else ()
    assert addresses_of(name, frozenset({"web-1"})) == expected


@pytest.fixture
def inside():
    server = Server()  # stands for the workspace's loopback
    yield server
    server.close()


@pytest.fixture
def running(inside):
    asked = []

    async def back(addresses, port):
        asked.append((addresses, port))
        if port != inside.port:
            raise ConnectionRefusedError
        return Peer(*await asyncio.open_connection(inside.address, inside.port))

    started = Running(Site(), {}, back=back, own_names=["Web-1"])
    started.came_back = asked
    yield started
    started.close()


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("way", ["connect", "whole address"])
def test_the_proxy_hands_it_back_and_logs_nothing(running, inside, name, way):
    host = f"{name}:{inside.port}"
    if way == "connect":
        with running.tunnel(name, inside.port) as sock:
            sock.sendall(b"any bytes\r\n\r\n")
            heard = sock.recv(65536)
        assert bytes(inside.got) == b"any bytes\r\n\r\n"
    else:
        heard = running.say(f"GET http://{host}/a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert bytes(inside.got).startswith(f"GET /a HTTP/1.1\r\nhost: {host}\r\n".encode())
    assert heard.endswith(b"hello")
    assert running.came_back == [(OWN[name], inside.port)]
    assert (running.asked, running.site.verdicts, running.site.ended) == ([], [], [])


def test_a_closed_port_is_named(running):
    heard = running.say(b"GET http://[::1]:9/ HTTP/1.1\r\nHost: [::1]:9\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 502 ")
    why = "nothing answers there on the workspace's own loopback (::1)"
    assert why.encode() in heard
    assert running.site.verdicts == [("blocked", "[::1]:9", why)]


def test_the_loopback_of_the_host_is_never_reached(running):
    canary = Server(HOST_LOOPBACK)
    try:
        for name in (*OWN, *OTHERS):
            host = f"{name}:{canary.port}"
            heard = running.say(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            assert heard[:12] in (b"HTTP/1.1 502", b"HTTP/1.1 403"), name
        assert (canary.connections, running.asked) == (0, [])
    finally:
        canary.close()


# Every way in which programs of a workspace ask, tried inside: {name of the way: what prints the status}.
PYTHON = "import urllib.request as u; print(u.urlopen({url!r}, timeout=20).status)"
NAMES = [
    "[::1]",
    "127.0.0.1",
    "127.0.0.2",
    "0.0.0.0",
    "localhost",
    "localhost.",
    "ip6-localhost",
    "$(hostname)",
    "127.1",
]
SERVE = """
import http.server, socket, threading
class Both(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Both(("::", PORT), http.server.SimpleHTTPRequestHandler).serve_forever()
"""
ASK = """
import json, subprocess, sys, urllib.request
found = {}
for name in sys.argv[2:]:
    url = f"http://{name}:{sys.argv[1]}/"
    try:
        found[name] = [urllib.request.urlopen(url, timeout=20).status]
    except Exception as error:
        found[name] = [repr(error)]
    curl = ["curl", "-sS", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", url]
    for more in ([], ["--noproxy", ""], ["--noproxy", "", "--proxytunnel"]):
        try:
            found[name].append(int(subprocess.run([*curl, *more], capture_output=True, text=True).stdout or 0))
        except FileNotFoundError:
            found[name].append(200)
print(json.dumps(found))
"""


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_programs_of_a_workspace_reach_their_own_server_by_each_name(workspace, agent, driver):
    key = workspace(driver=driver)
    agent.call("PUT", f"/workspaces/{key}/files/serve.py", SERVE.replace("PORT", "8124").encode(), 201)
    agent.call("PUT", f"/workspaces/{key}/files/ask.py", ASK.encode(), 201)
    serving = "python3 serve.py > log 2>&1 & for i in $(seq 100); do grep -q . /proc/net/tcp6 && break; sleep 0.1; done"
    asking = " ".join(name if "$" in name else f"'{name}'" for name in NAMES)
    said = agent.run(key, f"{serving}; sleep 1; python3 ask.py 8124 {asking}; kill %1; hostname")
    found = json.loads(said.splitlines()[0])
    assert found == dict.fromkeys(found, [200] * 4)
    assert len(found) == len(NAMES)
    assert agent.get(f"/workspaces/{key}/network").json["blocked"] == []
