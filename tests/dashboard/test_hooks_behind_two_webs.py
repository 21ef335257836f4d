"""What nginx does, as deploy/compose/nginx.conf tells it to, with what a web that dies or stops leaves unanswered."""

import http.client
import socketserver
import threading
from contextlib import contextmanager

import pytest

from bench.cluster.network import Place
from bench.cluster.services import Balancer
from tests.support.nginx import program
from tests.support.product import free_port

HOOK, CALL = "/hooks/claude-code", b'{"tool_use_id": "toolu_1", "tool_input": {"command": "' + b"x" * 300_000 + b'"}}'


class Web(socketserver.ThreadingTCPServer):
    """A web that answers each request with `answer`, or closes its connection as a process that is killed does."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answer: bytes):
        self.answer, self.asked = answer, []
        super().__init__(("127.0.0.1", 0), Asked)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def place(self) -> Place:
        return Place(*self.server_address)


class Asked(socketserver.StreamRequestHandler):
    def handle(self):
        path = self.rfile.readline().split()[1].decode()
        headers = http.client.parse_headers(self.rfile)
        body = self.rfile.read(int(headers["Content-Length"]))
        self.server.asked.append((path, body))
        self.wfile.write(self.server.answer)


def answer(status: int, text: str) -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()


KILLED, STOPS, ANSWERS = b"", answer(503, "it stops"), answer(200, "held and answered")


@contextmanager
def desk(folder, *webs: Web):
    balancer = Balancer(folder, Place("127.0.0.1", free_port()))
    balancer.start([web.place for web in webs])
    try:
        yield balancer.place
    finally:
        balancer.process.terminate()
        balancer.process.wait(10)
        for web in webs:
            web.shutdown()
            web.server_close()


def post(place: Place, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(place.address, place.port, timeout=30)
    connection.request("POST", path, CALL)
    response = connection.getresponse()
    found = response.status, response.read().decode()
    connection.close()
    return found


@pytest.mark.parametrize("left", [KILLED, STOPS], ids=["killed", "stops"])
def test_a_hook_that_one_web_has_left_is_asked_of_the_other(left, require, tmp_path):
    program(require)
    webs = Web(left), Web(ANSWERS)
    with desk(tmp_path / "nginx", *webs) as place:
        found = [post(place, HOOK) for _ in range(2)]  # one of them comes to the web that leaves it
    assert found == [(200, "held and answered")] * 2
    assert webs[0].asked == [(HOOK, CALL)]
    assert webs[1].asked == [(HOOK, CALL)] * 2


def test_a_hook_that_both_webs_refuse_is_refused(require, tmp_path):
    program(require)
    with desk(tmp_path / "nginx", Web(STOPS), Web(STOPS)) as place:
        assert post(place, HOOK) == (503, "it stops")


def test_any_other_request_that_was_begun_is_not_asked_twice(require, tmp_path):
    program(require)
    webs = Web(KILLED), Web(KILLED)
    with desk(tmp_path / "nginx", *webs) as place:
        status, _ = post(place, "/api/v1/actions")
    assert status == 502
    assert [path for web in webs for path, _ in web.asked] == ["/api/v1/actions"]
