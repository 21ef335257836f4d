"""Text that stands in a field of a form has its hidden characters shown beside the field."""

import re
from pathlib import Path

import pytest
from django import forms
from django.conf import settings
from django.template.loader import render_to_string

from dashboard.database import clock
from dashboard.templatetags.handrail import with_marks
from workspaces.models import Command, NoteVersion, State
from workspaces.pages.secrets import NeverShown

TEMPLATES = Path(settings.BASE_DIR) / "templates"
HIDDEN = "echo a\u202eb\u200bc\U000e0041"
LABELS = ("U+202E", "U+200B", "U+E0041")
HERE = "/w/payments/repo-task-1/"
# Fields whose text is the person's own or only digits, or that name something that was chosen on the page.
NO_TEXT = ('type="hidden"', 'type="date"', 'type="checkbox"', 'type="radio"', 'inputmode="numeric"', 'name="q"')


def shown_fields():
    """(template, the expression in a field's value, what follows the field) of each field that is written by hand."""
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        for field in re.finditer(r'<input\b[^>]*?\bvalue="\{\{ ?([\w.]+)[^}]*\}\}"[^>]*>', text, re.S):
            if not any(each in field[0] for each in NO_TEXT) and "admin" not in template.parts:
                yield template.name, field[1], text[field.end() :]
        for field in re.finditer(r"<textarea\b[^>]*>\{\{ ?([\w.]+)[^}]*\}\}</textarea>", text, re.S):
            yield template.name, field[1], text[field.end() :]


def test_every_field_that_a_template_fills_is_followed_by_its_marks():
    found = list(shown_fields())
    assert len(found) > 15
    unmarked = [(name, told) for name, told, after in found if not after.lstrip().startswith(f"{{{{ {told}|with_marks")]
    assert unmarked == []


def test_forms_are_rendered_by_the_one_template_that_marks():
    rendered = r"\{\{ ?(?:\w*form(?:\.as_\w+)?|field(?:\.as_\w+)?) ?(?:\|with_focus ?)?\}\}"
    by_hand = [
        path.name
        for path in TEMPLATES.rglob("*.html")
        if "admin" not in path.parts and re.search(rendered, path.read_text()) and path.name != "field.html"
    ]
    assert set(by_hand) <= {"environment_edit.html", "fields.html", "new.html"}  # their hidden fields


class Every(forms.Form):
    line = forms.CharField()
    text = forms.CharField(widget=forms.Textarea)
    secret = forms.CharField(widget=forms.PasswordInput)
    never = forms.CharField(widget=NeverShown)


@pytest.mark.parametrize("name", Every.base_fields)
def test_each_kind_of_field_is_marked_unless_it_never_shows_its_text(name):
    form = Every({name: HIDDEN}, initial={name: HIDDEN})
    text = render_to_string("parts/field.html", {"field": form[name]})
    marked = text.partition("field-marks")[2]
    assert all((label in marked) == (name in ("line", "text")) for label in LABELS)


def test_what_has_nothing_hidden_is_not_repeated():
    assert with_marks("plain words\nof two lines") == ""


def test_a_description_that_an_agent_set_is_marked(workspace, alice, browser_of, read):
    workspace.description = HIDDEN
    workspace.save()
    text = read(browser_of(alice), f"{HERE}details/")
    assert all(label in text.partition("field-marks")[2] for label in LABELS)


def test_notes_are_marked(workspace, alice, browser_of, read):
    type(workspace).objects.update(state=State.STOPPED)
    NoteVersion.objects.create(workspace=workspace, number=1, text=HIDDEN, sha256="0" * 64, created_at=clock.now())
    text = read(browser_of(alice), f"{HERE}notes/")
    assert all(label in text.partition("field-marks")[2] for label in LABELS)


def test_a_command_with_hidden_characters_runs_only_as_it_was_shown(workspace, alice, browser_of, read):
    client = browser_of(alice)
    again = read(client, f"{HERE}checks/?again={HIDDEN}")
    assert all(label in again.partition("field-marks")[2] for label in LABELS)
    asked = client.post(f"{HERE}checks/run/", {"command": HIDDEN}).content.decode()
    assert "Run a command with hidden characters?" in asked
    assert all(label in asked for label in LABELS)
    assert not Command.objects.exists()
    digest = re.search(r'name="shown" value="([0-9a-f]{64})"', asked)[1]
    client.post(f"{HERE}checks/run/", {"command": f"{HIDDEN} && rm -rf x", "shown": digest})
    assert not Command.objects.exists()
    client.post(f"{HERE}checks/run/", {"command": HIDDEN, "shown": digest})
    assert Command.objects.get().shown == HIDDEN


def test_a_command_without_hidden_characters_runs_at_once(workspace, alice, browser_of):
    browser_of(alice).post(f"{HERE}checks/run/", {"command": "make test"})
    assert Command.objects.get().shown == "make test"
