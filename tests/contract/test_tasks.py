"""A task from its repository to the chosen attempt, over the API alone."""

import subprocess
import time

import pytest

from .conftest import as_promised

TASK = {"id": "str", "title": "str", "text": "str", "repository": "str", "base": "str", "environment": "str"}
TASK |= {"state": "str", "attempts": "list", "source": "str", "created_at": "time"}
ATTEMPT = {"workspace": "str", "state": "str", "checks": "list", "added": "int", "removed": "int", "cost": "int|float"}
ATTEMPT |= {"asks": "int"}


def commit(repository, text: str) -> str:
    git = ["git", "-C", str(repository), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    (repository / "till.txt").write_text(text)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", text], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(agent):
    folder = agent.product.sources / "till"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    commit(folder, "one\n")
    return folder


@pytest.fixture(scope="module")
def task(lead, repository) -> dict:
    about = {"name": "till", "checks": {"unit": "grep -q two till.txt"}}
    lead.post("/environments", about, 201)
    wish = {"title": "Mend the till", "text": "It says one.", "repository": str(repository), "base": "main"}
    wish |= {"environment": "till", "attempts": [{}, {}], "source": "till#1"}
    made = lead.post("/tasks", wish, 201).json
    assert lead.post("/tasks", wish).json["id"] == made["id"]
    for each in made["attempts"]:
        assert lead.settled(each["workspace"])["state"] == "ready"
    return lead.get(f"/tasks/{made['id']}").json


def test_a_task_has_the_promised_shape(lead, task):
    assert as_promised(task, TASK) == TASK
    assert [as_promised(each, ATTEMPT) for each in task["attempts"]] == [ATTEMPT, ATTEMPT]
    assert (task["state"], [each["added"] for each in task["attempts"]]) == ("working", [0, 0])
    assert task["id"] in [each["id"] for each in lead.get("/tasks").json["tasks"]]


def test_attempts_begin_with_one_commit(lead, task):
    keys = [each["workspace"] for each in task["attempts"]]
    assert {lead.get(f"/workspaces/{key}").json["source"]["sha"] for key in keys} == {task["commit"]}


def test_work_by_hand_is_judged_by_its_checks_and_chosen(lead, task):
    first, second = (each["workspace"] for each in task["attempts"])
    lead.call("PUT", f"/workspaces/{second}/files/till.txt", b"two\nthree\n", 200)
    for key in (first, second):
        made = lead.post(f"/workspaces/{key}/commands", {"command": "grep -q two till.txt", "check": "unit"}, 201).json
        lead.finished(made["id"])
    seen = lead.get(f"/tasks/{task['id']}").json
    assert [each["state"] for each in seen["attempts"]] == ["checks failed", "ready to review"]
    assert [each["checks"][0]["state"] for each in seen["attempts"]] == ["failed", "passed"]
    assert (seen["attempts"][1]["added"], seen["attempts"][1]["removed"]) == (2, 1)
    assert seen["state"] == "ready to review"
    beside = lead.get(f"/workspaces/{first}/beside/{second}").json
    assert [each["path"] for each in beside["files"]] == ["till.txt"]
    chosen = lead.post(f"/tasks/{task['id']}/choose", {"attempt": second}).json
    assert (chosen["chosen"], chosen["attempts"][0]["state"]) == (2, "thrown away")
    for _ in range(120):
        if lead.get(f"/tasks/{task['id']}").json["attempts"][0]["in_trash_until"]:
            break
        time.sleep(0.5)
    again = lead.post(f"/tasks/{task['id']}/choose", {"attempt": 1}).json
    assert (again["chosen"], again["attempts"][0]["in_trash_until"]) == (1, None)
