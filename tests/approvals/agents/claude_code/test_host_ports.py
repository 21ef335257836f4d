"""Ports of this host that a held folder's box reaches: only those that a lead names, until they are taken back."""

import os
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.approvals.agents.claude_code.test_box_network import Folder, eventually, network_of
from tests.support.desk import Desk
from tests.support.visitor import Visitor

HOLD_OPEN = """
import socket, time
with socket.create_connection(("127.0.0.1", int(open("port").read())), 5) as service:
    open("open", "w").write("yes")
    began = time.time()
    while time.time() - began < 60 and service.recv(100):
        pass
open("ended", "w").write("yes")
"""


class Hello(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


class Quiet:
    """A service of this host that accepts and says nothing."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = []

    def accept(self):
        self.listener.settimeout(10)
        self.accepted.append(self.listener.accept()[0])

    def close(self):
        for each in (*self.accepted, self.listener):
            each.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = Folder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    (made.root / "repo/hold.py").write_text(HOLD_OPEN)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lead(folder):
    return Desk(folder.product, folder.product.person_token("lea", "lead"))


@pytest.fixture
def service():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def let(lead, *ports, expect=200):
    return lead.call("PUT", f"{network_of(lead)[0]}/host-ports", {"ports": list(ports)}, expect=expect).json


def reached(folder, port: int) -> bool:
    return "hello" in folder.get(f"http://127.0.0.1:{port}/", "python3 straight.py")


def test_a_port_is_reached_once_it_is_named_and_no_longer_when_taken_back(folder, lead, service):
    assert not reached(folder, service.server_port)
    assert let(lead, service.server_port)["host_ports"] == [service.server_port]
    assert reached(folder, service.server_port)
    time.sleep(3)  # the runner has looked for new ports of the box since
    assert network_of(lead)[1]["ports"] == []
    assert let(lead)["host_ports"] == []
    assert not reached(folder, service.server_port)
    shown = folder.product.shell(
        "from dashboard.models import Event\n"
        "print([(e.verb, e.data['port']) for e in Event.objects.filter(verb__startswith='network.host_port')])"
    )
    assert (
        f"('network.host_port_opened', {service.server_port}), ('network.host_port_closed', {service.server_port})"
        in shown
    )


def test_open_connections_end_when_a_port_is_taken_back(folder, lead):
    service = Quiet()
    let(lead, service.port)
    (folder.root / "repo/port").write_text(str(service.port))
    folder.runs("(python3 hold.py >/dev/null 2>&1 &) && sleep 1")
    service.accept()
    assert eventually(lambda: (folder.root / "repo/open").exists())
    assert not (folder.root / "repo/ended").exists()
    let(lead)
    assert eventually(lambda: (folder.root / "repo/ended").exists())
    service.close()


def test_the_desk_and_what_is_no_port_cannot_be_named(folder, lead):
    for port in (folder.product.port, 3128, 80, 0, -1, 65536):
        let(lead, port, expect=422)
    let(lead, *range(2000, 2017), expect=422)
    reviewer = Desk(folder.product, folder.product.person_token("rob", "reviewer"))
    reviewer.call("PUT", f"{network_of(lead)[0]}/host-ports", {"ports": [5432]}, expect=403)
    assert network_of(lead)[1]["host_ports"] == []


def test_a_lead_names_a_port_on_the_page(folder, lead, service):
    visitor = Visitor.named(folder.product, "lea", "lead")
    key = network_of(lead)[0].split("/")[2]
    links = re.findall(r'href="([^"]+)"', visitor.get("/workspaces/"))
    network = next(link for link in links if link.endswith(f"/{key}/")) + "network/"
    visitor.post(f"{network}host-port/", {"port": str(service.server_port)}, at=network)
    assert f"127.0.0.1:{service.server_port}" in visitor.get(network)
    assert reached(folder, service.server_port)
    visitor.post(f"{network}host-port/", {"port": str(service.server_port), "end": "1"}, at=network)
    assert not reached(folder, service.server_port)
