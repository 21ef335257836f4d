"""A desk that is there, and can't answer at the moment, is asked again for longer than one that is away."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from handrail_client import Handrail, Refused, Unreachable
from handrail_client.connection import Connection

ASKED_AGAIN = {"Retry-After": "5"}


@pytest.fixture
def server():
    """A server that gives `answers` (status, headers) as problems, one for each request."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = self.server.answers.pop(0)
            body = json.dumps({"status": status, "detail": "The database does not answer now."}).encode()
            self.send_response(status)
            for name, value in {"Content-Length": len(body), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    made = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def desk_at(server) -> Handrail:
    connection = Connection(url=f"http://127.0.0.1:{server.server_port}", token="hr_none")
    return Handrail(connection, grace=0)


def test_a_call_waits_for_a_desk_whose_database_is_away(server):
    server.answers = [(503, ASKED_AGAIN)] * 3 + [(401, {})]
    with pytest.raises(Refused):
        desk_at(server).ask("Bash", {"command": "true"})
    assert server.answers == []


def test_the_client_does_not_wait_for_a_refusal_without_retry_after(server):
    server.answers = [(503, {})] * 3
    with pytest.raises(Unreachable):
        desk_at(server).ask("Bash", {"command": "true"})
    assert len(server.answers) == 2
