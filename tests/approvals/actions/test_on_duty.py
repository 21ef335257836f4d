"""The condition on_duty: whether somebody of the team who may approve is on duty, by their own switch and hours."""

from datetime import time, timedelta

import pytest

from approvals.evaluation import duty, policies
from approvals.evaluation.judge import judge
from approvals.models import NotificationSettings
from approvals.policy import default_policy
from dashboard.database import clock
from dashboard.models import Actor, Membership, Role

from ..conftest import PUSH

pytestmark = pytest.mark.django_db
NIGHT = '\n[[when]]\non_duty = false\nforbidden = ["Bash(git push *)"]\n'


@pytest.fixture
def alone(team, bob):
    """Bob is the only one who may approve in the team."""
    Membership.objects.filter(team=team).exclude(user=bob).update(role=Role.VIEWER)
    policies.add(team.pk, default_policy() + NIGHT, actor=Actor.system("test"))
    return bob


def tier(team):
    return judge("Bash", PUSH, None, None, team.pk, agent="claude").tier


def test_who_has_set_nothing_is_on_duty(alone, team):
    assert tier(team) == "high"


def test_off_duty_when_switched_off_in_quiet_hours_or_for_this_team(alone, team):
    settings = NotificationSettings.objects.create(user=alone, on_duty=False)
    assert tier(team) == "forbidden"
    settings.on_duty = True
    now = clock.now()
    settings.quiet_from, settings.quiet_until = (now - timedelta(hours=1)).time(), (now + timedelta(hours=1)).time()
    settings.save()
    assert tier(team) == "forbidden"
    settings.quiet_from = settings.quiet_until = None
    settings.teams_off = [str(team.pk)]
    settings.save()
    assert tier(team) == "forbidden"


def test_a_viewer_on_duty_approves_nothing(alone, team, vera):
    NotificationSettings.objects.create(user=alone, on_duty=False)
    assert duty.people_on_duty(team, clock.now()) == []
    Membership.objects.filter(team=team, user=vera).update(role=Role.REVIEWER)
    assert (duty.people_on_duty(team, clock.now()), tier(team)) == ([vera], "high")


def test_one_s_own_switch_over_the_api(alone, team, api, token_of):
    client = api(token_of(alone))
    assert client.get("/api/v1/duty").json() == {"people": ["bob"]}
    wish = {"on_duty": False, "quiet_from": "22:00", "quiet_until": "07:00", "zone": "Europe/Berlin"}
    answer = client.put("/api/v1/me/duty", wish, content_type="application/json")
    assert answer.json() == wish | {"quiet_from": "22:00:00", "quiet_until": "07:00:00", "now": False}
    assert NotificationSettings.objects.get(user=alone).quiet_from == time(22)
    assert (client.get("/api/v1/duty").json(), tier(team)) == ({"people": []}, "forbidden")
    for wrong in ({"quiet_from": None}, {"zone": "Europe/Atlantis"}):
        assert client.put("/api/v1/me/duty", wish | wrong, content_type="application/json").status_code == 422


def test_an_agent_is_never_on_duty(team, api, agent_token):
    assert api(agent_token).get("/api/v1/duty").status_code == 403
