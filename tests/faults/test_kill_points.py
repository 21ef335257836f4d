"""kill -9 at K0–K9: what was accepted is pending or has one end, what was decided stays decided, nothing runs twice."""

import pytest

from tests.faults.armed_product import new_tag


def see_through(desk, action, tag):
    """Approve it and watch it run exactly once."""
    answer = desk.decide(action, "approve")
    assert answer.status == 200, answer.body
    if action["mode"] == "broker":
        assert desk.over(action["id"])["status"] == "succeeded"
        assert desk.runs_of(tag) == 1


@pytest.mark.parametrize("point", ["K0", "K1", "K2", "K3"])
def test_killed_while_it_is_asked(desk, chance, seed, one_round, point):
    tag, mode = new_tag(), chance.choice(["broker", "gate"])
    lost = desk.survives(point, lambda: desk.call("POST", "/actions", desk.agent, desk.wish(tag, mode), key=tag))
    assert isinstance(lost, OSError), lost
    assert desk.has_fired(point)
    action = desk.ask(tag, mode=mode)
    assert action["status"] == "pending"
    desk.tells(lambda: "/actions/" + action["id"] in desk.page("/waiting/"))
    see_through(desk, action, tag)
    desk.check(seed)


@pytest.mark.parametrize("point", ["K4", "K5"])
def test_killed_while_it_is_decided(desk, chance, seed, one_round, point):
    tag = new_tag()
    action = desk.ask(tag)
    verdict = chance.choice(["approve", "deny"])
    body = {"verdict": verdict, "digest": action["digest"]}
    address = f"/actions/{action['id']}/decision"
    lost = desk.survives(point, lambda: desk.call("POST", address, desk.person, body))
    assert isinstance(lost, OSError), lost
    assert desk.has_fired(point)
    again = desk.decide(action, verdict)
    if point == "K4":
        assert again.status == 200, again.body
    else:  # it was committed before the kill, and stays
        assert (again.status, again.json["winner"]["verdict"]) == (409, verdict)
        assert again.json["winner"]["by"] == "rita"
    assert desk.over(action["id"])["status"] == ("succeeded" if verdict == "approve" else "denied")
    assert desk.runs_of(tag) == (verdict == "approve")
    desk.check(seed)


@pytest.mark.parametrize("point", ["K6", "program.asked", "K7", "K8"])
def test_killed_while_it_is_carried_out(desk, chance, seed, one_round, point):
    tag = new_tag()
    action = desk.ask(tag, seconds=chance.choice([0, 0.2, 1]))
    desk.settled()  # the snapshot of its files comes to K6 as well
    answer = desk.survives(point, lambda: desk.decide(action, "approve"))
    assert answer.status == 200, answer.body
    ended = desk.over(action["id"])
    assert desk.has_fired(point)
    # The host process outlives the runner, so the next runner knows how it ended.
    assert (ended["status"], ended["result"]["exit_status"]) == ("succeeded", 0)
    assert desk.runs_of(tag) == 1
    desk.tells(lambda: "succeeded" in desk.action(action["id"])["status"])
    desk.check(seed)


def test_killed_before_the_agent_is_told_how_it_ended(desk, seed, one_round):
    tag = new_tag()
    action = desk.ask(tag)
    desk.decide(action, "approve")
    assert desk.over(action["id"])["status"] == "succeeded"  # the person may know before the agent
    lost = desk.survives("K9", lambda: desk.call("GET", f"/actions/{action['id']}", desk.agent))
    assert isinstance(lost, OSError), lost
    told = desk.insist("GET", f"/actions/{action['id']}", desk.agent).json
    assert (told["status"], desk.runs_of(tag)) == ("succeeded", 1)
    desk.check(seed)


def test_killed_before_the_agent_is_told_that_it_may(desk, seed, one_round):
    tag = new_tag()
    action = desk.ask(tag, mode="gate")
    desk.decide(action, "approve")
    address, body = f"/actions/{action['id']}/consume", {"digest": action["digest"]}
    lost = desk.survives("K9", lambda: desk.call("POST", address, desk.agent, body))
    assert isinstance(lost, OSError), lost
    again = desk.insist("POST", address, desk.agent, body)
    # Whether it ran is not known, so it is not allowed a second time.
    assert (again.status, again.json["code"]) == (409, "already_consumed")
    assert desk.action(action["id"])["status"] == "running"
    outcome = {"status": "failed", "note": "The answer was lost; it did not run."}
    assert desk.insist("POST", f"/actions/{action['id']}/outcome", desk.agent, outcome).status == 200
    desk.check(seed)
