"""How many files and folders a tree has, in the words of a page: one is not "1 files and folders"."""

import re

import pytest

from workspaces.models import Snapshot, State, Workspace

PLACES = ["/w/payments/repo-task-1/", "/w/payments/repo-task-1/snapshots/", "/w/payments/repo-task-1/snapshots/2/"]


@pytest.mark.parametrize(("entries", "words"), [(1, "1 file or folder"), (83_915, "83,915 files and folders")])
def test_the_count_of_a_tree_is_said_in_the_right_number(workspace, alice, browser_of, entries, words):
    Snapshot.objects.update(entries=entries)
    Workspace.objects.update(state=State.STOPPED)
    person = browser_of(alice)
    texts = {place: re.sub(r"<[^>]+>", "", person.get(place, follow=True).content.decode()) for place in PLACES}
    assert {place: words in text for place, text in texts.items()} == dict.fromkeys(PLACES, True)
    assert not [place for place, text in texts.items() if "1 files and" in text]
