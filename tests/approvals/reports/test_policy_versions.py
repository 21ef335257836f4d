"""Versions of a policy over the API: listed, compared, made active again; what rules decided and which never do."""

import pytest

from approvals.evaluation import policies
from approvals.models import Policy
from dashboard.models import Event
from dashboard.people.access import caller_of
from workspaces.models import Environment

pytestmark = pytest.mark.django_db
FIRST, SECOND = 'mode = "commands"\n', 'mode = "everything"\nlow = ["Bash(ls)"]\n'


@pytest.fixture
def saved(team, lena):
    """Two versions of the team's policy."""
    for text, comment in ((FIRST, "start strict"), (SECOND, "ask for all")):
        policies.save(text, caller=caller_of(lena), team=team, comment=comment)


@pytest.fixture
def get(api, token_of):
    def of(user, path):
        response = api(token_of(user)).get(f"/api/v1/policies{path}")
        return response.status_code, response.json()

    return of


def test_versions_say_who_saved_each_and_why(saved, get, vera):
    status, body = get(vera, "/versions")
    assert status == 200
    assert [(each["number"], each["by"], each["comment"], each["active"]) for each in body["versions"]] == [
        (2, "lena", "ask for all", True),
        (1, "lena", "start strict", False),
    ]
    assert get(vera, "/versions/1")[1]["text"] == FIRST
    assert get(vera, "/versions/9")[0] == 404


def test_any_two_are_compared(saved, get, vera):
    status, body = get(vera, "/versions/1/difference?to=2")
    assert (status, body["additions"], body["deletions"]) == (200, 2, 1)
    assert body["unified"].splitlines() == [
        "--- policy.toml (version 1)",
        "+++ policy.toml (version 2)",
        "@@ -1 +1,2 @@",
        '-mode = "commands"',
        '+mode = "everything"',
        '+low = ["Bash(ls)"]',
    ]
    assert get(vera, "/versions/2/difference?to=1")[1]["additions"] == 1
    assert get(vera, "/versions/2/difference")[1]["unified"] == ""


def test_going_back_saves_the_old_text_as_the_next_version(saved, post, token_of, lena, bob, team):
    assert post(token_of(bob), "/api/v1/policies/versions/1/restore", {})[0] == 403
    status, body = post(token_of(lena), "/api/v1/policies/versions/1/restore", {})
    assert (status, body["number"], body["text"], body["comment"]) == (201, 3, FIRST, "Back to version 1")
    assert policies.active(team.pk).text == FIRST
    assert Event.objects.filter(verb="policy.saved").order_by("-seq").first().data["comment"] == "Back to version 1"


def test_an_agent_reads_and_saves_no_policy(saved, api, agent_token, post):
    assert api(agent_token).get("/api/v1/policies").status_code == 403
    assert post(agent_token, "/api/v1/policies", {"text": FIRST, "base": 2})[0] == 403
    assert Policy.objects.count() == 2


def test_a_lead_saves_the_next_version_and_hears_of_another_one(saved, post, token_of, lena, team):
    status, body = post(token_of(lena), "/api/v1/policies", {"text": FIRST, "base": 2, "comment": "back"})
    assert (status, body["number"], body["comment"]) == (201, 3, "back")
    assert post(token_of(lena), "/api/v1/policies", {"text": SECOND, "base": 2})[0] == 409
    assert post(token_of(lena), "/api/v1/policies", {"text": "low = 1", "base": 3})[0] == 422
    assert policies.active(team.pk).number == 3


def test_versions_of_an_environment_go_on_over_its_own_versions(team, lena, get):
    first = Environment.objects.create(team=team, name="web", version=1)
    policies.save(FIRST, caller=caller_of(lena), team=team, environment=first)
    policies.retire(first, actor=caller_of(lena).actor)
    second = Environment.objects.create(team=team, name="web", version=2)
    policies.save(SECOND, caller=caller_of(lena), team=team, environment=second)
    assert [each["number"] for each in get(lena, "/versions?environment=web")[1]["versions"]] == [2, 1]
    assert get(lena, "/versions/1?environment=web")[1]["text"] == FIRST
    assert policies.active(team.pk, first).text == SECOND
    assert get(lena, "/versions?environment=nowhere")[0] == 404


def test_rules_count_the_calls_that_they_decided(team, lena, ask, get):
    text = 'mode = "irreversible"\nhigh = ["Bash(git push *)", "Bash(npm test)"]\n'
    policies.save(text, caller=caller_of(lena), team=team)
    for branch in ("one", "two"):
        ask({"command": f"git push origin {branch}"})
    rules = get(lena, "/current")[1]["rules"]
    assert [(each["rule"], each["hits"]) for each in rules] == [("Bash(git push *)", 2), ("Bash(npm test)", 0)]


def test_rules_that_never_decide_name_the_one_before_them(team, lena, get):
    text = 'forbidden = ["Bash(git *)"]\nhigh = ["Bash(git push *)", "Bash(make *)"]\n'
    policies.save(text, caller=caller_of(lena), team=team)
    web = Environment.objects.create(team=team, name="web", version=1)
    policies.save('high = ["Bash(git fetch *)"]\n', caller=caller_of(lena), team=team, environment=web)
    of_team = {each["rule"]: each["shadowed_by"] for each in get(lena, "/current")[1]["rules"]}
    assert of_team == {"Bash(git *)": None, "Bash(git push *)": "Bash(git *)", "Bash(make *)": None}
    own = get(lena, "/current?environment=web")[1]["rules"]
    assert [(each["shadowed_by"], each["shadowed_in"]) for each in own] == [("Bash(git *)", "team: forbidden")]


def test_policies_are_listed_with_what_they_apply_to(team, lena, get, saved):
    web = Environment.objects.create(team=team, name="web", version=1)
    Environment.objects.create(team=team, name="data", version=1)
    policies.save(FIRST, caller=caller_of(lena), team=team, environment=web)
    found = get(lena, "")[1]["policies"]
    assert [(each["environment"], each["own"], each["version"]["number"]) for each in found] == [
        (None, True, 2),
        ("data", False, 2),
        ("web", True, 1),
    ]


def test_another_team_sees_its_own_policy_alone(saved, get, mallory):
    assert get(mallory, "/versions")[1] == {"versions": []}
    assert get(mallory, "/versions/1")[0] == 404
