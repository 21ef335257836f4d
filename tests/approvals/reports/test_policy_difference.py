"""What a changed policy newly allows, for all calls: classes with examples, over the API too."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.evaluation import policies
from approvals.policy import classify, read_policy
from approvals.policy.__main__ import answer
from approvals.policy.difference import WAYS, classes, conditions_of
from approvals.policy.shapes import arounds, cases
from approvals.reports.policy_changes import difference
from approvals.reports.policy_changes.scopes import Scope
from dashboard.models import Actor
from dashboard.people.access import caller_of
from workspaces.models import Environment

TARGETS = '[targets]\nproduction = ["kube:prod-*"]\nstaging = ["kube:staging", "db:*staging*"]\n'
LOW, HIGH = 'low = ["Bash(git push *)"]\n', 'high = ["Bash(git *)"]\n'


def compared(before: str, after: str):
    """Return the classes between two texts, judged here."""
    sides = [read_policy(text) for text in (before, after)]
    found = []
    for case in cases(*sides):
        verdicts = [classify(case[1], case[2], policy=policy, context=case[3]) for policy in sides]
        found.append((case, *([verdict.tier, verdict.rule] for verdict in verdicts)))
    return classes(found)


def newly(before: str, after: str) -> dict[str, list[str]]:
    """Return {shape: commands} of what the second text newly lets run."""
    shapes = compared(before, after)["newly_allowed"]
    return {each.shape: [str(next(iter(one["input"].values()))) for one in each.examples] for each in shapes}


def test_a_rule_that_allows_is_a_class_with_calls_that_it_covers():
    found = newly("", LOW)
    assert set(found) == {"Bash(git push *)", "git push origin main"}
    assert "git push" in found["Bash(git push *)"]


def test_a_rule_that_no_longer_asks_lets_run_what_the_mode_does():
    found = newly(HIGH, "")
    assert {"git status", "git log -3", "git commit -m x"} <= set(found)
    assert "git push origin topic" not in found


def test_a_target_and_a_class_of_calls_are_told_for_each_program():
    found = newly("", TARGETS + '[[when]]\ntarget = "staging"\nlow = ["writes"]\n')
    assert {"kubectl apply, at staging", "helm upgrade, at staging", "writes to a database, at staging"} <= set(found)
    assert not any("production" in shape for shape in found)


def test_what_becomes_stricter_or_needs_fewer_people_is_told_apart():
    found = compared('critical = ["Bash(git push *)"]\n', 'forbidden = ["Bash(ls)"]\n')
    assert "Bash(ls)" in {each.shape for each in found["stricter"]}
    assert "Bash(git push *)" in {each.shape for each in found["easier"]}
    assert found["newly_allowed"] == []


def test_a_condition_says_for_whom():
    before, after = (f'[[when]]\nagent = "{name}"\nhigh = ["Bash(ls)"]\n' for name in ("mia", "noa"))
    sides = [read_policy(text) for text in (before, after)]
    (shape,) = [each for each in compared(before, after)["newly_allowed"] if each.shape == "Bash(ls)"]
    contexts = [case[3] for case in cases(*sides)]
    assert conditions_of(shape, contexts) == {"agent": ["mia"]}


def test_contexts_are_those_that_conditions_tell_apart():
    text = '[[when]]\nagent = "a"\nhours = "9-17"\nhigh = ["calls"]\n[[when]]\nlabel = "x:y"\nhigh = ["calls"]\n'
    assert len(arounds((read_policy(""), read_policy("")))) == 1
    found = arounds((read_policy(""), read_policy(text)))
    assert {(each["agent"], bool(each["labels"])) for each in found} == {
        ("a", False), ("a", True), ("another agent", False), ("another agent", True)
    }  # fmt: skip
    assert len(found) == 8


RULES = [
    "Bash(git push *)",
    "Bash(npm publish *)",
    "Bash(ls)",
    "Edit(src/**)",
    "mcp__pay__refund",
    "WebFetch(domain:a.com)",
]
PARTS = [f'{tier} = ["{rule}"]' for tier in ("low", "high", "forbidden") for rule in RULES]
OTHER_CALLS = [
    ("Bash", {"command": "git push origin feature/9"}),
    ("Bash", {"command": "npm publish --access public"}),
    ("Bash", {"command": "ls"}),
    ("Edit", {"file_path": "src/deep/er/file.py", "new_string": "y"}),
    ("mcp__pay__refund", {"charge": "ch_9"}),
    ("WebFetch", {"url": "https://a.com/other"}),
    ("Bash", {"command": "cat notes.txt"}),
    ("Read", {"file_path": "notes.txt"}),
]


def of_parts(parts, mode):
    lists = {}
    for part in parts:
        tier, _, rule = part.partition(" = ")
        lists.setdefault(tier, []).append(rule.strip("[]"))
    return f'mode = "{mode}"\n' + "".join(f"{tier} = [{', '.join(rules)}]\n" for tier, rules in lists.items())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=4), st.lists(st.sampled_from(PARTS), max_size=4), st.data())
def test_no_call_is_newly_allowed_without_a_class_that_says_so(before, after, data):
    modes = st.sampled_from(["irreversible", "commands", "everything"])
    sides = [of_parts(before, data.draw(modes)), of_parts(after, data.draw(modes))]
    old, new = (read_policy(text) for text in sides)
    loosened = [
        call
        for call in OTHER_CALLS
        if WAYS[classify(*call, policy=new).tier] == 0 < WAYS[classify(*call, policy=old).tier]
    ]
    shapes = compared(*sides)["newly_allowed"]
    tools = {each["tool"] for shape in shapes for each in shape.examples}
    assert {tool for tool, _ in loosened} <= tools


@pytest.mark.django_db
def test_a_lead_asks_for_it_over_the_api_and_nothing_is_saved(post, token_of, lena, bob, team):
    body = {"text": TARGETS + '[[when]]\ntarget = "staging"\nlow = ["writes"]\n'}
    status, told = post(token_of(lena), "/api/v1/policies/diff", body)
    assert (status, told["cut_off"], told["judged"]) == (200, False, told["cases"])
    shapes = {each["shape"]: each for each in told["newly_allowed"]}
    apply = shapes["kubectl apply, at staging"]
    assert (apply["before"], apply["after"], apply["rule"]) == ("high", "low", "writes, where target staging")
    assert {"tool": "Bash", "input": {"command": "kubectl --context staging apply -f app.yml"}} in apply["examples"]
    assert post(token_of(bob), "/api/v1/policies/diff", body)[0] == 403
    assert post(token_of(lena), "/api/v1/policies/diff", {"text": "low = 1"})[0] == 422
    assert policies.active(team.pk).number == 1


@pytest.mark.django_db
def test_the_difference_for_an_environment_keeps_what_the_team_forbids(team, lena):
    web = Environment.objects.create(team=team, name="web", version=1)
    policies.save('forbidden = ["Bash(git push *)"]\n', caller=caller_of(lena), team=team)
    found = difference.of_text(Scope(team, web), LOW)
    assert not found.newly_allowed


@pytest.mark.django_db
def test_without_time_it_says_that_it_is_cut_off(team):
    found = difference.of_text(Scope(team), LOW, seconds=0)
    assert (found.judged, found.is_cut) == (0, True)


@pytest.mark.django_db
def test_a_call_is_tried_over_the_api_in_a_chosen_context(post, token_of, lena, bob, team):
    policies.save(
        TARGETS + '[[when]]\ntarget = "production"\ncritical = ["writes"]\n', caller=caller_of(lena), team=team
    )
    call = {"tool": "Bash", "input": {"command": "kubectl apply -f x.yml"}}
    status, told = post(token_of(lena), "/api/v1/policies/try", call | {"context": {"targets": ["production"]}})
    assert (status, told["tier"], told["targets"]) == (200, "critical", {"production": "certain"})
    text = TARGETS + '[[when]]\nagent = "mia"\ntarget = "staging"\nlow = ["writes"]\n'
    context = {"agent": "mia", "targets": ["staging"], "at": "2026-11-30T12:00:00Z"}
    assert post(token_of(lena), "/api/v1/policies/try", call | {"context": context, "text": text})[1]["tier"] == "low"
    assert post(token_of(bob), "/api/v1/policies/try", call)[0] == 403


@pytest.mark.django_db
def test_saving_over_the_api_answers_with_warnings(post, token_of, lena, team):
    text = 'low = ["Bash(kubectl apply *)"]\n[[when]]\nagent = "noone"\nhigh = ["calls"]\n'
    status, told = post(token_of(lena), "/api/v1/policies", {"text": text, "base": 0})
    assert status == 201
    assert [each.split(" ")[0] for each in told["warnings"]] == ["Bash(kubectl", "No"]


@pytest.mark.django_db
def test_a_table_that_takes_fewer_people_is_newly_allowed(post, token_of, lena, team):
    table = '[approvals]\ncritical = {people = 3, role = "lead"}\n'
    policies.add(team.pk, table, actor=Actor.system("test"))
    status, found = post(token_of(lena), "/api/v1/policies/diff", {"text": "[approvals]\ncritical = {people = 3}\n"})
    assert (status, [each["shape"] for each in found["newly_allowed"]]) == (
        200,
        ["approvals of critical calls: 3 people, a person who is lead → 3 people"],
    )
    (shape,) = found["newly_allowed"]
    assert (shape["before"], shape["after"], bool(shape["examples"])) == ("critical", "critical", True)
    assert post(token_of(lena), "/api/v1/policies/diff", {"text": table})[1]["newly_allowed"] == []
    found = post(token_of(lena), "/api/v1/policies/diff", {"text": table + 'high = {role = "admin"}\n'})[1]
    assert (found["newly_allowed"], [each["after"] for each in found["stricter"]]) == ([], ["high"])


@pytest.mark.django_db
def test_a_call_that_is_tried_says_who_approves_it(post, token_of, lena, team):
    call = {"tool": "Bash", "input": {"command": "git push --force origin main"}}
    call |= {"text": '[approvals]\ncritical = {people = 3, role = "lead"}\n'}
    takes = post(token_of(lena), "/api/v1/policies/try", call)[1]["takes"]
    assert takes == {"people": 3, "role": "lead", "groups": []}
    assert post(token_of(lena), "/api/v1/policies/try", call | {"input": {"command": "ls"}})[1]["takes"] is None


def test_decide_says_who_approves():
    call = {"tool": "Bash", "input": {"command": "git push"}, "policy": '[approvals]\nhigh = {group = "dba"}\n'}
    assert answer(json.dumps(call).encode())["takes"] == {"people": 1, "role": "", "groups": ["dba"]}
    assert answer(json.dumps(call | {"input": {"command": "ls"}}).encode())["takes"] is None
