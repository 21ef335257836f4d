"""What a changed policy would have done with last month's calls: judged before it is saved."""

from datetime import timedelta

import pytest

from approvals.evaluation import policies
from approvals.models import Action
from approvals.policy.people import least
from approvals.reports.policy_changes import effect
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.models import Actor
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from workspaces.models import Environment

pytestmark = pytest.mark.django_db
NOW = 'mode = "irreversible"\nforbidden = ["Bash(make deploy)"]\n'


@pytest.fixture
def calls(team, lena, ask, workspace):
    """Five calls: two pushes, one that runs, one that is forbidden, one that needs two people."""
    policies.save(NOW, caller=caller_of(lena), team=team)
    asked = ("git push origin a", "git push origin b", "ls", "make deploy", "git push --force origin main")
    return {command: ask({"command": command}, workspace=workspace) for command in asked}


def groups(found) -> dict:
    return {name: [change.action.title for change in changes] for name, changes in found.groups.items() if changes}


def numbers(found, name) -> list[int]:
    return [change.action.number for change in found.groups[name]]


def test_calls_are_grouped_by_what_would_change_for_a_person(calls, team):
    text = (
        'mode = "irreversible"\nforbidden = ["Bash(git push origin a)"]\nhigh = ["Bash(ls)"]\n'
        'low = ["Bash(git push origin b)", "Bash(make deploy)"]\ncritical = ["Bash(git status)"]\n'
    )
    found = effect.of_text(Scope(team), text, seconds=60)
    assert (found.of, found.judged, found.is_cut, found.same) == (5, 5, False, 1)
    assert {name: numbers(found, name) for name in effect.GROUPS} == {
        effect.FORBIDDEN: [calls["git push origin a"].number],
        effect.ASKED: [calls["ls"].number],
        effect.MORE_PEOPLE: [],
        effect.FEWER_PEOPLE: [],
        effect.ALLOWED_AGAIN: [],
        effect.RUNS: [calls["make deploy"].number, calls["git push origin b"].number],
    }
    assert (found.groups[effect.ASKED][0].before, found.groups[effect.ASKED][0].rule) == ("low", "Bash(ls)")


@pytest.mark.parametrize(
    ("before", "after", "group"),
    [
        ("low", "medium", None),
        ("medium", "high", effect.ASKED),
        ("medium", "critical", effect.ASKED),
        ("high", "critical", effect.MORE_PEOPLE),
        ("critical", "high", effect.FEWER_PEOPLE),
        ("critical", "low", effect.RUNS),
        ("forbidden", "high", effect.ALLOWED_AGAIN),
        ("forbidden", "medium", effect.RUNS),
        ("low", "forbidden", effect.FORBIDDEN),
    ],
)
def test_a_change_of_tier_belongs_to_one_group(before, after, group):
    assert effect.group_of(before, after, least({}, before), least({}, after)) == group


def test_calls_that_other_people_approve_are_grouped_by_the_table(calls, team, lena):
    strict = NOW + '[approvals]\nhigh = {people = 2, role = "lead"}\n'
    found = effect.of_text(Scope(team), strict, seconds=60)
    asked = numbers(found, effect.MORE_PEOPLE)
    assert asked == [calls["git push origin b"].number, calls["git push origin a"].number]
    (change, *_) = found.groups[effect.MORE_PEOPLE]
    assert (change.before, change.after, str(change.takes_after)) == ("high", "high", "2 people, a person who is lead")
    policies.add(team.pk, strict, actor=Actor.system("test"))
    looser = NOW + "[approvals]\nhigh = {people = 2}\n"
    assert numbers(effect.of_text(Scope(team), looser, seconds=60), effect.FEWER_PEOPLE) == asked


def test_the_same_text_changes_nothing(calls, team):
    found = effect.of_text(Scope(team), NOW + "# a comment\n", seconds=60)
    assert (found.judged, found.changed) == (5, 0)


def test_older_calls_and_those_of_another_team_are_left_out(calls, team, other_team):
    Action.objects.filter(pk=calls["ls"].pk).update(created_at=clock.now() - timedelta(days=31))
    assert effect.of_text(Scope(team), NOW, seconds=60).of == 4
    assert effect.of_text(Scope(other_team), NOW, seconds=60).of == 0


