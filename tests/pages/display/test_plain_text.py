"""What pages say, read as text: names and no ids or addresses, and no sentence twice."""

import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from django.urls import reverse

from approvals.actions import gate
from approvals.models import Action
from dashboard.database import clock
from tests.pages.conftest import LIST, PUSH
from tests.pages.test_every_url import ROUTES, site  # noqa: F401 (a fixture)

pytestmark = pytest.mark.django_db

ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
EMAIL = re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.]+\b")
UNREAD = {"script", "style", "code", "pre", "option", "template"}  # what is copied or exact, not said
INLINE = {"a", "b", "i", "em", "strong", "small", "span", "time", "kbd", "q", "abbr", "svg", "use", *UNREAD}
OF_EACH_ROW = {"Empty: as everywhere here.", "Start Handrail with ."}  # its command is code
OF_EACH_PROVIDER = {
    "A secret that is given to Handrail, for models.",
    "It never enters a workspace.",
    "Names separated by spaces, or patterns with *.",
    "The first is asked unless a run names one.",
    "Web search, web fetch, code and MCP of the provider, which no policy sees.",
}


class Said(HTMLParser):
    """The text between <main> and its end, one line for each block."""

    def __init__(self, page):
        super().__init__()
        self.unread, self.parts = 0, []
        self.feed(page.partition("<main")[2].partition("</main>")[0])
        self.lines = [" ".join(line.split()) for line in "".join(self.parts).split("\n") if line.strip()]

    def handle_starttag(self, tag, attrs):
        self.unread += tag in UNREAD
        self.parts.append("" if tag in INLINE else "\n")

    def handle_endtag(self, tag):
        self.unread -= tag in UNREAD
        self.parts.append("" if tag in INLINE else "\n")

    def handle_data(self, data):
        self.parts.append("" if self.unread else data)

    @property
    def twice(self) -> set[str]:
        sentences = [
            s for line in self.lines for s in re.split(r"(?<=[.!?])\s+", line) if re.search(r"\w \w.*[.!?]$", s)
        ]
        return {sentence for sentence in sentences if sentences.count(sentence) > 1}


@pytest.fixture
def actions(ask, decide, bob):
    """One in each state that a card can be in without a runner."""
    spoken = "Publish the fix before the meeting."
    denied, approved, expired = (
        ask({"command": f"git push origin b{n}", "description": spoken}, reasoning=spoken) for n in range(3)
    )
    decide(denied, "deny", by=bob)
    decide(approved, by=bob)
    Action.objects.filter(pk=expired.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    gate.sweep()
    return [denied, approved, expired, ask(PUSH | {"description": spoken}, reasoning=spoken), ask(LIST)]


def test_pages_show_names_and_say_nothing_twice(site, actions, browser_of, alice):  # noqa: F811
    alice.email = "alice@example.org"
    alice.save()
    client, found, read = browser_of(alice), [], 0
    addresses = [reverse(name, kwargs=site(route)) for route, name in ROUTES]
    for address in [*dict.fromkeys(addresses), *(f"/actions/{action.pk}/" for action in actions)]:
        response = client.get(address)
        if response.status_code != 200 or response.streaming or "text/html" not in response.headers["Content-Type"]:
            continue
        said, read = Said(response.content.decode()), read + 1
        # A store that is missing is named by its folder, which somebody has to find.
        shown = [line for line in said.lines if "snapshot store is missing" not in line]
        found += [(address, line) for line in shown if ID.search(line) or EMAIL.search(line)]
        found += [(address, sentence) for sentence in sorted(said.twice - OF_EACH_ROW - OF_EACH_PROVIDER)]
    assert found == []
    assert read > 40


def test_an_expired_card_says_once_that_nobody_answered_and_it_did_not_run(actions, browser_of, alice):
    said = Said(browser_of(alice).get(f"/actions/{actions[2].pk}/").content.decode())
    text = "\n".join(said.lines)
    assert "Expired, did not run" in text
    assert "It did not run" not in text
    assert "before anyone answered." in text
    assert "Nobody answered" not in text
