"""Secrets from outside: a lead at the pages, an agent at the API, and programs that say what they were given."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

from tests.support.visitor import Visitor
from tests.workspaces.conftest import desk, token  # noqa: F401 - fixtures


class Person(Visitor):
    """Somebody who fills in forms. A page of refusal is a page too."""

    def submit(self, path: str, page: str = "", **fields) -> str:
        """Fill in the form at `path` (as found on `page`); the page that follows."""
        return self.post(path, fields, at=page)

    def _open(self, request) -> str:
        try:
            return super()._open(request)
        except urllib.error.HTTPError as refused:
            with refused:
                return self._shown(refused)

    def set_secret(self, name: str, scope: str, value: str, **fields) -> str:
        return self.submit("/secrets/new/", team="main", name=name, scope=scope, value=value, **fields)

    def address_of(self, name: str, scope_words: str = "") -> str:
        rows = re.findall(
            r'href="(/secrets/[\w-]{36}/)"><code>(\w+)</code></a>\s*<span class="row-meta">([^·]+) ·',
            self.get("/secrets/"),
        )
        return next(path for path, found, words in rows if found == name and words.startswith(scope_words))

    def environment(self, name: str, *, setup_secrets="", agent_secrets="", **fields) -> str:
        """A new environment that the agent of `desk` may have; the page that follows."""
        wish = {"team": "main", "name": name, "driver": "sandbox", "agents": "workspace-tests", **fields}
        return self.submit("/environments/new/", **wish, setup_secrets=setup_secrets, agent_secrets=agent_secrets)


@pytest.fixture(scope="session")
def lead(product):
    return Person.named(product, "lena-of-secrets", "lead")


@pytest.fixture
def names():
    """`names("A")`: a name that no other test has taken."""
    tag = uuid.uuid4().hex[:8].upper()
    return lambda name: f"{name}_{tag}"


def printed(desk, key: str, program: str, **wish) -> dict:  # noqa: F811
    """Run a program of Python that prints JSON with what it was told; taken apart from the output."""
    return json.loads(desk.run(key, f"python3 -c {program!r}", **wish))