def test_without_time_it_says_that_it_is_cut_off(calls, team):
    found = effect.of_text(Scope(team), NOW, seconds=0)
    assert (found.judged, found.of, found.is_cut) == (0, 5, True)


def test_an_invalid_text_is_a_problem(calls, team):
    with pytest.raises(Problem) as refused:
        effect.of_text(Scope(team), "low = 1")
    assert refused.value.status == 422


def test_a_policy_of_the_environment_counts_only_what_the_team_forbids(calls, team, lena, workspace):
    own = Environment.objects.get(pk=workspace.environment_id)
    policies.save(NOW, caller=caller_of(lena), team=team, environment=own)
    asks_all = effect.of_text(Scope(team), 'mode = "everything"\n', seconds=60)
    assert groups(asks_all) == {}
    forbids = effect.of_text(Scope(team), 'forbidden = ["Bash(ls)"]\n', seconds=60)
    assert numbers(forbids, effect.FORBIDDEN) == [calls["ls"].number]


def test_the_effect_on_an_environment_keeps_the_teams_bans(calls, team, workspace):
    scope = Scope(team, workspace.environment)
    found = effect.of_text(scope, 'mode = "everything"\n', seconds=60)
    assert numbers(found, effect.ASKED) == [calls["ls"].number]
    assert found.groups[effect.ALLOWED_AGAIN] == []


def test_a_lead_asks_for_it_over_the_api_and_nothing_is_saved(calls, post, token_of, lena, bob, team):
    body = {"text": 'forbidden = ["Bash(git push *)"]\n'}
    status, told = post(token_of(lena), "/api/v1/policies/effect", body)
    assert (status, told["calls"], told["cut_off"], told["counts"]["forbidden"]) == (200, 5, False, 3)
    assert [each["number"] for each in told["changes"]["forbidden"]] == [
        calls[command].number for command in ("git push --force origin main", "git push origin b", "git push origin a")
    ]
    assert post(token_of(bob), "/api/v1/policies/effect", body)[0] == 403
    assert policies.active(team.pk).number == 1


def test_what_is_left_goes_on_over_the_api_until_it_is_complete(
    calls, api, post, token_of, lena, bob, mallory, monkeypatch
):
    monkeypatch.setattr(effect, "SECONDS", 0)
    status, first = post(token_of(lena), "/api/v1/policies/effect", {"text": 'forbidden = ["Bash(git push *)"]\n'})
    assert (status, first["judged"], first["cut_off"], first["counts"]["forbidden"]) == (200, 0, True, 0)
    monkeypatch.setattr(effect, "SECONDS", 60)
    address = f"/api/v1/policies/effect/{first['replay']}"
    assert api(token_of(bob)).get(address).status_code == 403
    assert api(token_of(mallory)).get(address).status_code == 404
    whole = api(token_of(lena)).get(address).json()
    assert (whole["judged"], whole["cut_off"], whole["counts"]["forbidden"]) == (5, False, 3)
    assert api(token_of(lena)).get(address).json() == whole
    assert api(token_of(lena)).get("/api/v1/policies/effect/x").status_code == 404


def test_a_replay_goes_on_where_it_stopped_and_counts_each_call_once(calls, team, monkeypatch):
    monkeypatch.setattr(effect, "PAGE", 2)
    whole = effect.of_text(Scope(team), 'mode = "everything"\n', seconds=60)
    replay = effect.Replay(Scope(team), 'mode = "everything"\n')
    seen = []
    while not replay.is_done:
        replay.advance(0.001)
        seen.append(replay.found.judged)
    assert seen == sorted(seen)
    assert (replay.effect().counts, replay.found.judged) == (whole.counts, 5)


def test_more_changes_than_are_listed_are_counted(calls, team, monkeypatch):
    monkeypatch.setattr(effect, "MAX_LISTED", 1)
    found = effect.of_text(Scope(team), 'forbidden = ["Bash(git push *)"]\n', seconds=60)
    assert (found.counts[effect.FORBIDDEN], numbers(found, effect.FORBIDDEN)) == (
        3,
        [calls["git push --force origin main"].number],
    )
