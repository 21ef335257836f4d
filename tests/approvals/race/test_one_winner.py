"""Two to five reviewers at one instant: one winner each time, and everybody else hears who it was."""

import threading
import uuid

import pytest

from tests.approvals.race.conftest import RACES

EDITED = {"command": "git push origin staging"}


def ask(product) -> dict:
    body = {"tool": "Bash", "arguments": {"command": f"git push origin {uuid.uuid4().hex}"}}
    return product.post("/api/v1/actions", product.agents[0], body).json


def at_once(calls) -> list:
    """The answers of all calls, let go at one instant."""
    gate, answers = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place, call):
        gate.wait()
        answers[place] = call()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def decision(product, action, reviewer: int, verdict: str):
    body = {"verdict": verdict, "digest": action["digest"]} | ({"arguments": EDITED} if verdict == "edit" else {})
    return lambda: product.post(f"/api/v1/actions/{action['id']}/decision", product.reviewers[reviewer], body)


@pytest.mark.parametrize(
    "verdicts",
    [
        ("approve", "deny"),
        ("approve", "edit"),
        ("edit", "edit", "deny"),
        ("approve", "approve", "deny", "deny"),
        ("approve", "deny", "edit", "approve", "deny"),
    ],
    ids="-".join,
)
def test_one_of_many_reviewers_decides_and_the_others_learn_who(crowded, verdicts):
    for _ in range(RACES):
        action = ask(crowded)
        answers = at_once([decision(crowded, action, n, verdict) for n, verdict in enumerate(verdicts)])
        statuses = [answer.status for answer in answers]
        assert sorted(statuses) == [200] + [409] * (len(verdicts) - 1), [answer.body for answer in answers]
        first = statuses.index(200)
        winner = (verdicts[first], f"reviewer-{first}")
        losers = [answer.json["winner"] for answer in answers if answer.status == 409]
        assert [(won["verdict"], won["by"]) for won in losers] == [winner] * len(losers)
        ended = crowded.get(f"/api/v1/actions/{action['id']}", crowded.agents[0]).json
        assert (ended["decision"]["verdict"], ended["decision"]["by"]) == winner
        assert ended["status"] == ("denied" if verdicts[first] == "deny" else "approved")


def test_a_decision_against_the_agent_taking_it_back(crowded):
    for _ in range(RACES):
        action = ask(crowded)
        take_back = f"/api/v1/actions/{action['id']}/cancel"
        decided, withdrawn = at_once(
            [
                decision(crowded, action, 0, "deny"),
                lambda path=take_back: crowded.post(path, crowded.agents[0]),
            ]
        )
        assert sorted([decided.status, withdrawn.status]) == [200, 409], (decided.body, withdrawn.body)
        status = crowded.get(f"/api/v1/actions/{action['id']}", crowded.agents[0]).json["status"]
        assert status == ("denied" if decided.status == 200 else "cancelled")


def test_an_approval_is_collected_once(crowded):
    for _ in range(RACES):
        action = ask(crowded)
        assert decision(crowded, action, 0, "approve")().status == 200
        path, body = f"/api/v1/actions/{action['id']}/consume", {"digest": action["digest"]}
        answers = at_once([lambda p=path, b=body: crowded.post(p, crowded.agents[0], b)] * 4)
        assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
        assert {answer.json["code"] for answer in answers if answer.status == 409} == {"already_consumed"}


def test_the_same_key_at_one_instant_is_one_action(crowded):
    for _ in range(RACES):
        key, body = uuid.uuid4().hex, {"tool": "Bash", "arguments": {"command": f"git push {uuid.uuid4().hex}"}}
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}

        def post(body=body, headers=headers):
            return crowded.post("/api/v1/actions", crowded.agents[0], body, headers=headers)

        answers = at_once([post] * 4)
        assert sorted(answer.status for answer in answers) == [200, 200, 200, 201]
        assert len({answer.json["id"] for answer in answers}) == 1


def test_two_votes_of_one_critical_action_are_both_counted(crowded):
    for _ in range(RACES):
        body = {"tool": "Bash", "arguments": {"command": "git push --force origin main"}}
        action = crowded.post("/api/v1/actions", crowded.agents[0], body).json
        assert action["quorum"] == 2
        answers = at_once([decision(crowded, action, n, "approve") for n in (0, 1)])
        assert [answer.status for answer in answers] == [200, 200]
        ended = crowded.get(f"/api/v1/actions/{action['id']}", crowded.agents[0]).json
        assert (ended["status"], ended["votes"]) == ("approved", 2)
