"""A server on another port of this machine, as an agent might run one, and what a signed-in browser tells it."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import TEAM

SOCKET = """address => new Promise(done => {
  const socket = new WebSocket(address);
  socket.onmessage = () => done("heard");
  socket.onclose = event => done(`closed ${event.code}`);
})"""


@pytest.fixture
def dev_server():
    """A server on a free port of 127.0.0.1; `heard` are (Host, Cookie) of all that it was asked."""
    heard = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append((self.headers["Host"], self.headers.get("Cookie", "")))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>dev</title>")

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.heard = heard
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def signed_in_page(chromium, product):
    """A page that came in by the printed address, at 127.0.0.1."""
    context = chromium.new_context()
    page = context.new_page()
    printed = product.sign_in_url("olga", "reviewer", TEAM)
    assert printed.startswith(f"http://127.0.0.1:{product.port}/sign-in/")
    page.goto(printed)
    assert page.url == printed.replace(product.url, product.desk)
    page.locator("main button").click()
    expect(page).to_have_url(f"{product.desk}/")
    yield page
    context.close()


def test_the_session_is_a_host_cookie_of_the_desks_name(signed_in_page, product):
    known = {cookie["name"]: cookie for cookie in signed_in_page.context.cookies()}
    session = known[f"__Host-handrail-{product.port}"]
    assert (session["domain"], session["path"]) == ("handrail.localhost", "/")
    assert (session["secure"], session["httpOnly"]) == (True, True)
    assert f"handrail-{product.port}" not in known
    assert {cookie["domain"] for cookie in known.values()} == {"handrail.localhost"}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_server_on_another_port_is_sent_no_cookie(signed_in_page, product, dev_server, name):
    signed_in_page.goto(f"{product.url}/waiting/")  # the printed address again, with the session in the browser
    assert signed_in_page.url == f"{product.desk}/waiting/"
    signed_in_page.goto(f"http://{name}:{dev_server.server_port}/")
    assert dev_server.heard[0] == (f"{name}:{dev_server.server_port}", "")
    assert {cookie for _, cookie in dev_server.heard} == {""}


def test_under_the_desks_own_name_it_is_sent_the_session_as_the_documents_say(signed_in_page, product, dev_server):
    signed_in_page.goto(f"{product.desk.rsplit(':', 1)[0]}:{dev_server.server_port}/")
    assert f"__Host-handrail-{product.port}=" in dev_server.heard[0][1]


def test_its_pages_open_no_socket_of_the_desk(signed_in_page, product, dev_server):
    address = f"ws://handrail.localhost:{product.port}/ws/live?after=0"
    signed_in_page.goto(f"{product.desk}/")
    assert signed_in_page.evaluate(SOCKET, address) == "heard"
    for name in ("handrail.localhost", "127.0.0.1"):
        signed_in_page.goto(f"http://{name}:{dev_server.server_port}/")
        assert signed_in_page.evaluate(SOCKET, address) == "closed 1006"
