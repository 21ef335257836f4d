"""Who may open a preview, how long it lasts, and on which host names it may be."""

import html
import re
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import async_to_sync

from dashboard.database import clock
from dashboard.models import Event, Membership
from dashboard.net.addresses import shared_domain
from dashboard.people.access import caller_of
from workspaces.models import Preview, State
from workspaces.previews import application, headers
from workspaces.services import previews

from .conftest import make_workspace


@pytest.fixture(autouse=True)
def host(settings):
    settings.HANDRAIL_PREVIEW_HOST = "preview.localhost"
    settings.HANDRAIL_DESK_URL = "http://handrail.localhost:8000"


@pytest.fixture
def opened(bob, browser_of, workspace):
    """A preview that Bob opened on the page and entered: (his browser, label, secret)."""
    browser = browser_of(bob)
    answer = browser.post("/w/payments/repo-task-1/network/preview/", {"port": "3000"})
    at = urlsplit(answer["Location"])
    assert (at.hostname, at.port, at.path) == (f"3000-{workspace.pk.hex}.preview.localhost", 8000, "/.handrail/enter")
    label = previews.label_of(at.netloc)
    return browser, label, previews.enter(label, parse_qs(at.query)["ticket"][0])


def test_a_reviewer_opens_one_and_it_is_in_the_log(opened, workspace, bob):
    _, label, secret = opened
    assert previews.target_of(label, secret) == previews.Target(workspace, 3000, None)
    event = Event.objects.get(verb="workspace.preview_opened")
    assert (event.actor_label, event.data["port"]) == (str(bob), 3000)


def test_a_preview_ends_with_the_sign_in(opened):
    browser, label, secret = opened
    browser.logout()
    assert previews.target_of(label, secret) is None


def test_a_preview_ends_with_the_membership(opened, bob):
    _, label, secret = opened
    Membership.objects.filter(user=bob).update(role="viewer")
    assert previews.target_of(label, secret) is None


def test_a_preview_ends_after_eight_hours_and_in_the_trash(opened, workspace):
    _, label, secret = opened
    workspace.trashed_at = clock.now()
    workspace.save()
    assert previews.target_of(label, secret) is None
    workspace.trashed_at = None
    workspace.save()
    Preview.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert previews.target_of(label, secret) is None


def test_a_ticket_of_another_port_or_that_is_late_is_no_way_in(workspace, bob):
    at = urlsplit(previews.open_for(workspace, 3000, caller=caller_of(bob)))
    ticket, label = parse_qs(at.query)["ticket"][0], previews.label_of(at.netloc)
    assert previews.enter(label.replace("3000", "3001"), ticket) is None
    Preview.objects.update(created_at=clock.now() - timedelta(minutes=2))
    assert previews.enter(label, ticket) is None


@pytest.mark.parametrize("port", ["80", "3128", "49983", "0", "65536", "x"])
def test_ports_outside_the_range_are_refused_on_the_page(bob, browser_of, workspace, port):
    answer = browser_of(bob).post("/w/payments/repo-task-1/network/preview/", {"port": port}, follow=True)
    assert "A port is a number from 1 to 65535" in answer.text
    assert not Preview.objects.exists()


def test_a_viewer_may_not(vera, browser_of, workspace):
    browser = browser_of(vera)
    assert browser.post("/w/payments/repo-task-1/network/preview/", {"port": "3000"}).status_code == 403
    assert "Open preview" not in browser.get("/w/payments/repo-task-1/network/").text


def test_strangers_see_no_such_page(mallory, browser_of, workspace):
    assert browser_of(mallory).post("/w/payments/repo-task-1/network/preview/", {"port": "3000"}).status_code == 404


