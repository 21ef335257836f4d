"""What ran without asking, ranked by what makes it worth a look, and marked as looked at."""

from datetime import timedelta

import pytest

from approvals.models import Action, Look, Revision
from approvals.reports import auto_approved
from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_of

from .conftest import LIST, PUSH

SINCE = "?since=today"


def judged(action, *commands, **fields):
    """Make the action one that ran, with these parts as the policy parsed them."""
    Revision.objects.filter(action=action).update(commands=list(commands))
    Action.objects.filter(pk=action.pk).update(**({"status": "succeeded", "tier": "low"} | fields))


def part(kind, *names, program="tool"):
    return {"kind": kind, "what": kind, "names": list(names), "words": [program], "cwd": "/workspace", "reason": kind}


@pytest.fixture
def ranking(alice):
    """`ranking()`: [(action, codes of its reasons)] in the order of the page."""

    def of():
        found, _ = auto_approved.ranked(caller_of(alice), clock.now() - timedelta(hours=1), None, looked=False)
        return [(each.action.pk, [why.value for why in each.why]) for each in found]

    return of


def test_the_weightiest_come_first_with_each_of_their_reasons(ask, ranking, workspace):
    quiet, outside, blocked, protected, network = (
        ask({"command": f"ls {number}"}, workspace=workspace) for number in range(5)
    )
    judged(quiet, part("", program="ls"))
    judged(outside, part("write", "/etc/motd", program="ls"), tier="medium")
    judged(blocked, part("run", program="ls"), blocked=[{"kind": "write", "what": "/srv"}])
    judged(protected, part("write", ".github/workflows/ci.yml", program="ls"))
    judged(network, part("network", program="ls"), status="failed")
    assert ranking() == [
        (blocked.pk, ["blocked"]),
        (protected.pk, ["protected"]),
        (outside.pk, ["outside", "medium"]),
        (network.pk, ["network", "failed"]),
        (quiet.pk, ["first"]),  # the first call of this agent that runs ls
    ]


def test_a_program_is_new_to_an_agent_once(ask, ranking):
    first, again, other = (ask({"command": f"ls {number}"}) for number in range(3))
    judged(first, part("run", program="/usr/bin/jq"))
    judged(again, part("run", program="jq"))
    judged(other, part("run", program="awk"))
    assert ranking() == [(other.pk, ["first"]), (first.pk, ["first"])]


def test_what_a_person_approved_is_not_in_it(ask, decide, bob, ranking):
    pushed = ask(PUSH)
    decide(pushed, by=bob)
    judged(pushed, part("network"), tier="high")
    assert ranking() == []


def test_the_page_names_reasons_and_takes_the_mark_with_its_event(ask, bob, browser_of, read):
    action = ask(LIST)
    judged(action, part("delete", "build"))
    client = browser_of(bob)
    text = read(client, f"/unasked/{SINCE}")
    assert '<span class="chip">deletes</span>' in text
    assert "1 of 1 is worth checking." in text
    answer = client.post("/unasked/looked/", {"action": [action.pk], "next": f"/unasked/{SINCE}"})
    assert (answer.status_code, answer["Location"]) == (302, f"/unasked/{SINCE}")
    assert Look.objects.get().user == bob
    event = Event.objects.get(verb="action.looked_at")
    assert (event.actor_label, event.subject_id) == ("bob", str(action.pk))
    assert "Nothing is left to check in this time." in read(client, f"/unasked/{SINCE}")
    assert "bob checked it" in read(client, f"/unasked/{SINCE}&show=looked")


def test_the_first_mark_stays(ask, alice, bob, browser_of):
    action = ask(LIST)
    judged(action, part("delete", "build"))
    for person in (bob, alice):
        browser_of(person).post("/unasked/looked/", {"action": [action.pk]})
    assert Look.objects.get().user == bob
    assert Event.objects.filter(verb="action.looked_at").count() == 1


def test_a_viewer_reads_it_and_may_not_mark(ask, vera, browser_of, read):
    action = ask(LIST)
    judged(action, part("delete", "build"))
    client = browser_of(vera)
    text = read(client, f"/unasked/{SINCE}")
    assert "deletes" in text
    assert "Mark all on this page as checked" not in text
    client.post("/unasked/looked/", {"action": [action.pk]})
    assert not Look.objects.exists()


def test_another_team_neither_sees_nor_marks_it(ask, mallory, browser_of, read):
    action = ask(LIST)
    judged(action, part("delete", "build"))
    client = browser_of(mallory)
    assert "A-1 " not in read(client, f"/unasked/{SINCE}")
    client.post("/unasked/looked/", {"action": [action.pk, "no-uuid"]})
    assert not Look.objects.exists()


def test_the_desk_leads_to_it(ask, bob, browser_of, read):
    ask(LIST)
    assert 'href="/unasked/?since=yesterday"' in read(browser_of(bob), "/")


def test_a_failing_test_of_an_agent_is_here_and_not_among_the_desks_problems(ask, decide, bob, browser_of, read):
    own, pushed = ask(LIST), ask(PUSH)
    decide(pushed, by=bob)
    Action.objects.update(status="failed", ended_at=clock.now())
    client = browser_of(bob)
    problems = read(client, "/").split('id="desk-wrong"')[1].split("</section>")[0]
    assert [f'id="action-{action.pk}"' in problems for action in (own, pushed)] == [False, True]
    assert '<span class="chip">failed</span>' in read(client, f"/unasked/{SINCE}")


def test_the_api_lists_and_marks(ask, bob, vera, token_of, client, agent_token):
    action = ask(LIST)
    judged(action, part("delete", "build"))
    headers = {"Authorization": f"Bearer {token_of(bob)}"}
    address = "/api/v1/unasked?since=2026-01-01T00:00:00Z"
    [row] = client.get(address, headers=headers).json()["actions"]
    assert (row["action"], row["reasons"], row["looked_by"]) == (str(action.pk), ["first", "deletes"], None)
    body = {"data": {"actions": [str(action.pk)]}, "content_type": "application/json"}
    for token in (token_of(vera), agent_token):
        refused = client.post("/api/v1/unasked/looked", headers={"Authorization": f"Bearer {token}"}, **body)
        assert refused.status_code == 403
    assert client.post("/api/v1/unasked/looked", headers=headers, **body).json() == {"marked": 1}
    assert client.get(address, headers=headers).json()["actions"] == []
    [row] = client.get(f"{address}&looked=true", headers=headers).json()["actions"]
    assert row["looked_by"] == "bob"
