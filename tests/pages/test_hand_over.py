"""Handing a workspace over: one page with snapshot, manifest, notes and open questions, for an agent or a person."""

import json

import pytest

from approvals.models import Channel, Delivery
from dashboard.database import clock
from dashboard.models import Agent, Event
from dashboard.people.tokens import make_token
from workspaces.models import HandOver, State, Workspace
from workspaces.services.notes import versions
from workspaces.services.notes.texts import NoteText, digest

from .conftest import PUSH

AT = "/w/payments/repo-task-1/"


@pytest.fixture
def paused(workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.PAUSED)
    workspace.refresh_from_db()
    by = {"type": "agent", "id": "1", "label": "builder"}
    versions.add(workspace, NoteText("Next: the tests.", digest("Next: the tests.")), by=by, days=None, given=True)
    return workspace


def test_a_person_is_handed_one_page_and_notified(browser_of, lena, bob, paused, ask, read):
    channel = Channel.objects.create(user=bob, label="ntfy", created_at=clock.now())
    action = ask(PUSH, workspace=paused)
    client = browser_of(lena)
    assert "Next: the tests." in read(client, f"{AT}hand-over/")
    sent = client.post(f"{AT}hand-over/", {"to": "person:bob", "message": "Start with the parser."})
    made = HandOver.objects.get()
    here = f"{AT}hand-overs/{made.pk}/"
    assert (sent.headers["Location"], made.snapshot_number, made.note.number) == (here, 2, 1)
    assert [(each["kind"], each["name"], each["url"]) for each in made.questions] == [
        ("approval", f"A-{action.number}", f"/actions/{action.pk}/")
    ]
    page = read(browser_of(bob), here)
    for words in ("Start with the parser.", "Next: the tests.", "Snapshot 2", f"A-{action.number} ", "to <b>bob</b>"):
        assert words in page, words
    delivery = Delivery.objects.get()
    assert (delivery.user, delivery.channel, delivery.text.endswith(here)) == (bob, channel, True)
    told = Event.objects.get(verb="workspace.handed_over")
    assert (told.data, told.actor_label) == (
        {"to": "bob", "type": "person", "snapshot": 2, "questions": 1, "notes": 1},
        "lena",
    )


def test_an_agent_is_bound_and_reads_it_by_the_api(paused, lena, team, alice, client, token_of):
    other = Agent.objects.create(team=team, name="finisher", owner=alice)
    token = make_token(team, agent=other)

    def call(method, path, token, body=None):
        answer = client.generic(
            method,
            f"/api/v1/workspaces/repo-task-1/hand-overs{path}",
            json.dumps(body or {}),
            content_type="application/json",
            headers={"Authorization": f"Bearer {token}"},
        )
        return answer.status_code, answer.json()

    assert call("GET", "", token)[0] == 404
    assert call("POST", "", token_of(lena), {"agent": "finisher", "message": "Go on."})[0] == 201
    status, listed = call("GET", "", token)
    assert (status, [each["to"]["label"] for each in listed["hand_overs"]]) == (200, [str(other)])
    whole = call("GET", f"/{listed['hand_overs'][0]['id']}", token)[1]
    assert (whole["notes"], whole["message"], whole["snapshot"]) == ("Next: the tests.", "Go on.", 2)
    assert list(paused.bound_agents.values_list("name", flat=True)) == ["finisher"]
    assert call("POST", "", token, {"person": "lena"})[0] == 403


@pytest.mark.parametrize("to", ["person:nobody", "agent:nobody", ""])
def test_nobody_and_strangers_are_refused(browser_of, lena, paused, mallory, to):
    browser_of(lena).post(f"{AT}hand-over/", {"to": to})
    browser_of(lena).post(f"{AT}hand-over/", {"to": "person:mallory"})
    assert HandOver.objects.count() == 0


def test_reviewers_hand_nothing_over_and_other_teams_see_nothing(browser_of, lena, bob, mallory, paused):
    assert browser_of(bob).post(f"{AT}hand-over/", {"to": "person:lena"}).status_code == 403
    browser_of(lena).post(f"{AT}hand-over/", {"to": "person:bob"})
    made = HandOver.objects.get()
    assert browser_of(mallory).get(f"{AT}hand-overs/{made.pk}/").status_code == 404
    assert browser_of(mallory).post(f"{AT}hand-over/", {"to": "person:bob"}).status_code == 404