def test_the_page_lists_the_ports_that_were_found(bob, browser_of, team, agent):
    vitals = {"at": clock.now().isoformat(), "ports": [{"address": "127.0.0.1", "port": 5173}]}
    make_workspace(team, agent, "with-a-server", state=State.READY, vitals=vitals)
    page = browser_of(bob).get("/w/payments/with-a-server/network/")
    assert "Open port 5173" in page.text
    assert "form-action 'self' http://*.preview.localhost:8000" in page["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("desk", "words"),
    [
        ("http://handrail.localhost:8000", "Set HANDRAIL_PREVIEW_HOST=preview.localhost."),
        (
            "http://localhost:8000",
            "Set HANDRAIL_PUBLIC_URL=http://127.0.0.1:8000; previews are then at preview.localhost.",
        ),
        ("https://desk.example.org", "Set HANDRAIL_PREVIEW_HOST to one on another domain than the desk's, such as"),
    ],
)
def test_without_a_host_name_the_page_says_what_to_set(bob, browser_of, workspace, settings, desk, words):
    settings.HANDRAIL_PREVIEW_HOST, settings.HANDRAIL_DESK_URL = "", desk
    text = html.unescape(browser_of(bob).get("/w/payments/repo-task-1/network/").text)
    assert f"Previews are off: they need a host name of their own. {words}" in text


@pytest.mark.parametrize(
    ("preview", "desk", "is_refused"),
    [
        ("preview.localhost", "handrail.localhost", False),
        ("preview.localhost", "127.0.0.1", False),
        ("preview.localhost", "localhost", True),
        ("preview.desk.example.org", "desk.example.org", True),
        ("preview.example.org", "desk.example.org", True),
        ("example.org", "desk.example.org", True),
        ("preview.example.net", "desk.example.org", False),
        ("previews.co.uk", "desk.co.uk", False),
        ("co.uk", "desk.example.org", True),
        ("desk.example.org", "desk.example.org", True),
    ],
)
def test_a_host_that_shares_a_domain_with_the_desk_is_refused(preview, desk, is_refused):
    assert bool(shared_domain(preview, desk)) is is_refused


@pytest.mark.parametrize(
    ("cookie", "is_kept"),
    [
        (b"a=1", True),
        (b"a=1; Path=/; HttpOnly", True),
        (b"a=1; Domain=preview.localhost", False),
        (b"a=1;domain = localhost", False),
        (b"a=1; DOMAIN", False),
        (headers.COOKIE.encode() + b"=stolen", False),
        (b" " + headers.COOKIE.encode() + b" =stolen", False),
        (b"=" + headers.COOKIE.encode() + b"=stolen", False),
        (b" = " + headers.COOKIE.encode() + b"=stolen; Path=/", False),
        (headers.COOKIE.encode(), False),
        (b"", False),
        (b"; Path=/; a=1", False),
    ],
)
def test_only_cookies_of_the_own_host_pass(cookie, is_kept):
    passed = headers.to_browser([(b"Set-Cookie", cookie)], 3000)
    assert ((b"set-cookie", cookie) in passed) is is_kept


def test_headers_of_one_connection_do_not_pass():
    sent = [(b"connection", b"close, x-own"), (b"x-own", b"1"), (b"te", b"trailers"), (b"accept", b"*/*")]
    kept = dict(headers.to_program(sent, 3000, "http://x"))
    assert {name.lower() for name in kept} == {"accept", "host"}


# How each framework forms the origin that it wants for a form: from Host, or from what it believes of a proxy first.
WANTED_ORIGINS = {
    "Next.js": lambda sent: "http://" + sent.get("x-forwarded-host", sent["host"]),
    "SvelteKit": lambda sent: f"http://{sent['host']}",
    "React Router": lambda sent: "http://" + sent.get("x-forwarded-host", sent["host"]),
    "Rails": lambda sent: (
        f"{sent.get('x-forwarded-proto', 'http')}://{sent.get('x-forwarded-host', sent['host'])}"
        + (f":{sent['x-forwarded-port']}" if "x-forwarded-port" in sent else "")
    ),
    "Rack 3": lambda sent: sent.get("forwarded", f"http://{sent['host']}"),
    "Django behind a proxy": lambda sent: (
        f"{sent.get('x-forwarded-proto', 'http')}://" + sent.get("x-forwarded-host", sent["host"])
    ),
}
OF_PROXIES = {
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-Host": "3000-a.preview.localhost",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Forwarded-Scheme": "https",
    "X-Forwarded-Ssl": "on",
    "X-Real-Ip": "10.0.0.1",
    "Front-End-Https": "on",
    "Forwarded": "host=3000-a.preview.localhost;proto=https",
}


