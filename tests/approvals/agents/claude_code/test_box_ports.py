"""Forwarded ports of a held folder's box: what is refused, told, closed, and gone with the box or the runner."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.approvals.agents.claude_code.test_box_network import Folder, eventually, fetched, is_open, network_of
from tests.support.desk import Desk
from tests.support.product import free_port as any_port
from workspaces.runner import known_services

# Listens on an address and port after some seconds, and then serves one page to all who ask.
SERVER = """
import socket, sys, time
address, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
time.sleep(seconds)
listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((address, port))
listener.listen()
while True:
    client, _ = listener.accept()
    client.recv(4096)
    client.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Length: 12\\r\\n\\r\\nfrom the box")
    client.close()
"""
IN_BACKGROUND = "(python3 server.py {address} {port} {seconds} >log 2>&1 & echo $! >pid) && sleep {wait}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = Folder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    (made.root / "repo/server.py").write_text(SERVER)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lead(folder):
    return Desk(folder.product, folder.product.person_token("lea", "lead"))


@pytest.fixture
def free_port() -> int:
    return any_port()


@pytest.fixture
def serve(folder):
    """Start the server in the background of a call that has ended; the server is ended after the test."""

    def start(port, address="127.0.0.1", seconds=0, wait=1):
        command = IN_BACKGROUND.format(address=address, port=port, seconds=seconds, wait=wait)
        changed = folder.calls.ask(command)["updatedInput"]["command"]
        assert folder.calls.run(changed).returncode == 0
        return folder.calls.report(changed)

    yield start
    if (folder.root / "repo/pid").exists():
        folder.runs("python3 stop.py 2>/dev/null || true; rm -f pid")


def entry_of(lead, port: int) -> dict | None:
    return next((each for each in network_of(lead)[1]["ports"] if each["port"] == port), None)


def restart_runner(folder):
    before = folder.product.part_pid("runner")
    os.kill(before, signal.SIGKILL)

    def is_new():
        try:
            return folder.product.part_pid("runner") != before
        except (AssertionError, OSError):
            return False

    assert eventually(is_new)


def test_the_desks_own_port_is_left_to_the_desk(folder, lead, serve):
    port = folder.product.port
    serve(port)
    entry = eventually(lambda: entry_of(lead, port))
    assert entry["host_port"] != port
    assert fetched(entry["host_port"]) == "from the box"
    assert folder.product.get("/readyz").status == 200


def test_ports_below_1024_are_not_forwarded(folder, lead, serve, free_port):
    serve(81, wait=0.5)
    time.sleep(3)
    assert entry_of(lead, 81) is None
    assert not is_open(81)


def test_a_socket_of_both_families_that_is_bound_to_the_loopback_is_reached(folder, lead, serve, free_port):
    serve(free_port, "::ffff:127.0.0.1")
    assert eventually(lambda: is_open(free_port))
    assert fetched(free_port) == "from the box"


@pytest.mark.parametrize(("seconds", "wait"), [(0, 1), (4, 0)], ids=["at once", "after its call"])
def test_the_agent_is_told_once_of_another_port(folder, lead, serve, seconds, wait):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = serve(port, seconds=seconds, wait=wait)
        entry = eventually(lambda: entry_of(lead, port))
        if seconds:
            assert str(port) not in told
            changed = folder.calls.ask("python3 names.py")["updatedInput"]["command"]
            folder.calls.run(changed)
            told = folder.calls.report(changed)
        assert f"127.0.0.1:{entry['host_port']}" in told
        assert "dangerouslyDisableSandbox" not in told
        assert "Refused" not in told
        changed = folder.calls.ask("python3 names.py")["updatedInput"]["command"]
        folder.calls.run(changed)
        assert str(entry["host_port"]) not in folder.calls.report(changed)


@pytest.mark.parametrize("port", [6379, 27017, 4873, 9229, 53682])
def test_no_program_stands_in_for_a_known_service_of_this_machine(folder, lead, serve, port):
    before = is_open(port)
    told = serve(port)
    entry = eventually(lambda: entry_of(lead, port))
    assert entry["host_port"] not in (port, *known_services.KNOWN)
    assert is_open(port) == before
    assert fetched(entry["host_port"]) == "from the box"
    assert f"127.0.0.1:{entry['host_port']}" in told


def test_each_forward_and_close_is_an_event(folder, lead, serve, free_port):
    serve(free_port)
    assert eventually(lambda: is_open(free_port))
    address, _ = network_of(lead)
    lead.call("DELETE", f"{address}/ports/{free_port}")
    shown = folder.product.shell(
        "from dashboard.models import Event\n"
        "print([(e.verb, e.data['port']) for e in Event.objects.filter(verb__startswith='network.port')])"
    )
    assert f"('network.port_forwarded', {free_port})" in shown
    assert f"('network.port_closed', {free_port})" in shown


def test_a_closed_port_stays_closed_over_a_restart_of_the_runner(folder, lead, serve, free_port):
    serve(free_port)
    assert eventually(lambda: is_open(free_port))
    address, _ = network_of(lead)
    lead.call("DELETE", f"{address}/ports/{free_port}")
    restart_runner(folder)
    assert eventually(lambda: "from the box" in folder.get(f"http://127.0.0.1:{free_port}/", "python3 straight.py"))
    time.sleep(3)
    assert not is_open(free_port)


def test_nothing_listens_while_the_runner_is_down_and_the_page_says_what_holds_after(folder, lead, serve, free_port):
    serve(free_port)
    assert eventually(lambda: is_open(free_port))
    os.kill(folder.product.part_pid("runner"), signal.SIGKILL)
    assert eventually(lambda: not is_open(free_port))
    assert eventually(lambda: is_open(free_port))
    # Its program ends while there is no runner.
    before = folder.product.part_pid("runner")
    os.kill(before, signal.SIGSTOP)
    end_server(folder, free_port)
    os.kill(before, signal.SIGKILL)
    assert eventually(lambda: not is_open(free_port))
    assert eventually(lambda: entry_of(lead, free_port) is None)


def end_server(folder, port: int):
    """End the server from this host, where its process has another id."""
    words = ["python3", "server.py", "127.0.0.1", str(port), "0"]
    found = [at.parent.name for at in Path("/proc").glob("[0-9]*/cmdline") if read(at).split("\0")[:5] == words]
    assert found
    for pid in found:
        os.kill(int(pid), signal.SIGKILL)


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it has ended


def test_a_refused_host_stands_on_the_network_page(folder, lead):
    folder.name("elsewhere.test")
    assert "403" in folder.get("http://elsewhere.test:8081/")
    found = eventually(lambda: [row for row in network_of(lead)[1]["blocked"] if row["host"] == "elsewhere.test"])
    assert (found[0]["port"], found[0]["code"]) == (8081, "not_listed")


def test_ports_end_with_the_box(folder, lead, serve, free_port):
    serve(free_port)
    assert eventually(lambda: is_open(free_port))
    address, _ = network_of(lead)
    lead.call("POST", address.replace("/network", "/stop"), expect=202)
    assert eventually(lambda: not is_open(free_port))
    assert eventually(lambda: network_of(lead)[1]["ports"] == [])
    (folder.root / "repo/pid").unlink()  # it has ended with the box
