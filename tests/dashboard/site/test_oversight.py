"""The oversight report: figures from the rows, over page, API, CSV and signed files."""

import csv
import json
from datetime import timedelta
from io import StringIO

import pytest

from dashboard.database import clock
from dashboard.event_log import checkpoints
from dashboard.keys import log_key
from dashboard.models import Actor, Event
from dashboard.site.oversight.references import REFERENCES
from dashboard.site.oversight.tables import tables
from handrail_verify.__main__ import main
from tests.approvals.conftest import PUSH, ask, caller, decide, person  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db


@pytest.fixture
def decided(ask, decide, alice, bob, lena):  # noqa: F811
    """Bob approves one call at once and denies one; one is open."""
    decide(ask(PUSH), by=bob)
    decide(ask(PUSH), "deny", by=bob)
    ask(PUSH)


def report(client, **query):
    response = client.get("/api/v1/oversight", query)
    assert response.status_code == 200, response.content
    return response.json()


def test_answers_are_counted(decided, api, token_of, alice):
    found = report(api(token_of(alice)))
    counted = {name: found["decisions"][name] for name in ("approved", "edited", "sent_back", "denied", "count")}
    assert counted == {"approved": 1, "edited": 0, "sent_back": 0, "denied": 1, "count": 2}
    [high] = [row for row in found["by_tier"] if row["tier"] == "high"]
    assert (high["asked"], high["approved"], high["denied"]) == (3, 1, 1)
    assert found["reviewers"] == {"may_decide": 3, "decided": 1}


def test_an_approval_at_once_counts_as_quick(decided, api, token_of, alice):
    found = report(api(token_of(alice)))
    assert (found["attention"]["approvals"], found["attention"]["quick"], found["attention"]["quick_s"]) == (1, 1, 3)
    [bob] = found["by_person"]
    assert (bob["person"], bob["quick"], bob["approved"], bob["denied"]) == ("bob", 1, 1, 1)


def test_people_see_only_themselves_unless_they_lead(decided, api, token_of, alice, lena, bob, vera):
    seen = {
        one.username: [row["person"] for row in report(api(token_of(one)))["by_person"]]
        for one in (alice, lena, bob, vera)
    }
    assert seen == {"alice": ["bob"], "lena": ["bob"], "bob": ["bob"], "vera": []}


def test_stops_and_exceptions_come_from_the_log(team, api, token_of, alice):
    for verb in ("team.stopped", "agent.interrupted", "agent.interrupted", "grant.given", "policy.saved"):
        Event.objects.record(team, actor=Actor.person(alice), verb=verb, subject=team)
    found = report(api(token_of(alice)))
    assert found["stops"] == {"everything_stopped": 1, "agents_paused": 0, "agents_interrupted": 2}
    assert (found["exceptions"]["grants_given"], found["exceptions"]["policies_saved"]) == (1, 1)


def test_a_period_leaves_out_what_is_outside_of_it(decided, api, token_of, alice):
    before = (clock.now() - timedelta(days=1)).date().isoformat()
    found = report(api(token_of(alice)), **{"from": before, "to": before})
    assert (found["decisions"]["count"], found["calls"]["asked"], found["by_person"]) == (0, 0, [])
    assert (found["from"], found["to"]) == (before, before)


def test_it_names_the_newest_checkpoint_of_the_log(team, api, token_of, alice):
    Event.objects.record(team, actor=Actor.system("test"), verb="team.changed", subject=team)
    checkpoints.sign_all()
    found = report(api(token_of(alice)))["log"]
    assert (found["events"], found["checkpoint"]) == (1, checkpoints.as_download(checkpoints.newest(team)))


@pytest.mark.parametrize("kind", ["html", "pdf"])
def test_a_file_is_signed_and_a_changed_byte_is_found(decided, api, token_of, alice, tmp_path, capsys, kind):
    response = api(token_of(alice)).get(f"/api/v1/oversight?format={kind}")
    file = tmp_path / f"report.{kind}"
    file.write_bytes(response.content)
    key = log_key.public_key()
    assert main(["report", str(file), "--key", key]) == 0
    assert capsys.readouterr().out.startswith("signed and unchanged: ")
    half = len(response.content) // 2
    changed = bytes([response.content[half] ^ 1])
    file.write_bytes(response.content[:half] + changed + response.content[half + 1 :])
    assert (main(["report", str(file), "--key", key]), "It was changed" in capsys.readouterr().out) == (1, True)
    file.write_bytes(response.content)
    assert (main(["report", str(file), "--key", "A" * 43 + "="]), "another key" in capsys.readouterr().out) == (1, True)


def test_a_pdf_is_one_and_an_html_file_holds_the_figures(decided, api, token_of, alice):
    client = api(token_of(alice))
    assert client.get("/api/v1/oversight?format=pdf").content.startswith(b"%PDF-")
    page = client.get("/api/v1/oversight?format=html").content.decode()
    assert ("<td>bob</td>" in page, "Art. 14(4)(e)" in page, "C14.2" in page) == (True, True, True)


def test_csv_has_a_row_for_each_figure(decided, api, token_of, alice):
    text = api(token_of(alice)).get("/api/v1/oversight?format=csv").content.decode()
    rows = {(row["part"], row["row"], row["measure"]): row["value"] for row in csv.DictReader(StringIO(text))}
    assert rows["decisions", "", "approved"] == "1"
    assert rows["by_person", "bob", "quick"] == "1"
    assert rows["by_tier", "high", "asked"] == "3"


def test_a_name_that_no_font_of_a_pdf_has_is_escaped(decided, api, token_of, alice, team):
    team.name = "支付 Ünïon"
    team.save()
    assert api(token_of(alice)).get("/api/v1/oversight?format=pdf").content.startswith(b"%PDF-")


def test_the_page_shows_the_same_tables(decided, alice, browser_of):
    page = browser_of(alice).get("/oversight/").content.decode()
    for words in ("Answers of people", "Attention", "Requirements by name", "Art. 14(4)(b)", "bob"):
        assert words in page
    assert browser_of(alice).get("/oversight/html/").content.decode().count("<table>") == page.count("<table>")


def test_a_wrong_period_is_refused_in_words(alice, browser_of, api, token_of):
    assert "Write a date as 2026-11-24." in browser_of(alice).get("/oversight/?from=x").content.decode()
    assert browser_of(alice).get("/oversight/csv/?from=x").status_code == 422
    assert api(token_of(alice)).get("/api/v1/oversight?from=x").status_code == 422


def test_a_date_of_another_age_is_refused_in_words_that_fit(alice, browser_of):
    for query in ("from=0001-01-01&to=9999-12-31", "from=1999-01-01&to=1999-02-01"):
        assert "Write a year from 2000 to 2200." in browser_of(alice).get(f"/oversight/?{query}").content.decode()


def test_strangers_and_agents_get_no_report(team, mallory, browser_of, api, agent_token):
    assert browser_of(mallory).get("/oversight/?team=payments").status_code == 404
    assert api(agent_token).get("/api/v1/oversight").status_code == 403


def test_each_reference_points_to_parts_of_the_report(decided, api, token_of, alice):
    parts = {table.part for table in tables(json.loads(json.dumps(report(api(token_of(alice))))))}
    assert {part for reference in REFERENCES for part in reference.parts} <= parts
