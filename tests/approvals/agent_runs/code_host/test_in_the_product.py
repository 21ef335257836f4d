"""A label to a merge with a real git server, a runner and a queue: both are killed once in each state."""

import os
import signal
import subprocess
from functools import partial

import pytest

from tests.support.code_host import TOKEN
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.task_host import TaskHost
from tests.support.waiting import until

LABEL = "agent"
GIT = "git -c user.name=A -c user.email=a@example.org"


@pytest.fixture
def host(tmp_path):
    bare, tree = tmp_path / "team" / "shop.git", tmp_path / "tree"

    def git(*args, cwd=tmp_path):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *args], cwd=cwd, check=True)

    git("init", "-q", "-b", "main", str(tree))
    (tree / "till.py").write_text("total = 0\n")
    git("add", ".", cwd=tree)
    git("commit", "-qm", "Begin", cwd=tree)
    git("clone", "-q", "--bare", str(tree), str(bare))
    git("config", "http.receivepack", "true", cwd=bare)
    made = TaskHost("gitea", tmp_path)
    yield made
    made.close()


@pytest.fixture
def product(tmp_path):
    running = Product(tmp_path / "product", HANDRAIL_PRIVATE_SOURCES="1")
    running.start()
    yield running
    running.clean_up()


def kill(product):
    """Kill the queue and the runner; the supervisor starts both again."""
    for part in ("queue", "runner"):
        os.kill(until(partial(_pid_of, product, part), within=120), signal.SIGKILL)


def _pid_of(product, part: str) -> int:
    try:
        return product.part_pid(part)
    except AssertionError:
        return 0  # the supervisor is about to start it again


def test_from_a_label_to_the_merge(product, host):
    lead, admin = (Desk(product, product.person_token(name, name)) for name in ("lead", "admin"))
    secret = f"CODE_HOST_127_0_0_1_{host.url.rpartition(':')[2]}"
    product.shell(
        "from dashboard.models import Actor, Team; from workspaces import secrets;"
        f"secrets.save(Team.objects.get(), '{secret}', 'host', '{TOKEN}', by=Actor.system('tests'))"
    )
    wish = {"address": host.address, "kind": "gitea", "label": LABEL, "attempts": [{}, {}]}
    source = lead.post("/task-sources", wish, 200).json
    admin.post("/host-accounts", {"person": "lead", "host": host.url, "login": "lead-at-host"}, 201)

    def wake(name: str):
        body, headers = host.webhook(source["secret"], name, about=name)
        assert product.post("/hooks/code-host/gitea", body=body, headers=headers.items()).json == {"new": True}

    def task() -> dict:
        found = lead.get("/tasks").json["tasks"]
        return lead.get(f"/tasks/{found[0]['id']}").json if found else {}

    def reaches(ask, name: str):
        wake(name)
        until(ask, within=240)

    number = host.issue("Round the till", "It rounds wrongly.")
    host.label(number, LABEL, "lead-at-host")
    kill(product)
    reaches(lambda: len(task().get("attempts", ())) == 2, "labelled")
    assert (task()["title"], task()["asked_by"]) == ("Round the till", "lead")
    key = task()["attempts"][0]["workspace"]
    lead.settled(key)
    lead.settled(task()["attempts"][1]["workspace"])
    lesson = "mkdir -p .handrail && printf '# Notes\\n\\n## Lesson\\n\\nRound half to even.\\n' > .handrail/notes.md"
    lead.run(key, f"echo 'total = 1' > till.py && {GIT} commit -qam 'Round' && {lesson}")
    kill(product)
    until(lambda: product.get("/readyz").status == 200, within=120)
    lead.post(f"/tasks/{task()['id']}/choose", {"attempt": 1}, 200)
    lead.post(f"/tasks/{task()['id']}/pull-request", {}, 200)
    kill(product)
    reaches(lambda: task()["thread"]["pull_request"], "opened")
    assert [(pull["head"], pull["title"]) for pull in host.pulls] == [(f"handrail/{key}", "Round the till")]
    assert host.pulls[0]["body"].endswith(f"Closes #{number}.")
    assert len(host.pulls) == 1
    sha = host.tip(f"handrail/{key}")
    host.status(sha, "ci", "failed", "till.py fails")
    reaches(lambda: task()["state"] == "checks failed", "failed")
    kill(product)
    host.status(sha, "ci", "passed")
    reaches(lambda: task()["state"] == "ready to review", "passed")
    host.merge(host.pulls[0]["number"], "lead-at-host")
    reaches(lambda: task()["state"] == "merged", "merged")
    kill(product)
    until(lambda: lead.get(f"/workspaces/{key}").json["state"] == "archived", within=240)
    until(lambda: lead.get("/lessons?state=proposed").json["lessons"], within=240)
    [offered] = lead.get("/lessons?state=proposed").json["lessons"]
    assert offered["text"] == "Round half to even."
    until(lambda: any(text.startswith("A lesson was proposed") for text in host.posts()), within=240)
    assert len([text for text in host.posts() if "have begun" in text]) == 1
    page = lead.product.shell(
        "from approvals.notify import messages; from django.contrib.auth import get_user_model;"
        "from dashboard.database import clock;"
        "print(messages.digest(get_user_model().objects.get(username='lead'), clock.now())[1])"
    )
    assert "1 task ended." in page
