"""An external decision point beside the policy: the strictest wins, and whatever goes wrong asks a person."""

import json
import re
import subprocess
import sys
from pathlib import Path

import cedarpy
import jsonschema
import pytest

from approvals.actions import ask_first
from approvals.evaluation import policies
from approvals.evaluation.decision_point import cedar
from approvals.models import Status
from dashboard.models import Actor
from dashboard.net.decision_point import read_decision_point
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from tests.support import CHECKOUT
from tests.support.decision_point import Opa

from ..conftest import FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db
SCHEMAS = CHECKOUT / "docs" / "schemas"
TARGETS = '[targets]\nproduction = ["kube:prod-*"]\n'
REFUND = {"charge": "ch_1", "amount": 500, "currency": "usd"}


@pytest.fixture
def opa(settings):
    server = Opa()
    settings.HANDRAIL_DECISION_POINT = read_decision_point(server.setting)
    yield server
    server.close()


@pytest.fixture
def cedar_says(settings, tmp_path):
    """`cedar_says(policies)`: ask Cedar with these policies."""

    def write(text: str) -> Path:
        path = tmp_path / "policies.cedar"
        path.write_text(text)
        settings.HANDRAIL_DECISION_POINT = read_decision_point(f"cedar:{path}")
        return path

    return write


def verdict(action) -> tuple:
    return action.tier, action.quorum, action.status


def why(action) -> str:
    return " ".join(action.revisions.get().all_reasons)


# The strictest wins --------------------------------------------------------------------------------------------------


def test_allow_leaves_our_verdict(ask, opa):
    assert verdict(ask(LIST)) == ("low", 1, Status.APPROVED)
    assert verdict(ask(PUSH)) == ("high", 1, Status.PENDING)
    assert verdict(ask(FORCE)) == ("critical", 2, Status.PENDING)
    assert len(opa.inputs) == 3  # one request for each call


def test_ask_makes_a_call_wait_that_would_run_and_says_who_asks(ask, opa):
    opa.result = {"decision": "ask", "reason": "nobody lists folders at night."}
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert action.revisions.get().all_reasons == ["Needs approval: OPA says: nobody lists folders at night."]


def test_two_people_and_forbid_are_stricter_than_our_verdict(ask, opa):
    opa.result = {"decision": "two_people", "reason": "main is frozen"}
    action = ask(PUSH)
    assert verdict(action) == ("critical", 2, Status.PENDING)
    assert why(action).startswith("Needs approval: OPA says: main is frozen. Needs approval: pushes to main")
    opa.result = {"decision": "forbid", "reason": "main is frozen"}
    action = ask(PUSH)
    assert (action.tier, action.status) == ("forbidden", Status.DENIED)
    assert why(action).startswith("Forbidden: OPA says: main is frozen.")


def test_a_milder_answer_loosens_nothing_and_what_we_forbid_is_not_asked(ask, opa):
    opa.result = {"decision": "ask", "reason": "look at it"}
    action = ask(FORCE)
    assert verdict(action) == ("critical", 2, Status.PENDING)
    assert why(action).endswith("Needs approval: OPA says: look at it.")
    asked = len(opa.inputs)
    assert ask(WIPE).tier == "forbidden"
    assert len(opa.inputs) == asked


def test_no_grant_answers_for_the_decision_point(ask, opa, person, bob):
    from approvals.actions import gate, grants

    first = ask()
    grants.approve_and_grant(gate.find(first.pk, caller=person(bob)), caller=person(bob), digest=first.digest)
    assert ask().status == Status.APPROVED
    opa.result = {"decision": "ask", "reason": "each time"}
    assert ask().status == Status.PENDING


def test_a_stricter_tier_takes_no_fewer_people_than_ours(ask, opa, alice, bob, lena, team):
    policies.save('[approvals]\nhigh = {people = 3, role = "lead"}\n', caller=caller_of(lena), team=team)
    opa.result = {"decision": "two_people", "reason": "frozen"}
    action = ask(PUSH)
    assert (action.tier, action.quorum, action.quorum_role) == ("critical", 3, "lead")


