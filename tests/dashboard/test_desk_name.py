"""The default set-up: browsers use handrail.localhost, programs 127.0.0.1, and cookies belong to the name alone."""

import os
import re
import socket
import subprocess
import sys

import pytest
from django.conf import settings
from django.test import Client

from dashboard.people.tokens import make_sign_in_link
from dashboard.processes import listening

SESSION, CSRF = "__Host-handrail-8000", "__Host-handrail-csrf-8000"
DESK = "http://handrail.localhost:8000"


@pytest.fixture
def link(alice):
    return f"/sign-in/{make_sign_in_link(alice)}/"


def at(host: str, **options) -> Client:
    return Client(headers={"host": host}, **options)


def form_token(page) -> str:
    return re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.content.decode()).group(1)


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.0.0.1"])
@pytest.mark.parametrize("path", ["/", "/waiting/?team=x", "/accounts/login/", "/no/such/page", "/admin/"])
def test_a_browser_is_sent_to_the_name_before_any_cookie(db, host, path):
    answer = at(host).get(path)
    assert (answer.status_code, answer["Location"], list(answer.cookies)) == (302, DESK + path, [])
    assert (answer["Cache-Control"], answer["Referrer-Policy"]) == ("no-store", "no-referrer")


def test_a_printed_sign_in_link_is_sent_there_unused(link):
    answer = at("127.0.0.1:8000").get(link)
    assert (answer.status_code, answer["Location"], list(answer.cookies)) == (302, DESK + link, [])
    assert at("127.0.0.1:8000").post(link).status_code == 421
    assert at("handrail.localhost:8000").get(link).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/api/v1/me", 401), ("/api/v1/openapi.json", 200), ("/hooks/claude-code", 200)],
)
def test_programs_go_on_with_the_printed_address(db, path, status):
    client = at("127.0.0.1:8000")
    answer = client.post(path) if path.startswith("/hooks") else client.get(path)
    assert (answer.status_code, list(answer.cookies)) == (status, [])


def test_a_browser_that_takes_secure_cookies_has_its_session_in_one_alone(link):
    browser = at("handrail.localhost:8000", enforce_csrf_checks=True)
    token = form_token(browser.get(link))
    answer = browser.post(link, {"csrfmiddlewaretoken": token})
    assert answer.status_code == 302
    session = answer.cookies[SESSION]
    assert (session["secure"], session["httponly"], session["domain"], session["path"]) == (True, True, "", "/")
    assert SESSION.removeprefix("__Host-") not in answer.cookies
    assert browser.get("/me/").status_code == 200


def test_a_browser_that_refuses_them_has_it_in_a_plain_one(link):
    browser = at("handrail.localhost:8000", enforce_csrf_checks=True)
    token = form_token(browser.get(link))
    del browser.cookies[CSRF]  # as if it had never been kept
    answer = browser.post(link, {"csrfmiddlewaretoken": token})
    assert answer.status_code == 302
    session = answer.cookies[SESSION.removeprefix("__Host-")]
    assert (session["secure"], session["httponly"], session["domain"], session["path"]) == ("", True, "", "/")
    assert SESSION not in answer.cookies
    del browser.cookies[CSRF]
    assert browser.get("/me/").status_code == 200


def test_what_another_port_set_does_not_stand_in_for_the_session(link):
    browser = at("handrail.localhost:8000")
    browser.post(link)
    mine = browser.cookies[SESSION].value
    other = at("handrail.localhost:8000")
    other.cookies[CSRF] = "x" * 32
    other.cookies[SESSION.removeprefix("__Host-")] = mine
    assert other.get("/me/").status_code == 302


both_loopbacks = pytest.mark.skipif(not listening.has_ipv6_loopback(), reason="this machine has no ::1")


@both_loopbacks
def test_the_desk_listens_on_both_loopbacks(product):
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, product.port), timeout=10) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"


@both_loopbacks
def test_a_program_on_the_other_loopback_is_reported_at_the_start(new_product):
    product = new_product()
    with socket.create_server(("::1", product.port), family=socket.AF_INET6):
        done = product.manage("up")
    assert done.returncode == 1
    assert f"Handrail cannot listen on [::1]:{product.port}" in done.stderr


def test_the_printed_address_stays(db):
    assert (settings.HANDRAIL_PUBLIC_URL, settings.HANDRAIL_DESK_URL) == ("http://127.0.0.1:8000", DESK)


SETTINGS = "from dashboard import settings as s; print(s.HANDRAIL_DESK_URL, s.HANDRAIL_PREVIEW_HOST)"


@pytest.mark.parametrize(
    ("given", "desk", "previews"),
    [
        ({}, "http://handrail.localhost:8123", "preview.localhost"),
        ({"HANDRAIL_PUBLIC_URL": "http://127.0.0.1:8123"}, "http://handrail.localhost:8123", "preview.localhost"),
        ({"HANDRAIL_PUBLIC_URL": "http://127.0.0.1:8123/"}, "http://handrail.localhost:8123", "preview.localhost"),
        ({"HANDRAIL_PUBLIC_URL": "http://localhost:8123"}, "http://localhost:8123", ""),
        ({"HANDRAIL_PUBLIC_URL": "http://[::1]:8123"}, "http://handrail.localhost:8123", "preview.localhost"),
        (
            {"HANDRAIL_PUBLIC_URL": "http://handrail.localhost:8123"},
            "http://handrail.localhost:8123",
            "preview.localhost",
        ),
        ({"HANDRAIL_PUBLIC_URL": "http://127.0.0.1:9000"}, "http://127.0.0.1:9000", "preview.localhost"),
        ({"HANDRAIL_PUBLIC_URL": "http://desk.localhost:9000"}, "http://desk.localhost:9000", "preview.localhost"),
        ({"HANDRAIL_PUBLIC_URL": "http://192.168.1.7:8123"}, "http://192.168.1.7:8123", ""),
        ({"HANDRAIL_PREVIEW_HOST": ""}, "http://handrail.localhost:8123", ""),
        ({"HANDRAIL_PUBLIC_URL": "https://desk.example.org"}, "https://desk.example.org", ""),
    ],
)
def test_the_default_address_said_aloud_switches_nothing_off(tmp_path, given, desk, previews):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HANDRAIL_")}
    environment |= {"HANDRAIL_HOME": str(tmp_path / "home"), "HANDRAIL_PORT": "8123"} | given
    done = subprocess.run([sys.executable, "-c", SETTINGS], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n") == f"{desk} {previews}"