@pytest.mark.parametrize("own", ["http://3000-a.preview.localhost:8000", "https://3000-a.preview.example.net"])
@pytest.mark.parametrize("framework", WANTED_ORIGINS)
def test_the_origin_of_a_form_is_the_one_that_its_framework_wants(framework, own):
    browser = {"Host": own.partition("//")[2], "Origin": own, "Referer": f"{own}/form", **OF_PROXIES}
    asked = [(name.lower().encode(), value.encode()) for name, value in browser.items()]
    sent = {name.lower(): value for name, value in headers.to_program(asked, 3000, own)}
    assert sent["origin"] == WANTED_ORIGINS[framework](sent) == "http://localhost:3000"
    assert sent["referer"] == "http://localhost:3000/form"


def test_an_origin_and_a_referer_of_elsewhere_stay():
    sent = [(b"origin", b"null"), (b"referer", b"http://x.evil/")]
    kept = dict(headers.to_program(sent, 3000, "http://x"))
    assert (kept["Origin"], kept["Referer"]) == ("null", "http://x.evil/")


@pytest.mark.parametrize(
    "sent",
    [
        [],
        [(b"X-Frame-Options", b"ALLOWALL"), (b"Content-Security-Policy", b"frame-ancestors *; default-src 'self'")],
        [(b"Cross-Origin-Opener-Policy", b"unsafe-none"), (b"Content-Security-Policy", b"frame-ancestors *")],
    ],
)
def test_no_page_of_another_host_frames_a_preview_whatever_its_program_says(sent):
    passed = headers.to_browser(sent, 3000)
    policies = [value for name, value in passed if name == b"content-security-policy"]
    assert policies[-1] == b"frame-ancestors 'self'"
    assert policies[:-1] == [value for name, value in sent if name == b"Content-Security-Policy"]
    for name, value in headers.OURS[1:]:
        assert [each for each in passed if each[0] == name] == [(name, value)]


OWN = "http://3000-a.preview.localhost:8000"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("dest", ["iframe", "frame", "embed", "object", "fencedframe"])
def test_a_frame_of_another_page_is_refused_before_it_reaches_the_program(site, dest):
    sent = [(b"sec-fetch-mode", b"navigate"), (b"sec-fetch-site", site.encode()), (b"sec-fetch-dest", dest.encode())]
    with pytest.raises(application.Refusal):
        application._must_be_own({"type": "http", "method": "GET", "headers": sent}, OWN)


@pytest.mark.parametrize(
    ("site", "dest"), [("same-origin", "iframe"), ("none", "document"), ("cross-site", "document")]
)
def test_its_own_frames_and_links_to_it_reach_the_program(site, dest):
    sent = [(b"sec-fetch-mode", b"navigate"), (b"sec-fetch-site", site.encode()), (b"sec-fetch-dest", dest.encode())]
    application._must_be_own({"type": "http", "method": "GET", "headers": sent}, OWN)


def test_a_refusal_is_not_framed_either():
    told = []

    async def send(message):
        told.append(message)

    scope = {"type": "http", "method": "GET"}
    async_to_sync(application._refuse)(application.Refusal(403, "No."), scope, None, send)
    assert set(headers.OURS) <= set(told[0]["headers"])


def test_the_page_says_what_a_preview_may_reach(workspace, bob, browser_of, read):
    text = read(browser_of(bob), "/w/payments/repo-task-1/network/")
    assert "it can load from and send to every host that your browser reaches" in re.sub(r"\s+", " ", text)
