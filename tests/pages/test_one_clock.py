"""One form for times: people read them in their own zone, agents in UTC and with the word."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from approvals.models import Grant
from dashboard.database import clock
from dashboard.models import SignInLink
from dashboard.people.tokens import sha256
from dashboard.templatetags import handrail
from tests.support import CHECKOUT

from .conftest import make_workspace

pytestmark = pytest.mark.django_db
ZONE = "Pacific/Kiritimati"  # 14 hours ahead of UTC
TIME = re.compile(r"<time datetime=\"[^\"]+\" data-clock title=\"[^\"]+\">[^<]+</time>")


def said(moment) -> str:
    """The moment as the page of somebody in ZONE shows it."""
    with timezone.override(ZONE):
        return handrail.clock(moment)


@pytest.fixture
def there(browser_of, alice):
    """Alice's browser, in ZONE."""
    client = browser_of(alice)
    client.cookies["handrail-zone"] = ZONE
    return client


def test_a_sign_in_link_says_when_it_ended_in_the_viewers_zone(there, bob, read):
    long_ago = clock.now() - timedelta(days=3)
    link = SignInLink.objects.create(user=bob, sha256=sha256("expired"), expires_at=long_ago)
    assert f"It was valid until {said(long_ago)}." in read(there, "/sign-in/expired/", status=410)
    SignInLink.objects.filter(pk=link.pk).update(used_at=long_ago)
    assert f"It was used to sign in ({said(long_ago)}) and works" in read(there, "/sign-in/expired/", status=410)


def test_the_trash_names_its_end_in_the_viewers_zone(there, team, agent, read):
    make_workspace(team, agent, "one")
    text = read(there, "/w/payments/one/delete/")
    shown = TIME.search(text.split("It stays in the trash until ")[1])[0]
    assert shown == said(datetime.fromisoformat(re.search(r'datetime="([^"]+)"', shown)[1]))


def test_a_grant_says_until_when_in_the_viewers_zone(there, ask, read):
    action = ask()
    wish = {"digest": action.digest, "covers": "", "minutes": "30", "uses": "5"}
    text = there.post(f"/actions/{action.pk}/allow/", wish, follow=True).content.decode()
    assert f"Approved. Auto-approved until {said(Grant.objects.get().expires_at)}, at most 5 times." in text


@pytest.mark.parametrize(
    ("ahead", "shape"),
    [
        (timedelta(), "%H:%M UTC"),
        (timedelta(days=-2), "%-d %b %H:%M UTC"),
        (timedelta(days=800), "%-d %b %Y %H:%M UTC"),
    ],
)
def test_agents_read_the_same_form_in_utc(ahead, shape):
    now = datetime.now(UTC)
    if (now + ahead).year != now.year:
        shape = "%-d %b %Y %H:%M UTC"
    with timezone.override(ZONE):
        assert clock.in_utc(timezone.localtime(now + ahead)) == (now + ahead).strftime(shape)


def test_no_page_has_a_format_of_time_of_its_own():
    """Times come from the filters of dashboard/text/moments.py; `date` only makes what a form or an address needs."""
    found = []
    for path in (CHECKOUT / "templates").rglob("*.html"):
        text = path.read_text()
        for place in re.finditer(r"\{\{[^}]*\|(?:date|time|timesince|timeuntil)\b[^}]*\}\}", text):
            before = text[max(0, text.rfind("<", 0, place.start())) : place.start()]
            if not re.search(r'(?:value|href|data-day)="', before):
                found.append((path.name, place.group()))
    assert found == []
    elsewhere = [
        path.name
        for app in ("dashboard", "approvals", "workspaces")
        for path in (CHECKOUT / app).rglob("pages/**/*.py")
        if "strftime(" in path.read_text()
    ]
    assert elsewhere == []
