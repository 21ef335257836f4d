"""Each event that the code can write has words for people."""

import ast
import re
from itertools import product

import pytest
from django.contrib import admin

from approvals.models import Status
from dashboard.admin import Logged, Shown
from dashboard.event_log.sentences import WORDS, details, in_words
from tests.support import CHECKOUT
from workspaces.models import StoreTask

VERB = re.compile(r"[a-z]+\.[a-z]+(_[a-z]+)*")
NO_VERBS = re.compile(
    r".*\.(py|json|toml|sh|txt|md|html|log|sock|git)|(branch|remote|user|core|push|handrail)\..*|system\.posix_acl_.*"
    r"|host\.env"  # a file
    r"|network\.(credential|request)"  # names of tools
)


def literals() -> set[str]:
    """All strings of the code that look like a verb, beside its settings, dotted paths and file names."""
    subjects = {verb.partition(".")[0] for verb in WORDS}
    found = set()
    for app in ("approvals", "workspaces", "dashboard"):
        for path in (CHECKOUT / app).rglob("*.py"):
            if path.name == "transcript.py" or "migrations" in path.parts:
                continue  # transcripts of agents name their own events
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and VERB.fullmatch(node.value):
                    found.add(node.value)
    return {text for text in found if text.partition(".")[0] in subjects and not NO_VERBS.fullmatch(text)}


def composed() -> set[str]:
    """Those that are put together: of an action's end, of work on the store, of a change in the Django admin."""
    sites = admin.site._registry.items()
    recorded = [
        model._meta.model_name
        for model, site in sites
        if isinstance(site, Logged) and not isinstance(site, Shown) and site.writes_events
    ]
    found = {f"action.{status}" for status in (Status.SUCCEEDED, Status.FAILED)}
    found |= {f"store.{work}_{what}" for work, what in product(StoreTask.values, ("asked", "stopped"))}
    return found | {f"{name}.{what}" for name, what in product(recorded, ("added", "changed"))}


def test_each_event_has_words():
    assert sorted((literals() | composed()) - WORDS.keys()) == []


@pytest.mark.parametrize("verb", sorted(WORDS))
def test_each_event_has_a_sentence_for_people(verb):
    assert in_words(verb)[0].isupper()
    assert "_" not in in_words(verb)


def test_the_data_of_an_event_is_read_as_labels_and_values():
    data = {"was": "viewer", "role": "lead", "approved_by": "bob", "until": "2026-11-22T10:05:00+00:00", "label": ""}
    assert details(data) == "before: viewer · role: lead · until: 2026-11-22 10:05 UTC"
    assert details({"kind": "allow_host", "ok": False, "found": [{"path": "a_b", "name": "TOKEN"}]}) == (
        "kind: allow host · succeeded: no · found: path a_b, name TOKEN"
    )
    assert details({"number": 3, "sha256": "ab" * 32}) == "number: 3 · SHA-256: abababab…"
    assert details({"title": "git push", "tool": "Bash"}) == "git push"
    assert details({"expires_at": "2027-02-25T12:45:15+00:00"}) == "expires at: 2027-02-25 12:45 UTC"


def test_text_of_an_agent_is_not_changed_in_the_log():
    text = "2026-11-22T10:05:00+00:00 " + "ab" * 32
    assert details({"command": text, "path": "ab" * 20}) == f"command: {text} · path: {'ab' * 20}"
