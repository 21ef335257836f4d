"""What makes the site installable, and what the phone page says of an address."""

import re

import pytest
from django.contrib.staticfiles import finders

from approvals.notify import vapid
from dashboard.site.phone import what_works


def test_the_manifest_names_icons_that_exist(client):
    response = client.get("/manifest.webmanifest")
    assert response.headers["Content-Type"] == "application/manifest+json"
    manifest = response.json()
    assert (manifest["name"], manifest["display"], manifest["start_url"], manifest["scope"]) == (
        "Handrail",
        "standalone",
        "/",
        "/",
    )
    found = {(icon["sizes"], icon.get("purpose")) for icon in manifest["icons"]}
    assert {("192x192", "any"), ("512x512", "any"), ("512x512", "maskable")} <= found
    for icon in manifest["icons"]:
        path = finders.find(icon["src"].removeprefix("/static/"))
        assert path, icon
        if icon["type"] == "image/png":
            with open(path, "rb") as file:
                head = file.read(24)
            size = int.from_bytes(head[16:20], "big")
            assert f"{size}x{size}" == icon["sizes"]


def test_every_page_names_the_manifest(client, db):
    assert '<link rel="manifest" href="/manifest.webmanifest">' in client.get("/accounts/login/").content.decode()


def test_the_service_worker_is_served_at_the_root(client):
    response = client.get("/service-worker.js")
    assert response.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    script = response.content.decode()
    assert 'addEventListener("push"' in script


def test_the_service_worker_keeps_no_page(client):
    script = client.get("/service-worker.js").content.decode()
    assert not re.search(r"\bcaches\.|indexedDB|localStorage", script)


@pytest.mark.parametrize(
    ("address", "works"),
    [
        ("http://192.168.1.7:8000", [False, False, False]),
        ("http://desk.example.org", [False, False, False]),
        ("https://desk.example.org", [True, True, True]),
        ("https://192.168.1.7", [True, True, False]),
        ("http://handrail.localhost:8000", [True, True, True]),
    ],
)
def test_the_phone_page_says_what_works_at_an_address(address, works):
    assert [found for _, found, _ in what_works(address)] == works


def test_the_phone_page_offers_https_where_there_is_none(settings, browser_of, bob):
    settings.HANDRAIL_PUBLIC_URL = settings.HANDRAIL_DESK_URL = "http://192.168.1.7:8000"
    page = " ".join(browser_of(bob).get("/connect/phone/").content.decode().split())
    assert page.count("Doesn't work") + page.count("Doesn&#x27;t work") == 3
    for words in ("tailscale serve", "Caddy", "a tunnel"):
        assert words in page


def test_the_notifications_page_has_the_public_key(browser_of, bob):
    page = browser_of(bob).get("/me/notifications/").content.decode()
    assert f'data-push-key="{vapid.public_key()}"' in page


def test_the_private_key_is_kept_for_its_user_alone(settings):
    first = vapid.public_key()
    assert vapid.public_key() == first
    assert (settings.KEYS_DIR / "vapid").stat().st_mode & 0o777 == 0o600
