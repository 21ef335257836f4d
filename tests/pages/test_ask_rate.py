"""How often people are asked, on the Desk and over the API."""

from datetime import timedelta

from approvals.models import Action, Decision, Tier
from approvals.reports.ask_rate import ask_rate
from dashboard.database import clock
from dashboard.site.measures.approvals import WAY
from tests.pages.conftest import tight


def test_asks_are_counted_per_call_and_per_active_hour(ask):
    now = clock.now()
    for number in range(3):
        ask({"command": f"echo {number}"})
    pushes = [ask({"command": f"git push origin b{number}"}) for number in range(2)]
    Action.objects.all().update(created_at=now.replace(minute=5) - timedelta(hours=5))
    Action.objects.filter(pk=pushes[0].pk).update(created_at=now.replace(minute=5) - timedelta(hours=9))
    assert ask_rate(Action.objects.all(), now) == {
        "days": 7,
        "calls": 5,
        "asked": 2,
        "active_hours": 2,
        "per_100_calls": 40.0,
        "per_active_hour": 1.0,
    }
    Action.objects.filter(pk=pushes[0].pk).update(created_at=now - timedelta(days=8))
    assert ask_rate(Action.objects.all(), now)["calls"] == 4


def test_without_a_call_the_rates_are_zero(db):
    found = ask_rate(Action.objects.all(), clock.now())
    assert (found["calls"], found["per_100_calls"], found["per_active_hour"]) == (0, 0.0, 0.0)


def test_the_api_says_it_and_the_desk_does_not(ask, browser_of, lena, agent_token):
    ask({"command": "pwd"})
    ask({"command": "git push origin main"})
    client = browser_of(lena)
    assert "asks per 100 calls" not in client.get("/").content.decode()
    assert '<dt>Asks per 100 calls</dt><dd><b class="figure">50</b>' in tight(client.get("/measures/").content.decode())
    told = client.get("/api/v1/policy/asks", headers={"Authorization": f"Bearer {agent_token}"}).json()
    assert (told["calls"], told["asked"], told["per_100_calls"], told["active_hours"]) == (2, 1, 50.0, 1)


def test_a_call_that_a_person_edited_down_counts_as_asked(ask, lena):
    push = ask({"command": "git push origin main"})
    revision = push.revisions.get()
    at = clock.now()
    Decision.objects.create(action=push, revision=revision, user=lena, verdict="edit", at=at, final=True)
    Action.objects.filter(pk=push.pk).update(tier=Tier.MEDIUM)
    assert ask_rate(Action.objects.all(), clock.now())["asked"] == 1
    row = Action.objects.annotate(way=WAY).get(pk=push.pk)
    assert row.way == "asked"
