"""Our own words on pages: labels are plain, and a reason with a command in it shows it as code."""

import ast
import re

import polib
import pytest

from approvals.agents import faults
from approvals.reports.tasks import task
from dashboard.event_log import sentences
from dashboard.templatetags.handrail import reason_line, with_code
from dashboard.text import labels
from tests.support import CHECKOUT
from workspaces.lifecycle import states
from workspaces.pages import header_facts, operation_view, timeline

RAW = re.compile("[`\u2190\u2192\u21d2\u00a0]|->|=>")
LABELS = {
    "states": labels.STATES,
    "tiers": labels.TIERS,
    "refusals": labels.REFUSALS,
    "ways back": labels.UNDO,
    "workspaces": states.STATE_WORDS,
    "isolation": header_facts.ISOLATION_WORDS,
    "operations": operation_view.OPERATION_LABELS,
    "steps": operation_view.STEP_LABELS,
    "timeline": timeline.EVENT_LABELS,
    "events": sentences.WORDS,
    "parts of events": sentences.LABELS,
    "tasks": task.LABELS,
    "faults of agents": faults.WORDS,
}
# What says why, in our words; and the filters that show commands in it as code.
REASON = re.compile(r"([\w.]+\.(?:reason|problem|detail|because|what_to_do|end_reason))((?:\|[\w]+(?::[^\s|%}]+)?)*)")
AS_CODE = ("reason_line", "with_code")
# Written by a person or a program, so shown as it is.
AS_WRITTEN = {"stop.reason", "hold.reason", "receipt.body.reason", "put_off_form.reason", "form.problem"}


def texts(thing):
    if isinstance(thing, dict):
        thing = thing.values()
    if isinstance(thing, str) or not hasattr(thing, "__iter__"):
        yield str(thing)
        return
    for each in thing:
        yield from texts(each)


@pytest.mark.parametrize("name", LABELS)
def test_labels_have_no_signs_of_code(name):
    found = list(texts(LABELS[name]))
    assert found
    assert [text for text in found if RAW.search(text)] == []


def messages():
    for path in sorted((CHECKOUT / "locale" / "de" / "LC_MESSAGES").glob("*.po")):
        for entry in polib.pofile(str(path)):
            if not entry.obsolete:
                yield from (entry.msgid, entry.msgid_plural, entry.msgstr, *entry.msgstr_plural.values())


def test_messages_have_no_hidden_blanks_and_their_commands_end():
    found = list(filter(None, messages()))
    assert len(found) > 5000
    assert [text for text in found if "\u00a0" in text or re.search("[\u2190\u2192\u21d2]", text)] == []
    assert [text for text in found if text.count("`") % 2] == []


def test_no_message_shows_a_backtick():
    shown = [str(show(text)) for text in filter(None, messages()) for show in (reason_line, with_code)]
    assert [text for text in shown if "`" in text] == []


def test_every_reason_in_a_template_shows_its_commands_as_code():
    raw = []
    for path in sorted((CHECKOUT / "templates").rglob("*.html")):
        for tag in re.findall(r"{{.*?}}|{%.*?%}", path.read_text(), flags=re.DOTALL):
            if tag.startswith("{%") and not re.match(r"{%\s*(?:blocktranslate|include)\b", tag):
                continue
            for name, filters in REASON.findall(tag):
                is_shown = tag.startswith("{{") or "blocktranslate" in tag
                if is_shown and name not in AS_WRITTEN and not filters.endswith(AS_CODE):
                    raw.append(f"{path.relative_to(CHECKOUT)}: {tag.strip()}")
    assert raw == []


# Two sides of something with an arrow between them, as pages draw it: names, not words.
DRAWN = {"approvals/evidence/patches.py", "workspaces/changes/diff/readable.py", "workspaces/pages/diff_sections.py"}


def literals(tree):
    """Yield each text in a module that is no docstring, an f-string as one."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | alone):
            yield node.value


def sentences_of(part):
    """Yield (file, text) of the sentences that a part of the product can give as a reason or a message."""
    for path in sorted((CHECKOUT / part).rglob("*.py")):
        name = str(path.relative_to(CHECKOUT))
        for text in literals(ast.parse(path.read_text())):
            if re.match(r"[A-Z…][\w…' ]+ [a-z]", text) and "\n" not in text:
                yield name, text


@pytest.mark.parametrize("part", ["approvals", "dashboard", "workspaces"])
def test_no_sentence_holds_a_raw_sign(part):
    found = list(sentences_of(part))
    assert len(found) > 300
    drawn = [each for each in found if re.search("[\u2190\u2192\u21d2\u00a0]", each[1]) and each[0] not in DRAWN]
    assert drawn == []
    assert [each for each in found if each[1].count("`") % 2] == []