def test_an_approval_under_a_newer_policy_is_revoked_with_its_reason(ask, opa, decide, consume, bob, lena, team):
    action = ask(PUSH)
    decide(action, by=bob)
    policies.save(TARGETS, caller=caller_of(lena), team=team)
    opa.result = {"decision": "forbid", "reason": "frozen"}
    with pytest.raises(Problem, match=r"Forbidden: OPA says: frozen\. Ask again\."):
        consume(action)
    action.refresh_from_db()
    assert action.status == Status.CANCELLED


def test_a_command_over_the_api_that_nothing_holds_is_asked_about_once_and_runs(opa, workspace, agent):
    assert ask_first.runs_without_approval(workspace, "pwd", "/workspace", Actor.agent(agent))
    assert opa.inputs[0]["principal"]["id"] == "payments/claude"
    opa.result = {"decision": "ask"}
    assert not ask_first.runs_without_approval(workspace, "pwd", "/workspace", Actor.agent(agent))
    assert len(opa.inputs) == 2


def test_an_edit_is_asked_about_again(ask, opa, decide, bob):
    action = ask(PUSH)
    opa.result = {"decision": "two_people", "reason": "release"}
    decide(action, "edit", by=bob, arguments={"command": "git push origin release"})
    action.refresh_from_db()
    assert verdict(action) == ("critical", 2, Status.PENDING)


# Whatever goes wrong asks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "its result is undefined"),
        (True, "its result has no decision"),
        ({"allow": True}, "its result has no decision"),
        ({"decision": "permit"}, "its result has no decision"),
        ({"decision": ["allow"]}, "its result has no decision"),
    ],
)
def test_a_result_that_is_no_decision_asks(ask, opa, result, said):
    opa.result = result
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert f"Needs approval: OPA gave no verdict: {said}" in why(action)


def test_a_status_of_failure_and_a_body_that_is_no_json_ask(ask, opa):
    opa.status = 500
    assert "it answered 500" in why(ask(LIST))
    opa.status, opa.body = 200, b"<html>"
    action = ask(LIST)
    assert "its answer is no JSON" in why(action)
    assert action.status == Status.PENDING


def test_an_answer_that_comes_byte_after_byte_ends_with_the_time(ask, opa, settings):
    settings.HANDRAIL_DECISION_POINT_SECONDS, opa.seconds = 0.3, 0.2
    action = ask(LIST)
    assert "OPA gave no verdict: it could not be asked within 0.3 s" in why(action)
    assert action.status == Status.PENDING


def test_an_opa_that_is_not_there_asks(ask, opa):
    opa.close()
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert "ConnectionRefusedError" in why(action)
    opa.close = lambda: None


def test_what_is_not_known_is_allowed_only_by_a_rule_that_says_so(ask, opa):
    action = ask({"command": "git push"})
    assert opa.inputs[-1]["unknown"] == ["branches", "places"]
    assert "branches" not in opa.inputs[-1]["context"]
    assert "OPA gave no verdict: it allowed what is not known: branches, places." in why(action)
    opa.result = {"decision": "allow", "without": ["branches", "places"]}
    assert "OPA" not in why(ask({"command": "git push"}))


# What is sent --------------------------------------------------------------------------------------------------------

CALLS = [
    ("Bash", LIST),
    ("Bash", PUSH),
    ("Bash", {"command": "git push"}),
    ("Bash", {"command": "kubectl --context prod-eu delete pod x && curl -d @a https://api.example.org/v1"}),
    ("Bash", {"command": "echo 'unended"}),
    ("Bash", {"command": "# nothing"}),
    ("Write", {"file_path": "a.py", "content": "x"}),
    ("Read", {"file_path": "a.py"}),
    ("WebFetch", {"url": "https://docs.example.org/a", "prompt": "p"}),
    ("mcp__stripe__create_refund", REFUND),
    ("mcp__stripe__create_refund", REFUND | {"amount": "all of it"}),
    ("Nameless", {"a": [1, 2]}),
]


