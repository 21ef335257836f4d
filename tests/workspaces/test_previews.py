"""Previews: a port of a workspace on a host name of its own, which people enter from the desk and nobody else."""

import http.client
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import previewed_app
from tests.support.desk import Desk
from tests.support.waiting import until

PORT = 3456
APP = Path(previewed_app.__file__).read_bytes()


@pytest.fixture(scope="module")
def key(desk):
    made = desk.create()["key"]
    desk.call("PUT", f"/workspaces/{made}/files/app.py", APP, 201)
    desk.post(f"/workspaces/{made}/commands", {"command": f"exec python3 app.py {PORT}", "timeout_s": 3600})
    listens = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))' 2>/dev/null || echo no"
    until(lambda: desk.run(made, listens) == b"")
    return made


@pytest.fixture(scope="module")
def reviewer(product):
    return Desk(product, product.person_token("reviewer-of-previews", "reviewer"))


class Host:
    """A preview's host, asked as a browser would: the address is this machine's, the name is in the Host header."""

    def __init__(self, product, address: str):
        parts = urlsplit(address)
        self.product, self.host, self.entry = product, parts.netloc, f"{parts.path}?{parts.query}"
        self.cookie = ""

    def ask(self, path="/", method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.product.port, timeout=60)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {})}
        connection.request(
            method, path, body, sent | {name.replace("_", "-"): value for name, value in headers.items()}
        )
        response = connection.getresponse()
        response.text = response.read().decode()
        connection.close()
        return response

    def enter(self):
        response = self.ask(self.entry)
        self.cookie = (response.headers.get("Set-Cookie") or "").partition(";")[0]
        return response


@pytest.fixture
def host(product, reviewer, key):
    opened = Host(product, reviewer.post(f"/workspaces/{key}/previews", {"port": PORT}).json["url"])
    assert opened.enter().status == 303
    return opened


def test_a_ticket_is_used_once_and_leaves_a_cookie_of_this_host_alone(product, reviewer, key):
    opened = Host(product, reviewer.post(f"/workspaces/{key}/previews", {"port": PORT}).json["url"])
    assert opened.host.endswith(f".preview.localhost:{product.port}")
    assert opened.ask("/").status == 403
    entered = opened.enter()
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    attributes = entered.headers["Set-Cookie"].split("; ")[1:]
    assert {"Path=/", "HttpOnly", "SameSite=Lax"} <= set(attributes)
    assert not [each for each in attributes if each.lower().startswith("domain")]
    assert opened.ask("/").status == 200
    again = Host(product, f"http://{opened.host}{opened.entry}")
    assert again.enter().status == 403
    assert "used before" in again.ask(opened.entry).text


def test_the_program_sees_localhost_and_no_cookie_of_ours(host):
    host.cookie += "; theirs=2"
    own = f"http://{host.host}"
    told = json.loads(host.ask("/a%2Fb?q=%20", X_Own="kept", Origin=own, Referer=f"{own}/a?b").text)
    sent = {name.lower(): value for name, value in told["headers"].items()}
    assert (told["path"], sent["host"], sent["origin"]) == (
        "/a%2Fb?q=%20",
        f"localhost:{PORT}",
        f"http://localhost:{PORT}",
    )
    assert (sent["cookie"], sent["x-own"]) == ("theirs=2", "kept")
    assert sent["referer"] == f"http://localhost:{PORT}/a?b"
    assert host.host not in str(sent)


def test_cookies_for_other_hosts_and_words_about_the_host_are_dropped(host):
    name = host.cookie.partition("=")[0]
    answered = host.ask(f"/{name}")
    assert [each.partition(";")[0] for each in answered.headers.get_all("Set-Cookie")] == ["own=1"]
    assert "Strict-Transport-Security" not in answered.headers


def test_bodies_and_redirects_pass(host):
    told = json.loads(host.ask("/form", "POST", b"x" * 100_000, Origin=f"http://{host.host}").text)
    assert (told["method"], told["body"]) == ("POST", 100_000)
    assert host.ask("/away").headers["Location"] == "/page?x=1"


def test_an_answer_is_passed_on_while_it_is_written(host):
    connection = http.client.HTTPConnection("127.0.0.1", host.product.port, timeout=60)
    connection.request("GET", "/slow", headers={"Host": host.host, "Cookie": host.cookie})
    assert connection.getresponse().read(5) == b"first"
    connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
    ],
)
def test_what_another_page_makes_the_browser_send_reaches_no_program(host, headers):
    assert host.ask("/", "POST", b"x", **headers).status == 403


def test_a_form_of_a_page_that_sends_no_referrer_passes(host):
    told = json.loads(host.ask("/", "POST", b"x", Origin="null", Sec_Fetch_Site="same-origin").text)
    assert told["headers"]["Origin"] == "null"
    for headers in ({}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "none"}):
        assert host.ask("/", "POST", b"x", Origin="null", **headers).status == 403


def test_a_link_from_elsewhere_may_be_followed(host):
    assert host.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


def test_a_cookie_is_of_one_port(product, host):
    elsewhere = Host(product, f"http://3999-{host.host.partition('-')[2]}")
    elsewhere.cookie = host.cookie
    assert elsewhere.ask("/").status == 403


def test_a_closed_port_is_named(product, reviewer, key):
    opened = Host(product, reviewer.post(f"/workspaces/{key}/previews", {"port": 3999}).json["url"])
    opened.enter()
    answered = opened.ask("/")
    assert (answered.status, "Nothing listens on port 3999." in answered.text) == (502, True)


def test_agents_and_viewers_open_none(product, desk, key):
    desk.post(f"/workspaces/{key}/previews", {"port": PORT}, expect=403)
    viewer = Desk(product, product.person_token("viewer-of-previews", "viewer"))
    viewer.post(f"/workspaces/{key}/previews", {"port": PORT}, expect=403)


def test_the_proxys_own_ports_are_refused(reviewer, key):
    for port in (80, 3128, 49983):
        reviewer.post(f"/workspaces/{key}/previews", {"port": port}, expect=422)
