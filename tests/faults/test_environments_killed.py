"""kill -9 of the runner while an ephemeral workspace is archived, and while a fork gets another environment."""

import uuid

from tests.faults.test_a_life_killed import Life, fire, noted


def environment(desk, **fields) -> str:
    name = f"killed-{uuid.uuid4().hex[:8]}"
    answer = desk.insist("POST", "/environments", desk.person, {"name": name, "driver": "sandbox"} | fields)
    assert answer.status == 201, answer.body
    return name


def test_the_changes_of_an_ephemeral_one_are_kept_once(desk, seed):
    life = Life(desk, {"environment": environment(desk, ephemeral=True)})
    life.make()
    folder = life.tree.parent
    with noted(seed, "archive, the runner killed at archive.changes_kept", desk):
        call = f"/workspaces/{life.key}/archive"
        reached = fire(desk, "archive.changes_kept", lambda: desk.call("POST", call, desk.agent))
        found = life.settled()
        reached()
        assert (found["state"], found["reason"]) == ("archived", ""), found
        kept = life.call("GET", "/artifacts").json["artifacts"]
        assert [each["name"] for each in kept] == [f"{life.key}-changes"]
        assert [entry.name for entry in folder.iterdir()] == ["programs"]
    desk.check(seed)


def test_a_fork_under_another_environment_is_whole(desk, seed):
    life = Life(desk, {})
    life.make()
    fork = Life(desk, {})
    wish = {"key": fork.key, "environment": environment(desk, setup="cat d/e/one > made")}
    with noted(seed, "fork, the runner killed at create.given", desk):
        call = f"/workspaces/{life.key}/fork"
        reached = fire(desk, "create.given", lambda: desk.call("POST", call, desk.agent, wish))
        found = fork.settled()
        reached()
        assert (found["state"], "Try again" in found["reason"]) == ("failed", True), found
        fork.call("POST", "/retry")
        found = fork.settled()
        assert (found["state"], found["environment"]) == ("ready", wish["environment"]), found
        fork.run("test one = $(cat made) && test -L d/e/link")
        kinds = [row["kind"] for row in fork.call("GET", "/snapshots").json["snapshots"]]
        assert (kinds[0], set(kinds[1:])) == ("setup", {"fork"})
    desk.check(seed)