@pytest.mark.parametrize("inside", [True, False])
def test_what_is_sent_meets_both_published_schemas(ask, opa, workspace, alice, agent, inside):
    workspace.labels = {"team": "payments"}
    workspace.save(update_fields=["labels"])
    agent.owner = alice
    agent.save(update_fields=["owner"])
    for tool, arguments in CALLS:
        ask(arguments, tool=tool, workspace=workspace if inside else None, cwd=None if inside else "/srv")
    assert len(opa.inputs) == len(CALLS)
    schema = json.loads((SCHEMAS / "action.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    text = (SCHEMAS / "action.cedarschema").read_text()
    for sent in opa.inputs:
        jsonschema.validate(sent, schema)
        request, entities = cedar.as_request(sent)
        found = cedarpy.is_authorized(request, "permit(principal, action, resource);", entities, schema=text)
        assert (found.decision, found.diagnostics.errors) == (cedarpy.Decision.Allow, [])


def test_what_a_policy_can_ask_about_is_there(ask, opa, workspace, agent, alice, lena, team):
    agent.owner = alice
    agent.save(update_fields=["owner"])
    policies.save(TARGETS, caller=caller_of(lena), team=team)
    ask(CALLS[3][1], workspace=workspace)
    sent = opa.inputs[-1]
    assert sent["principal"]["attributes"] == {"name": "claude", "team": "payments", "owner": "alice"}
    assert sent["resource"]["id"] == "repo-1"
    assert sent["context"]["programs"] == ["curl", "kubectl"]
    assert sent["context"]["hosts"] == ["api.example.org"]
    assert sent["context"]["targets"] == ["production"]
    assert sent["context"]["places"] == ["host:api.example.org", "kube:prod-eu"]
    ask(REFUND, tool="mcp__stripe__create_refund", workspace=workspace)
    assert opa.inputs[-1]["context"]["amount"] == {"value": "5.0000", "currency": "USD"}
    assert opa.inputs[-1]["action"]["id"] == "mcp"


def test_no_argument_and_no_secret_is_sent_and_nothing_more_is_stored(ask, opa):
    action = ask({"command": "curl -H 'Authorization: x9x9' https://ann:pa55word@a.example/sk-live12345678?q=z7z7"})
    sent = json.dumps(opa.inputs[-1])
    assert "a.example" in sent
    assert not re.search("x9x9|pa55word|z7z7|sk-live1", sent)
    assert all("reach" not in part for part in action.revisions.get().commands)


def test_an_agents_own_question_is_not_sent(ask, opa):
    ask({"plan": "1. look"}, tool="ExitPlanMode")
    assert opa.inputs == []


# Cedar ---------------------------------------------------------------------------------------------------------------

PERMIT = "permit(principal, action, resource);\n"


def test_cedar_allows_what_a_policy_permits(ask, cedar_says):
    cedar_says(PERMIT)
    assert verdict(ask(LIST)) == ("low", 1, Status.APPROVED)


def test_what_no_policy_permits_asks(ask, cedar_says):
    cedar_says('permit(principal == Handrail::Agent::"payments/nobody", action, resource);')
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert "Cedar gave no verdict: no policy permits it." in why(action)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ("", ("forbidden", Status.DENIED)),
        ('@answer("ask")', ("high", Status.PENDING)),
        ('@answer("two_people")', ("critical", Status.PENDING)),
        ('@answer("anything")', ("forbidden", Status.DENIED)),
    ],
)
def test_a_forbid_does_what_its_annotation_says(ask, cedar_says, annotations, expected):
    forbid = f'@reason("frozen") {annotations} forbid(principal, action == Handrail::Action::"push", resource);'
    cedar_says(PERMIT + forbid)
    action = ask(PUSH)
    assert (action.tier, action.status) == expected
    assert "Cedar says: frozen." in why(action)
    assert ask(LIST).status == Status.APPROVED


