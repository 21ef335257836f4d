"""The Actions rows of the contract, called as agents and people call them."""

import json
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Action, Status
from dashboard.models import Event
from dashboard.people.tokens import make_token

from .conftest import ACTIONS, FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db
WISH = {"tool": "Bash", "arguments": PUSH}


@pytest.fixture
def asked(post, agent_token):
    """One pending action, as the agent got it."""
    status, action = post(agent_token, ACTIONS, WISH)
    assert status == 201
    return action


def test_the_whole_loop(post, api, agent_token, token_of, bob):
    status, action = post(agent_token, ACTIONS, WISH | {"reasoning": "share it", "call_id": "c1"})
    assert (status, action["status"], action["tier"], action["decision"]) == (201, "pending", "high", None)
    assert action["reasons"] != []
    path = f"{ACTIONS}/{action['id']}"
    answer = {"verdict": "approve", "digest": action["digest"], "comment": "go"}
    status, decided = post(token_of(bob), f"{path}/decision", answer)
    assert (status, decided["status"], decided["votes"]) == (200, "approved", 1)
    seen = api(agent_token).get(f"{path}?wait=5").json()
    assert (seen["status"], seen["arguments"], seen["digest"]) == ("approved", PUSH, action["digest"])
    made = seen["decision"]
    assert (made["verdict"], made["by"], made["comment"], made["edited"]) == ("approve", "bob", "go", False)
    assert made["decided_at"].endswith("Z")
    assert post(agent_token, f"{path}/consume", {"digest": action["digest"]})[1]["status"] == "running"
    status, ended = post(agent_token, f"{path}/outcome", {"status": "succeeded", "note": "3 commits"})
    assert (status, ended["status"], ended["result"]["note"]) == (200, "succeeded", "3 commits")


def test_an_edit_is_what_the_agent_gets_to_run(post, api, agent_token, asked, token_of, bob):
    path = f"{ACTIONS}/{asked['id']}"
    instead = {"command": "git push origin review"}
    answer = {"verdict": "edit", "digest": asked["digest"], "arguments": instead}
    assert post(token_of(bob), f"{path}/decision", answer)[1]["status"] == "approved"
    seen = api(agent_token).get(path).json()
    assert (seen["arguments"], seen["decision"]["edited"], seen["decision"]["verdict"]) == (instead, True, "edit")
    assert seen["digest"] != asked["digest"]


def test_a_vote_short_of_the_quorum_is_pending(post, agent_token, token_of, bob):
    action = post(agent_token, ACTIONS, {"tool": "Bash", "arguments": FORCE})[1]
    answer = {"verdict": "approve", "digest": action["digest"]}
    status, voted = post(token_of(bob), f"{ACTIONS}/{action['id']}/decision", answer)
    assert (status, voted["status"], voted["votes"], voted["quorum"]) == (200, "pending", 1, 2)


def test_the_policy_decides_too(post, agent_token):
    allowed, denied = (post(agent_token, ACTIONS, {"tool": "Bash", "arguments": a})[1] for a in (LIST, WIPE))
    assert (allowed["status"], allowed["decision"]["by"], allowed["decision"]["verdict"]) == (
        "approved",
        "policy 1",
        "approve",
    )
    assert (denied["status"], denied["tier"], denied["decision"]["verdict"]) == ("denied", "forbidden", "deny")


def test_the_same_key_answers_with_the_action_as_it_is_now(post, agent_token, token_of, bob):
    status, first = post(agent_token, ACTIONS, WISH, **{"Idempotency-Key": "k"})
    post(token_of(bob), f"{ACTIONS}/{first['id']}/decision", {"verdict": "approve", "digest": first["digest"]})
    again_status, again = post(agent_token, ACTIONS, WISH, **{"Idempotency-Key": "k"})
    assert (status, again_status, again["id"], again["status"]) == (201, 200, first["id"], "approved")
    changed = post(agent_token, ACTIONS, WISH | {"reasoning": "other"}, **{"Idempotency-Key": "k"})
    assert (changed[0], changed[1]["code"], Action.objects.count()) == (422, "idempotency_conflict", 1)


def test_two_keys_are_two_actions(post, agent_token):
    first, second = (post(agent_token, ACTIONS, WISH, **{"Idempotency-Key": k})[1] for k in "ab")
    assert first["id"] != second["id"]


