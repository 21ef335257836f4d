"""Secrets from outside: a lead at the pages, an agent at the API, and programs that say what they were given."""

import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

from tests.workspaces.conftest import Desk, desk, token  # noqa: F401 - fixtures


class Person:
    """Somebody who is signed in and fills in forms; `pages` is all that they were shown."""

    def __init__(self, product, name: str, role: str):
        self.product, self.pages = product, []
        self._browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        )
        link = product.sign_in_url(name, role).removeprefix(product.url)
        self._csrf = ""
        self.submit(link)
        self._csrf = ""  # another one after the sign-in

    def look(self, path: str) -> str:
        return self._open(urllib.request.Request(self.product.url + path))

    def submit(self, path: str, page: str = "", **fields) -> str:
        """Fill in the form at `path` (as found on `page`); the page that follows."""
        if page or not self._csrf:
            self._csrf = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.look(page or path)).group(1)
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self._csrf, **fields}, doseq=True).encode()
        address = self.product.url + path
        return self._open(urllib.request.Request(address, body, {"Referer": address}))

    def _open(self, request) -> str:
        try:
            with self._browser.open(request, timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                text = refused.read().decode()
        self.pages.append(text)
        return text

    def set_secret(self, name: str, scope: str, value: str, **fields) -> str:
        return self.submit("/secrets/new/", team="main", name=name, scope=scope, value=value, **fields)

    def address_of(self, name: str, scope_words: str = "") -> str:
        rows = re.findall(
            r'href="(/secrets/[\w-]{36}/)"><code>(\w+)</code></a>\s*<span class="row-meta">([^·]+) ·',
            self.look("/secrets/"),
        )
        return next(path for path, found, words in rows if found == name and words.startswith(scope_words))

    def environment(self, name: str, *, setup_secrets="", agent_secrets="", **fields) -> str:
        """A new environment; the page that follows."""
        wish = {"team": "main", "name": name, "driver": "sandbox", **fields}
        return self.submit("/environments/new/", **wish, setup_secrets=setup_secrets, agent_secrets=agent_secrets)


@pytest.fixture(scope="session")
def lead(product):
    return Person(product, "lena-of-secrets", "lead")


@pytest.fixture
def names():
    """`names("A")`: a name that no other test has taken."""
    tag = uuid.uuid4().hex[:8].upper()
    return lambda name: f"{name}_{tag}"


def printed(desk, key: str, program: str, **wish) -> dict:  # noqa: F811
    """Run a program of Python that prints JSON with what it was told; taken apart from the output."""
    return json.loads(desk.run(key, f"python3 -c {program!r}", **wish))
