"""Fields of forms: those for code look like code, and no text beside a field shows marks of Markdown."""

import gc
import re

import pytest
from django.forms import BaseForm
from django.template.loader import render_to_string
from django.urls import reverse

import dashboard.urls  # noqa: F401 - loads every form
from approvals.pages.notifications import ChannelForm
from tests.support import CHECKOUT

from .test_every_url import ROUTES, site  # noqa: F401 - a fixture

# Fields that take commands, addresses, names for programs or patterns: {name of the page: {name of the field}}.
CODE = {
    "workspace-new": {"git", "ref", "setup"},
    "environment-new": {
        "models_anthropic",
        "models_openai",
        "image",
        "dockerfile",
        "repository",
        "ref",
        "setup",
        "maintenance",
    },
    "secret-new": {"name", "value"},
    "notifications": {"url"},
    "workspace-terminals": {"command"},
    "workspace-network": {"host"},
    "policy": {"try-command"},
    "team": {"address"},
    "log-targets": {"address"},
    "teams": {"slug"},
}
FIELD = re.compile(r"<(?:input|textarea)\b[^>]*>")
SHOWN_AS_CODE = re.compile(r"<(script|style|code|pre|textarea|kbd|samp)\b.*?</\1>", re.DOTALL)


def named(page: str, name: str) -> list[str]:
    fields = [tag for tag in FIELD.findall(page) if f'name="{name}"' in tag]
    return [tag for tag in fields if 'type="hidden"' not in tag and 'type="radio"' not in tag]


def forms():
    """Every form class that the product has."""
    gc.collect()
    found, left = set(), [BaseForm]
    while left:
        left += [sub for sub in left.pop().__subclasses__() if sub not in found and not found.add(sub)]
    ours = ("dashboard", "workspaces", "approvals")
    return sorted((form for form in found if form.__module__.startswith(ours)), key=str)


def test_no_label_or_help_text_has_backticks():
    fields = [(form, name, field) for form in forms() for name, field in getattr(form, "base_fields", {}).items()]
    assert len(fields) > 40
    assert [(form, name) for form, name, field in fields if "`" in f"{field.label}{field.help_text}"] == []


def test_no_page_shows_backticks(site, alice, browser_of):  # noqa: F811
    client, walked = browser_of(alice), 0
    for route, name in ROUTES:
        page = client.get(reverse(name, kwargs=site(route)))
        if page.status_code == 200 and page.get("Content-Type", "").startswith("text/html"):
            text = re.sub(r"<[^>]*>", "", SHOWN_AS_CODE.sub("", page.content.decode()))
            assert "`" not in text, (name, text[max(text.index("`") - 80, 0) :][:200])
            walked += 1
    assert walked > 40


@pytest.mark.parametrize("name", sorted(CODE))
def test_fields_for_code_look_like_code(site, alice, browser_of, name):  # noqa: F811
    alice.is_superuser = True
    alice.save()
    route = next(route for route, other in ROUTES if other == name)
    page = browser_of(alice).get(reverse(name, kwargs=site(route))).content.decode()
    for field in CODE[name]:
        tags = named(page, field)
        assert tags, f"{name} has no field {field}"
        assert [tag for tag in tags if "code-field" not in tag] == []


def test_the_look_of_code_holds_for_fields_of_one_line_too():
    styles = (CHECKOUT / "static" / "css" / "forms.css").read_text()
    assert ":is(input, textarea).code-field { font: var(--code);" in styles


def test_a_command_in_a_sentence_of_ours_is_shown_as_code():
    said = render_to_string("parts/notice.html", {"say": "Start it with `make up`, <b>now</b>."})
    assert "Start it with <code>make up</code>, &lt;b&gt;now&lt;/b&gt;." in said


def test_the_error_of_a_form_shows_a_command_as_code():
    form = ChannelForm({"url": "x"})
    form.add_error("url", "Only `manage.py connect` does that.")
    assert "Only <code>manage.py connect</code> does that." in render_to_string("parts/fields.html", {"form": form})
