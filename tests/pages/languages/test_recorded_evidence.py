"""Every sentence of evidence comes from one form, so that a card is in one language (decision 144)."""

import pytest

from approvals.evidence import sentence_forms
from dashboard.text import recorded_text

SENTENCES = """
It runs outside any workspace, so Handrail can't tell what it would change.
Programs in the agent phase can send any data there. Its programs tried to reach it 1,200 times.
3 files differ from snapshot 12 now.
Pushes to origin (https://example.org/shop.git and /srv/shop.git).
Pushes to the source (https://example.org/shop.git).
Pushes to https://example.org/other.git, which is not a remote of this repository.
Branch feature/a-b: 1 commit, 3 files, +1,234 −7.
Branch main: nothing new to push.
main: HEAD~3 names no commit that can be read here.
Removes 2 commits from main.
Includes 1 commit that this command creates first, as without git hooks.
Leaves out 2 new files that were never committed (a.txt, b.txt …).
Can't tell what it pushes: git did not answer in time.
Deletes 1 file, 12 bytes.
Deletes at most at least 1,200 files and 1 folder, 12.3 KB.
Moves 3 files and 2 folders, 4.0 MB.
12 tracked by git, 3 not.
4 files in .git: deletes git history too.
Does not exist now: build, dist.
Installs 3 npm packages and their dependencies.
Removes 1 apt package.
From https://pypi.example.org, ./wheels.
POST to api.example.org.
Sends the file notes.txt, 1,204 bytes now.
Sends the file /etc/passwd, which is outside the workspace.
Sends the URL (41 characters).
Changes 3 files, as the patch says
The file does not change. The file has changed since the agent asked: the last difference below shows how.
""".strip().splitlines()


@pytest.fixture
def marked(monkeypatch):
    """A language that says each form of evidence with a mark before it."""
    known = set(sentence_forms.FORMS)
    monkeypatch.setattr(recorded_text, "gettext", lambda text: f"§{text}" if text in known else text)
    recorded_text.in_language.cache_clear()
    yield
    recorded_text.in_language.cache_clear()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_of_evidence_is_said_from_its_form(marked, sentence):
    said = recorded_text.in_own_language(sentence)
    assert said
    assert said.replace("§", "") == sentence


def test_a_name_that_holds_words_of_a_form_leaves_the_sentence_as_it_was(marked):
    assert recorded_text.in_own_language("Sends the file a, which is outside the workspace., 3 bytes now.") is None
