"""A rule for a host covers a page only if that leads to no other: from outside, with names and servers of our own."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ..conftest import ACTIONS
from ..connect.test_connect_folder import set_team_policy

MOVED = {
    "/away": "https://evil.example/x",
    "/same": "/away",
    "/loop": "/loop",
    "/near": "/plain",
    "/port": "http://pages.example.org:1/",
}


class Pages(BaseHTTPRequestHandler):
    """Answers HEAD alone, so that a test sees whether anything else was asked for."""

    asked = []

    def do_HEAD(self):
        self.asked.append(self.path)
        if self.path == "/drip":
            with suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"H")
                    time.sleep(0.1)
            return
        self.send_response(302 if self.path in MOVED else 200)
        if self.path in MOVED:
            self.send_header("Location", MOVED[self.path])
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def pages(product):
    """A web server that the desk finds under pages.example.org; its port."""
    server = ThreadingHTTPServer(("127.77.0.9", 0), Pages)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    before = product.hosts.read_text()
    product.hosts.write_text(
        f"{before}127.77.0.9 pages.example.org\n10.1.2.3 inner.example.org\n169.254.169.254 meta.example.org\n"
    )
    yield server.server_address[1]
    product.hosts.write_text(before)
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def status(product, pages):
    """`status("http://…")`: whether a fetch is approved by the rules."""
    names = (f"pages.example.org:{pages}", "inner.example.org", "meta.example.org", "*.example.org")
    rules = [f"WebFetch(domain:{name})" for name in names]
    text = f"low = {json.dumps(rules)}\n"
    product.shell(
        "from approvals.evaluation.judge import policies; from dashboard.models import *\n"
        f"policies.add(Team.objects.get(slug='main').pk, {text!r}, actor=Actor.system('test'))"
    )
    agent = product.agent_token("fetch-tests")

    def asked(url):
        answer = product.call("POST", ACTIONS, agent, {"tool": "WebFetch", "arguments": {"url": url, "prompt": "x"}})
        assert answer.status == 201, answer.body
        return answer.json["status"]

    yield asked
    set_team_policy(product)


@pytest.mark.parametrize("path", ["/plain", "/near", "/"])
def test_a_page_of_the_host_itself_is_covered(status, pages, path):
    assert status(f"http://pages.example.org:{pages}{path}") == "approved"


@pytest.mark.parametrize("path", ["/away", "/same", "/port"])
def test_a_redirect_to_another_host_asks(status, pages, path):
    assert status(f"http://pages.example.org:{pages}{path}") == "pending"


def test_a_name_that_leads_to_a_private_address_asks(status):
    assert status("https://inner.example.org/") == "pending"
    assert status("https://meta.example.org/latest/meta-data") == "pending"


def test_a_redirect_in_circles_and_a_server_that_never_ends_take_no_time(status, pages):
    started = time.monotonic()
    assert status(f"http://pages.example.org:{pages}/loop") == "approved"
    assert status(f"http://pages.example.org:{pages}/drip") == "approved"
    assert time.monotonic() - started < 15
    assert Pages.asked.count("/loop") == 3


def test_nothing_is_contacted_for_a_call_that_asks_anyway(status, pages, product):
    agent = product.agent_token("fetch-tests")
    wish = {"tool": "WebFetch", "arguments": {"url": f"http://pages.example.org:{pages + 1}/secret", "prompt": "x"}}
    assert product.call("POST", ACTIONS, agent, wish).json["status"] == "pending"
    wish["arguments"]["url"] = f"http://evil.example:{pages}/secret"
    assert product.call("POST", ACTIONS, agent, wish).json["status"] == "pending"
    assert "/secret" not in Pages.asked


def test_a_name_that_nobody_knows_is_covered_by_its_rule(status):
    assert status("https://unknown-name.example.org/") == "approved"