@pytest.mark.parametrize(("verdict", "code"), [("approve", "already_decided"), ("deny", "already_decided")])
def test_the_second_decision_gets_409_with_the_first(post, asked, token_of, bob, lena, verdict, code):
    path = f"{ACTIONS}/{asked['id']}/decision"
    post(token_of(bob), path, {"verdict": verdict, "digest": asked["digest"]})
    status, problem = post(token_of(lena), path, {"verdict": "approve", "digest": asked["digest"]})
    assert (status, problem["status"], problem["code"]) == (409, 409, code)
    assert {name: problem["winner"][name] for name in ("verdict", "by")} == {"verdict": verdict, "by": "bob"}


def test_the_codes_of_consume(post, agent_token, asked, token_of, bob):
    path = f"{ACTIONS}/{asked['id']}"

    def code(digest=asked["digest"]):
        status, problem = post(agent_token, f"{path}/consume", {"digest": digest})
        return status, problem.get("code")

    assert code() == (409, "not_approved")
    post(token_of(bob), f"{path}/decision", {"verdict": "approve", "digest": asked["digest"]})
    assert code("0" * 64) == (409, "digest_mismatch")
    assert code() == (200, None)
    assert code() == (409, "already_consumed")


def test_cancel(post, agent_token, asked):
    path = f"{ACTIONS}/{asked['id']}/cancel"
    for _ in range(2):
        status, action = post(agent_token, path)
        assert (status, action["status"]) == (200, "cancelled")


def test_lists_are_paged_and_filtered(post, api, agent_token):
    ids = [post(agent_token, ACTIONS, {"tool": "Bash", "arguments": a})[1]["id"] for a in (PUSH, LIST, FORCE)]

    def listed(query=""):
        answer = api(agent_token).get(f"{ACTIONS}{query}").json()
        return [action["id"] for action in answer["actions"]], answer["cursor"]

    assert listed() == (ids[::-1], None)
    assert listed("?status=pending")[0] == [ids[2], ids[0]]
    assert listed("?tier=critical")[0] == [ids[2]]
    assert listed("?workspace=none-such")[0] == []
    first, cursor = listed("?limit=2")
    second, end = listed(f"?limit=2&cursor={cursor}")
    assert (first + second, end) == (ids[::-1], None)


def test_a_list_takes_as_many_queries_for_three_as_for_one(post, api, agent_token):
    taken = []
    for more in (1, 2):
        for _ in range(more):
            post(agent_token, ACTIONS, WISH)
        with CaptureQueriesContext(connection) as queries:
            listed = api(agent_token).get(ACTIONS).json()["actions"]
        taken.append((len(listed), len(queries)))
    assert taken == [(1, taken[0][1]), (3, taken[0][1])]
    assert taken[0][1] <= 14


# Events ------------------------------------------------------------------------------------------------------------


def test_events_come_after_a_cursor(post, api, agent_token, asked, token_of, bob):
    page = api(token_of(bob)).get("/api/v1/events?after=0&limit=2").json()
    assert [e["id"] for e in page["events"]] == [1, 2]
    assert set(page["events"][0]) == {"id", "at", "actor", "verb", "subject", "workspace", "data", "hash"}
    rest = api(token_of(bob)).get(f"/api/v1/events?after={page['cursor']}").json()
    assert [e["verb"] for e in rest["events"]] == ["action.waiting"]
    assert rest["cursor"] == Event.objects.count()
    assert api(token_of(bob)).get(f"/api/v1/events?after={rest['cursor']}").json()["events"] == []


def test_an_agent_hears_of_its_own_asking_only(post, api, agent_token, asked, team):
    from dashboard.models import Agent

    other = make_token(team, agent=Agent.objects.create(team=team, name="codex"))
    assert api(other).get("/api/v1/events").json()["events"] == []
    verbs = [e["verb"] for e in api(agent_token).get("/api/v1/events").json()["events"]]
    assert verbs == ["action.submitted", "action.waiting"]


# Who may not -------------------------------------------------------------------------------------------------------

ROUTES = ["", "/decision", "/consume", "/outcome", "/cancel"]
BODIES = {
    "/decision": {"verdict": "approve", "digest": "0" * 64},
    "/consume": {"digest": "0" * 64},
    "/outcome": {"status": "failed"},
}


def call(api, token, path, route):
    client = api(token)
    if not route:
        return client.get(path)
    return client.post(path + route, json.dumps(BODIES.get(route)), content_type="application/json")


