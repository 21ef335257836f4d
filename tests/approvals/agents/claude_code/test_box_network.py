"""The network of a held folder's box: hosts of its list through the proxy, and its ports on this machine's loopback."""

import os
import re
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.held_folder import HeldFolder
from tests.workspaces.egress.grounds import OPEN, Server

ALLOW = """
from dashboard.models import Actor
from workspaces.models import Workspace
from workspaces.services import network
workspace = Workspace.objects.get(source__path={folder!r}, trashed_at=None)
network.allow(workspace, network.check_request(workspace, {{"host": {host!r}}}), by=Actor.system("test"))
"""
GET = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen(open("url").read(), timeout=9).read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


STRAIGHT = """
import urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    print(opener.open(open("url").read(), timeout=9).read())
except Exception as error:
    print(type(error).__name__)
"""


class Folder(HeldFolder):
    """A held folder with programs that ask for a URL, which the text of their calls does not name."""

    def __init__(self, home: Path, user: int | None):
        super().__init__(home, user)
        (self.root / "repo/get.py").write_text(GET)
        (self.root / "repo/straight.py").write_text(STRAIGHT)
        (self.root / "repo/stop.py").write_text("import os; os.kill(int(open('pid').read()), 15)")
        (self.root / "repo/names.py").write_text("import os; print(sorted(os.environ))")

    def name(self, host: str):
        with self.hosts.open("a") as file:
            file.write(f"{OPEN} {host}\n")

    def allow(self, host: str):
        self.product.shell(ALLOW.format(folder=str(self.root / "repo"), host=host))

    def get(self, url: str, program: str = "python3 get.py") -> str:
        """What a program in the box gets from a URL."""
        (self.root / "repo/url").write_text(url)
        return self.runs(program)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = Folder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    yield made
    made.close()


def test_a_host_of_the_list_is_reached_through_the_proxy_and_no_other(folder):
    server, hidden = Server(), Server()
    folder.name("packages.test")
    folder.name("elsewhere.test")
    folder.allow(f"packages.test:{server.port}")
    assert "hello" in folder.get(f"http://packages.test:{server.port}/")
    refused = folder.get(f"http://elsewhere.test:{hidden.port}/")
    assert "403" in refused
    assert "dangerouslyDisableSandbox" in refused
    assert (server.connections, hidden.connections) == (1, 0)
    straight = folder.get(f"http://{OPEN}:{hidden.port}/", "python3 straight.py")
    assert "OSError" in straight or "URLError" in straight
    server.close()
    hidden.close()


def test_handrail_itself_is_not_reached_from_the_box(folder):
    asked = folder.get("http://handrail.internal/api/v1/me")
    assert "Handrail is not reached from here" in asked
    assert "HANDRAIL_" not in folder.runs("python3 names.py")


POLICY = """
from approvals.evaluation.judge import policies
from dashboard.models import Actor, Team
policies.add(Team.objects.get(slug="main").pk, {text!r}, actor=Actor.system("test"))
"""
BY_PROXY = """
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": open("proxy").read()}))
try:
    print(opener.open(open("url").read(), timeout=9).read().decode())
except Exception as error:
    print(error)
"""


def test_a_host_of_a_rule_is_reached_by_its_call_until_that_ends(folder):
    server = Server()
    for name in ("ruled.test", "other.test"):
        folder.name(name)
    address = f"http://ruled.test:{server.port}/"
    folder.product.shell(POLICY.format(text=f'medium = ["Bash(curl -s {address})"]'))
    (folder.folder / "url").write_text(address)
    (folder.folder / "by_proxy.py").write_text(BY_PROXY)
    (folder.folder / "keep.py").write_text("import os; open('proxy', 'w').write(os.environ['http_proxy'])")
    (folder.folder / "other.py").write_text(GET.replace('open("url").read()', f'"http://other.test:{server.port}/"'))
    answer = folder.calls.ask(f"curl -s {address}; python3 keep.py; python3 get.py; python3 other.py")
    ran = answer["updatedInput"]["command"]
    said = folder.calls.run(ran).stdout.decode()
    assert (said.count("hello"), len(re.findall(r"\b403\b", said))) == (2, 1)  # a port can have these digits too
    reached = server.connections
    folder.calls.report(ran)
    assert "@" in (folder.folder / "proxy").read_text()
    for program in ("python3 by_proxy.py", "python3 get.py"):
        assert "hello" not in folder.get(address, program)
    assert server.connections == reached
    folder.product.shell(POLICY.format(text=""))
    server.close()


SERVE = "cd web && (python3 -m http.server {port} --bind {address} >/dev/null 2>&1 & echo $! > ../pid) && sleep 1"


def fetched(port: int) -> str:
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=9).read().decode()


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def eventually(check):
    until = time.monotonic() + 20
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.1)
    return found


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.fixture
def lead(folder):
    return Desk(folder.product, folder.product.person_token("lea", "lead"))


@pytest.fixture
def web(folder):
    """A page to serve; what served it is ended after the test."""
    (folder.root / "repo/web").mkdir(exist_ok=True)
    (folder.root / "repo/web/index.html").write_text("from the box")
    yield
    folder.runs("python3 stop.py 2>/dev/null || true")


def network_of(lead) -> tuple[str, dict]:
    [key] = [found["key"] for found in lead.get("/workspaces").json["workspaces"]]
    return f"/workspaces/{key}/network", lead.get(f"/workspaces/{key}/network").json


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
def test_a_dev_server_is_reached_by_the_next_call_and_from_this_machine(folder, web, free_port, address):
    folder.runs(SERVE.format(port=free_port, address=address))
    own = f"[{address}]" if ":" in address else "127.0.0.1"
    assert "from the box" in folder.get(f"http://{own}:{free_port}/index.html", "python3 straight.py")
    names = {"127.0.0.1": ["127.0.0.1"], "::1": ["[::1]", "ip6-loopback"], "0.0.0.0": ["127.0.0.2", "app.localhost."]}
    for name in names[address]:
        assert "from the box" in folder.get(f"http://{name}:{free_port}/index.html"), name
    assert eventually(lambda: is_open(free_port))
    assert fetched(free_port) == "from the box"


def test_a_port_that_is_taken_here_gets_another_one(folder, web, lead):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        folder.runs(SERVE.format(port=port, address="127.0.0.1"))
        [entry] = eventually(lambda: [each for each in network_of(lead)[1]["ports"] if each["port"] == port])
        assert entry["host_port"] != port
        assert fetched(entry["host_port"]) == "from the box"


def test_a_forwarded_port_is_closed_by_a_person_and_with_its_program(folder, web, lead, free_port):
    folder.runs(SERVE.format(port=free_port, address="127.0.0.1"))
    assert eventually(lambda: is_open(free_port))
    address, _ = network_of(lead)
    assert all(each["port"] != free_port for each in lead.call("DELETE", f"{address}/ports/{free_port}").json["ports"])
    time.sleep(2.5)
    assert not is_open(free_port)
    lead.call("DELETE", f"{address}/ports/{free_port}", expect=404)
    folder.runs("python3 stop.py; sleep 2.5")
    folder.runs(SERVE.format(port=free_port, address="127.0.0.1"))
    assert eventually(lambda: is_open(free_port))
    folder.runs("python3 stop.py")
    assert eventually(lambda: not is_open(free_port))


def test_no_program_here_is_reached_from_the_box(folder):
    with socket.create_server(("127.0.0.1", 0)) as here:
        port = here.getsockname()[1]
        assert "URLError" in folder.get(f"http://127.0.0.1:{port}/", "python3 straight.py")