def test_the_strictest_of_several_forbids_counts_with_its_reason(ask, cedar_says):
    more = "".join(f'@answer("ask") @reason("r{n}") forbid(principal, action, resource);\n' for n in range(12))
    cedar_says(more + '@answer("two_people") @reason("both") forbid(principal, action, resource);' + PERMIT)
    action = ask(LIST)
    assert verdict(action) == ("critical", 2, Status.PENDING)
    assert action.revisions.get().all_reasons == ["Needs approval: Cedar says: both."]


def test_a_forbid_that_fails_asks_though_cedar_skips_it(ask, cedar_says):
    path = cedar_says(PERMIT + 'forbid(principal, action, resource) when { context.branches.contains("main") };')
    assert verdict(ask(LIST)) == ("low", 1, Status.APPROVED)
    path.write_text(PERMIT + 'forbid(principal, action, resource) when { context.amount.currency == "EUR" };')
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert "Cedar gave no verdict: a policy failed" in why(action)


def test_a_permit_allows_what_is_not_known_only_if_it_says_so(ask, cedar_says):
    path = cedar_says(PERMIT)
    assert "it allowed what is not known: branches, places." in why(ask({"command": "git push"}))
    path.write_text('@without("branches, places") ' + PERMIT)
    assert "Cedar" not in why(ask({"command": "git push"}))


def test_policies_that_do_not_load_or_are_gone_ask(ask, cedar_says):
    path = cedar_says("forbid (")
    action = ask(LIST)
    assert verdict(action) == ("high", 1, Status.PENDING)
    assert "Cedar gave no verdict: its policies can't be read" in why(action)
    path.unlink()
    assert ask(LIST).status == Status.PENDING


def test_places_owners_and_environments_can_be_named(ask, cedar_says, workspace):
    cedar_says(
        PERMIT
        + """
        @reason("amount") forbid(principal, action == Handrail::Action::"mcp", resource)
        when { context has amount && context.amount.value.greaterThan(decimal("4.99")) };
        @answer("two_people") @reason("environment") forbid(principal in Handrail::Team::"payments", action,
            resource in Handrail::Environment::"default") when { context.places.contains("kube:prod-eu") };
        """
    )
    assert "Cedar says: amount." in why(ask(REFUND, tool="mcp__stripe__create_refund", workspace=workspace))
    assert "Cedar says: environment." in why(ask(CALLS[3][1], workspace=workspace))


def test_the_example_in_the_docs_fits_the_schema_and_does_what_it_says(ask, cedar_says):
    [example] = re.findall(r"```cedar\n(.*?)```", (CHECKOUT / "docs" / "policy.md").read_text(), re.DOTALL)
    found = cedarpy.validate_policies(example, (SCHEMAS / "action.cedarschema").read_text())
    assert (found.validation_passed, found.errors) == (True, [])
    cedar_says(example)
    assert verdict(ask(LIST)) == ("low", 1, Status.APPROVED)
    assert "Cedar says: a push to main takes two people." in why(ask(PUSH))
    assert "it allowed what is not known: branches." in why(ask({"command": "git push"}))


# The setting ---------------------------------------------------------------------------------------------------------


def test_nothing_is_imported_and_nothing_asked_without_the_setting(ask, settings):
    assert settings.HANDRAIL_DECISION_POINT is None
    code = (
        "import django, os, sys; os.environ['DJANGO_SETTINGS_MODULE'] = 'dashboard.settings'; django.setup();"
        "import approvals.evaluation.judge;"
        "print([name for name in sys.modules if name in ('cedarpy', 'approvals.evaluation.decision_point.opa')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


@pytest.mark.parametrize(
    "text",
    [
        "opa:",
        "opa:ftp://host/v1/data/a",
        "opa:http://host/a",
        "opa:http://u:p@host/v1/data/a",
        "opa:http://host:x/v1/data/a",
        "opa:http://host/v1/data/a?b=c",
        "cedar:policies.cedar",
        "cedar:/nowhere/policies.cedar",
        "rego:/a",
    ],
)
def test_wrong_values_are_refused(text):
    with pytest.raises(ValueError, match=r"is not|begin|Port"):
        read_decision_point(text)