@pytest.mark.parametrize("route", ROUTES)
def test_what_another_team_owns_is_404(api, asked, other_agent_token, token_of, mallory, team, route):
    from dashboard.models import Agent

    of_the_team = make_token(team, agent=Agent.objects.create(team=team, name="codex"))
    for token in (other_agent_token, token_of(mallory), of_the_team):
        answer = call(api, token, f"{ACTIONS}/{asked['id']}", route)
        assert (answer.status_code, answer.json()["title"]) == (404, "Not found")
        assert call(api, token, f"{ACTIONS}/{uuid.uuid4()}", route).json() == answer.json()
    assert Action.objects.get().status == Status.PENDING


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_live_token_it_is_401(api, asked, route):
    for token in ("", "hr_00000000_nothing", "x" * 5000):
        answer = call(api, token, f"{ACTIONS}/{asked['id']}", route)
        assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")


def test_the_api_refuses_a_session_cookie(browser_of, bob, asked):
    assert browser_of(bob).get(f"{ACTIONS}/{asked['id']}").status_code == 401


def test_what_a_viewer_may(post, api, asked, token_of, vera):
    path, token = f"{ACTIONS}/{asked['id']}", token_of(vera)
    assert api(token).get(path).status_code == 200
    assert post(token, ACTIONS, WISH)[0] == 403
    assert post(token, f"{path}/decision", {"verdict": "approve", "digest": asked["digest"]})[0] == 403
    assert post(token, f"{path}/cancel")[0] == 403
    assert post(token, f"{path}/consume", {"digest": asked["digest"]})[0] == 403


# Bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, b""),
        (400, b"{"),
        (400, b"not json"),
        (400, b'{"tool": "Bash", "arguments": {"command": "\xff"}}'),
        (422, b"[]"),
        (422, b"{}"),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls", "command": "rm"}}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "\\ud800"}}'),
        (422, b'{"tool": "Bash", "arguments": {"n": NaN}}'),
        (422, b'{"tool": "Bash", "arguments": {"n": 1e400}}'),
        (422, b'{"tool": "Bash", "arguments": "ls"}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls\\u0000"}}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls"}, "cmd": 1}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls"}, "mode": "yolo"}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls"}, "mode": "broker"}'),
        (422, b'{"tool": "WebFetch", "arguments": {"url": "https://x"}, "mode": "broker"}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls"}, "expires_in_s": -1}'),
        (422, b'{"tool": "Bash", "arguments": {"command": "ls"}, "cwd": "../x"}'),
        (404, b'{"tool": "Bash", "arguments": {"command": "ls"}, "workspace": "no-such"}'),
        (422, b'{"tool": "Bash", "arguments": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ],
)
def test_what_makes_no_sense_gets_a_problem_and_changes_nothing(post, agent_token, status, body):
    got, problem = post(agent_token, ACTIONS, body)
    assert (got, problem["status"], bool(problem["detail"])) == (status, status, True)
    assert Action.objects.count() == 0


def test_ten_megabytes_are_too_large(post, agent_token):
    body = b'{"tool": "Bash", "arguments": {"command": "' + b"a" * 10_000_000 + b'"}}'
    assert post(agent_token, ACTIONS, body)[0] == 413
    assert post(agent_token, ACTIONS, body + b" " * 1_000_000)[0] == 413
    assert Action.objects.count() == 0


@pytest.mark.parametrize(
    ("status", "path"),
    [(422, "?status=sleeping"), (422, "?tier=mild"), (422, "?cursor=x"), (422, "?limit=0"), (422, "/not-a-uuid")],
)
def test_a_question_that_makes_no_sense_is_422(api, agent_token, status, path):
    assert api(agent_token).get(f"{ACTIONS}{path}").status_code == status


@pytest.mark.parametrize(
    "body",
    [
        {"verdict": "approve"},
        {"verdict": "approve", "digest": "short"},
        {"verdict": "perhaps", "digest": "0" * 64},
        {"verdict": "edit", "digest": "0" * 64},
        {"verdict": "edit", "digest": "0" * 64, "arguments": []},
    ],
)
def test_an_answer_that_makes_no_sense_is_422(post, asked, token_of, bob, body):
    assert post(token_of(bob), f"{ACTIONS}/{asked['id']}/decision", body)[0] == 422
    assert Action.objects.get().status == Status.PENDING
