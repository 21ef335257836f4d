"""The workspace's page and its snapshots say whether its files are watched, and why not."""

import html

import pytest

from workspaces.models import State, Workspace


@pytest.fixture
def shown(workspace, team, lena, browser_of):
    """`shown(state, **fields)`: what both pages say of a workspace with these fields; the two are the same."""

    def read(state=State.READY, **fields):
        Workspace.objects.filter(pk=workspace.pk).update(state=state, **fields)
        at = f"/w/{team.slug}/{workspace.key}/"
        pages = [html.unescape(browser_of(lena).get(path).content.decode()) for path in (at, f"{at}snapshots/")]
        _, _, after = pages[1].partition('id="watching"')
        line = after.partition("</p>")[0].partition(">")[2].strip()
        assert not line or line in pages[0]
        assert line or "<dt>Snapshots</dt>" not in pages[0]
        return line

    return read


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("its changes are watched", "Files are watched: a snapshot looks only at what may have changed."),
        (
            "its files and folders are watched one by one",
            "Files are watched one by one: a snapshot looks only at what may have changed.",
        ),
    ],
)
def test_watched_files_are_said_to_be(shown, why, words):
    assert shown(watching={"how": "fanotify", "why": why}) == words


def test_it_says_why_files_are_not_watched(shown):
    assert shown() == "Files are not watched yet: the next snapshot looks at all of them."
    assert "HANDRAIL_WATCH is off" in shown(watching={"how": "off", "why": "HANDRAIL_WATCH=off"})
    refused = shown(watching={"how": "off", "why": "the kernel refuses fanotify: Function not implemented"})
    assert refused == (
        "Files are not watched (the kernel refuses fanotify: Function not implemented): "
        "each snapshot looks at all of them."
    )


def test_a_missed_change_is_said_for_good(shown):
    words = "Files are not watched any more, because watching missed a change once: each snapshot looks at all of them."
    assert shown(watch_alarms=1, watching={"how": "off", "why": "a walk found a change in 'a\u202eb'"}) == words
    assert shown(State.PAUSED) == words


def test_nothing_is_said_while_it_is_not_up(shown):
    assert shown(State.PAUSED) == ""
