"""Each page with every text of the catalogue in brackets: what stands outside them was never marked for translation.

What a person or an agent wrote, names, and what Handrail recorded in English (titles, reasons) stay as they are.
"""

import re
from html.parser import HTMLParser

import pytest
from django.urls import reverse
from django.utils.translation import get_language, trans_real

from dashboard.text import moments
from tests.approvals.conftest import LIST, PUSH
from tests.pages.test_every_url import ROUTES, site  # noqa: F401 (a fixture)

pytestmark = pytest.mark.django_db

VOID = {"input", "br", "img", "meta", "link", "use", "hr"}
UNREAD = {"script", "style", "code", "pre", "textarea", "svg", "time", "kbd"}
SPOKEN = ("aria-label", "placeholder", "title", "alt")
EXAMPLE = re.compile(
    r"[\w.*-]+\.example\.(org|com)|https://tracker\.example/\S+|tests = make test|web = npm run dev|NPM_TOKEN|"
    r"(https|(https:)?//github\.com(/owner/name)?)$|@handrail|https://|GITHUB_TOKEN|NODE_ENV=development|VERSION=3|packages/api|node_modules/|\.handrail/lessons\.md|ntfys://\S+|Ctrl\+.*"
)
# Of the rows that the tests make, of the languages and products, and what is recorded in English.
OURS = re.compile(
    r"(claude-code|codex)@[\d.]+|anthropic ANTHROPIC_API_KEY claude-sonnet-\*|"
    r"claude|a task|dba|sha256|repo-(task-1|thrown)|payments|Browser|alice|bob|lena|vera|Payments|Handrail|"
    r"Claude Code|Codex|Copilot CLI|Gemini CLI|OpenCode|Qwen Code|Cursor|MCP|ACP|AAP|Python|Deutsch|"
    r"SELECT \* FROM (output|file)|Forgejo|GitHub|GitLab|Gitea|CSV|EU AI Act|Art\. 14|OWASP AISVS|C14\.\d .*|"
    r"English|default( v1)?|[Oo]nly-for-payments.*|before lunch|nightly|tests|Bash|UTC|DEPLOY_KEY|GITHUB|make up|"
    r"(Overwrite|Push to) main on origin|(Run )?pwd|[\d.,]+ EUR|"
    r"namespace|none|sandbox|container(-gvisor)?|microvm(-emulated)?|pod-(runc|gvisor|kata)|U\+27E\d.*|/workspace|\.tar(\.\w+)*"
)
# Pages of operators, whose findings are those of `manage.py doctor`, and the log, whose data stays as it was recorded.
AS_RECORDED = ("/status/", "/log/")
FOUND_IN_ENGLISH = ("The runner does not answer", "files and programs can't be reached", "snapshot store is missing")


class Outside(HTMLParser):
    """The texts of a page outside brackets."""

    def __init__(self, page):
        super().__init__()
        self.stack, self.depth, self.found = [], 0, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        said = [given[name] for name in SPOKEN if given.get(name) and tag not in ("time", "option")]
        if not any(self.stack):
            self.found += [text for text in said if "⟦" not in text and is_text(text)]
        if tag not in VOID:
            exact = "exact" in (given.get("class") or "") or (given.get("lang") == "en" and tag != "html")
            self.stack.append(tag in UNREAD or exact)

    def handle_endtag(self, tag):
        if tag not in VOID and self.stack:
            self.stack.pop()

    def handle_data(self, data):
        if any(self.stack):
            return
        outside = ""
        for char in data:
            self.depth += (char == "⟦") - (char == "⟧")
            outside += char if self.depth <= 0 and char not in "⟦⟧" else " "
        for part in re.split(r"[·,:;()\n]|\s{2,}", outside):
            if is_text(part.strip(" .…")):
                self.found.append(part.strip(" .…"))


def is_text(text: str) -> bool:
    plain = OURS.sub("", EXAMPLE.sub("", text))
    return bool(re.search(r"[A-Za-z]{3}", plain)) and not text.startswith(FOUND_IN_ENGLISH)


@pytest.fixture
def brackets(monkeypatch):
    def bracketed(text):
        return text and f"⟦{text}⟧"

    moments._dated.cache_clear()  # a test before this one may have asked for the same day
    monkeypatch.setattr(trans_real.DjangoTranslation, "gettext", lambda self, text: bracketed(text))
    monkeypatch.setattr(trans_real.DjangoTranslation, "ngettext", lambda self, one, n, _: bracketed(one))
    monkeypatch.setattr(trans_real, "gettext", lambda text: bracketed(text) if get_language() == "de" else text)
    yield
    moments._dated.cache_clear()


def test_every_text_of_a_page_can_be_translated(site, browser_of, alice, ask, brackets):  # noqa: F811
    client, found, read = browser_of(alice), {}, 0
    ask(PUSH)
    ask(LIST)
    for route, name in ROUTES:
        address = reverse(name, kwargs=site(route))
        page = client.get(address, headers={"accept-language": "de"})
        if page.status_code != 200 or page.streaming or "text/html" not in page["Content-Type"]:
            continue
        read += 1
        main = page.content.decode()
        if address.startswith(AS_RECORDED):
            main = main.partition("<main")[0]
        for text in Outside(main).found:
            found.setdefault(text, address)
    assert found == {}
    assert read > 40
