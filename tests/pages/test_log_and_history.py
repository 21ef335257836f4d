"""What happened: History day by day, the log with its filters, its proof and its export."""

import json
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection

from approvals.audit import main as audit
from approvals.models import Action
from dashboard.database import clock
from dashboard.event_log import triggers
from dashboard.models import Event

from .conftest import FORCE, LIST, PUSH


@pytest.fixture(autouse=True)
def nothing_checked_before():
    cache.clear()


def test_history_has_days_and_outcomes(ask, decide, bob, browser_of, read):
    denied, listed = ask(PUSH), ask(LIST)
    decide(denied, "deny", by=bob)
    client = browser_of(bob)
    text = read(client, "/actions/")
    assert f'id="action-{denied.pk}"' in text
    assert f"day-{clock.now().date().isoformat()}" in text
    only = read(client, "/actions/?outcome=denied")
    assert f'id="action-{denied.pk}"' in only
    assert f'id="action-{listed.pk}"' not in only


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("tier=critical", "force"),
        ("person=bob", "push"),
        ("rule=nothing", ""),
        ("workspace=repo-task-1", "listed"),
        ("workspace=%00", ""),
        ("agent=nobody", ""),
        ("outcome=nonsense", ""),
        ("tier=nonsense", ""),
    ],
)
def test_history_is_narrowed(ask, decide, bob, browser_of, read, workspace, query, fits):
    found = {"push": ask(PUSH), "force": ask(FORCE), "listed": ask(LIST, workspace=workspace)}
    decide(found["push"], "deny", by=bob)
    text = read(browser_of(bob), f"/actions/?{query}")
    assert [name for name, action in found.items() if f'id="action-{action.pk}"' in text] == ([fits] if fits else [])


def test_history_goes_on_where_it_was_cut(ask, bob, browser_of, read):
    for number in range(52):
        action = ask({"command": f"echo {number}"})
        Action.objects.filter(pk=action.pk).update(created_at=clock.now() - timedelta(minutes=number))
    client = browser_of(bob)
    first = read(client, "/actions/")
    assert first.count('id="action-') == 50
    older = first.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert read(client, f"/actions/{older}").count('id="action-') == 2


def test_the_log_says_that_it_is_whole(ask, bob, browser_of, read, team):
    ask(PUSH)
    team.refresh_from_db()
    assert f"Log verified through event {team.event_seq}, checked at" in read(browser_of(bob), "/log/")


def test_the_log_says_which_event_was_changed(ask, bob, browser_of, read):
    ask(PUSH)
    triggers.remove(connection)
    Event.objects.filter(seq=2).update(actor_label="somebody else")
    triggers.install(connection)
    assert "Event 2 is missing or was changed." in read(browser_of(bob), "/log/")


def test_the_log_says_when_its_end_is_gone(ask, bob, browser_of, read, team):
    ask(PUSH)
    team.refresh_from_db()
    triggers.remove(connection)
    Event.objects.filter(seq=team.event_seq).delete()
    triggers.install(connection)
    assert f"Event {team.event_seq} is missing or was changed." in read(browser_of(bob), "/log/")


@pytest.mark.parametrize(
    ("query", "seen", "not_seen"),
    [
        ("verb=action.waiting", "Needs approval</a> </td>", "Asked to…</a> </td>"),
        ("actor=claude", "Asked to…</a> </td>", "Needs approval</a> </td>"),
        ("subject=A-1", "A-1", "A-2"),
        ("since=2090-01-01", "No events match these filters.", "A-1"),
        ("until=2001-01-01", "No events match these filters.", "A-1"),
        ("since=nonsense", "No events match these filters.", "A-1"),
        ("since=9999-12-31", "No events match these filters.", "A-1"),
        ("until=9999-12-31", "No events match these filters.", "A-1"),
        ("workspace=nowhere", "No events match these filters.", "A-1"),
        ("subject=A-99999999999999999999", "No events match these filters.", "A-1"),
    ],
)
def test_the_log_is_narrowed(ask, bob, browser_of, read, query, seen, not_seen):
    ask(PUSH)
    ask(FORCE)
    text = read(browser_of(bob), f"/log/?{query}")
    assert seen in text
    assert not_seen not in text.split("<tbody")[-1] if "<tbody" in text else True


def test_the_export_is_what_the_verifier_checks(ask, decide, bob, browser_of, tmp_path, capsys):
    decide(ask(PUSH), by=bob)
    response = browser_of(bob).get("/log/export/")
    assert response.headers["Content-Disposition"] == 'attachment; filename="handrail-payments-log.jsonl"'
    exported = tmp_path / "log.jsonl"
    exported.write_bytes(b"".join(response.streaming_content))
    lines = exported.read_text().splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, Event.objects.count() + 1))
    assert audit(["verify", str(exported)]) == 0
    assert capsys.readouterr().out.startswith("unproven: events 1 to ")


def test_a_filtered_export_says_so_and_verifies_as_far_as_it_goes(ask, decide, bob, browser_of, tmp_path, capsys):
    decide(ask(PUSH), by=bob)
    ask(FORCE)
    response = browser_of(bob).get("/log/export/?verb=action.submitted&actor=claude")
    assert response.headers["Content-Disposition"] == 'attachment; filename="handrail-payments-log-filtered.jsonl"'
    exported = tmp_path / "log.jsonl"
    exported.write_bytes(b"".join(response.streaming_content))
    note, *rows = [json.loads(line) for line in exported.read_text().splitlines()]
    assert note == {"filtered": {"verb": "action.submitted", "actor": "claude"}}
    assert [row["verb"] for row in rows] == ["action.submitted"] * 2
    assert audit(["verify", str(exported)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("filtered (verb=action.submitted, actor=claude): 2 of the events ")
    assert said.endswith("fit their own hashes; unproven: what was left out cannot be checked with this file\n")
    assert audit(["checkpoint", str(exported)]) == 1
    rows[1]["data"]["number"] = 99
    exported.write_text("".join(json.dumps(line) + "\n" for line in (note, *rows)))
    assert audit(["verify", str(exported)]) == 1
    assert "was edited" in capsys.readouterr().out


def test_another_teams_log_is_not_found(team, mallory, browser_of):
    assert browser_of(mallory).get("/log/export/?team=payments").status_code == 404


def test_the_feed_for_pages_without_a_socket(ask, bob, mallory, browser_of, team):
    ask(PUSH)
    team.refresh_from_db()
    assert browser_of(bob).get("/live?after=0").json() == {"upto": team.event_seq}
    assert browser_of(mallory).get("/live?after=0").json() == {"upto": 0}


def test_the_log_says_events_in_words_and_keeps_the_verb_as_a_tooltip(ask, bob, browser_of, read):
    ask()
    text = read(browser_of(bob), "/log/")
    assert '<a href="?verb=action.submitted" title="action.submitted">Asked to…</a>' in text
    assert '<a href="?verb=action.waiting" title="action.waiting">Needs approval</a>' in text
    assert '<option value="action.waiting" title="action.waiting"> Needs approval </option>' in text
    assert ">action.waiting<" not in text
    export = b"".join(browser_of(bob).get("/log/export/")).decode()
    assert '"verb":"action.waiting"' in export.replace(": ", ":")
