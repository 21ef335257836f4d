"""An approval opens the hosts and ports of its card, for its program, as long as that runs."""

import os
import signal
import threading
import time
import uuid
from contextlib import suppress

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.workspaces.drivers.runs import IMAGES
from tests.workspaces.egress.grounds import OPEN, Server
from tests.workspaces.egress.test_workspace import fetch

# What an image without curl gets by that name.
CURL = """#!/usr/bin/python3
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[-1], timeout=20).read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.read().decode(), end="")
"""


class Approved:
    """An agent whose calls a reviewer approves, in one workspace of a driver."""

    def __init__(self, product, driver, require):
        self.product = product
        self.agent = Desk(product, product.agent_token(f"approved-{driver}"))
        self.agent.looks = 120
        self.reviewer = Desk(product, product.person_token("ruth", "reviewer"))
        drivers = {one["name"]: one for one in self.agent.get("/drivers").json["drivers"]}
        if not drivers[driver]["available"]:
            require(driver, drivers[driver]["reason"])
        image = {"image": IMAGES[driver]} if driver in IMAGES else {}
        lead = Desk(product, product.person_token("lena", "lead"))
        lead.post("/environments", {"name": driver, "driver": driver, "egress": {}, **image})
        made = self.agent.create(environment=driver)
        assert made["state"] == "ready", made
        self.key = made["key"]
        place = "~/.local/bin/curl"
        brings = f"command -v curl || {{ mkdir -p ~/.local/bin; cat > {place}; chmod +x {place}; }}"
        lead.run(self.key, f"{brings} <<'END'\n{CURL}END")

    def ask(self, command):
        wish = {"tool": "Bash", "arguments": {"command": command}, "workspace": self.key, "mode": "broker"}
        return self.agent.post("/actions", wish).json

    def approve(self, asked, **more):
        answer = {"verdict": "approve", "digest": asked["digest"], **more}
        self.reviewer.post(f"/actions/{asked['id']}/decision", answer, 200)

    def over(self, asked):
        for _ in range(36):
            action = self.agent.get(f"/actions/{asked['id']}?wait=5").json
            if action["status"] in ("succeeded", "failed", "uncertain", "cancelled"):
                return action
        raise AssertionError(action)

    def run(self, command, **more):
        asked = self.ask(command)
        assert asked["status"] == "pending", asked
        self.approve(asked, **more)
        return self.over(asked)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    hosts = tmp_path_factory.mktemp("names") / "hosts"
    hosts.touch()
    settings = {"HANDRAIL_EGRESS_HOSTS": str(hosts), "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16"}
    if engine := os.environ.get("HANDRAIL_TEST_DOCKER_HOST"):
        settings["HANDRAIL_DOCKER_HOST"] = engine
    made = Product(tmp_path_factory.mktemp("approved") / "home", HANDRAIL_HELD="1", **settings)
    made.lend_images()
    made.hosts = hosts
    made.start()
    yield made
    made.clean_up()


@pytest.fixture(scope="module", params=["sandbox", "docker", "microvm"])
def desk(request, product, require):
    return Approved(product, request.param, require)


@pytest.fixture
def named(product):
    def make(word):
        name = f"{word}-{uuid.uuid4().hex[:8]}.test"
        with product.hosts.open("a") as file:
            file.write(f"{OPEN} {name}\n")
        return name

    return make


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def test_the_host_and_port_of_the_card_are_reached_once_and_by_nobody_else(desk, named, server):
    good, other, port = named("good"), named("other"), server.port
    action = desk.run(f"{fetch(good, port)}; {fetch(good, port)} | tail -1")
    assert (action["status"], action["result"]["tail"]) == ("succeeded", "hellohello"), action
    # Not afterwards, nor another host or port than the card's.
    said = desk.agent.run(desk.key, f"{fetch(good, port)}; env | grep -c handrail: || true")
    assert b"Blocked by Handrail" in said
    assert said.endswith(b"0\n")
    code = f"import urllib.request; print(urllib.request.urlopen('http://{other}:{port}/').read())"
    action = desk.run(f'{fetch(good, port)}; echo "{code}" > x.py; python3 x.py | tail -1; true')
    assert {"kind": "connect", "what": f"{other}:{port}"} in action["blocked"]
    assert f"connect {other}:{port}" in action["result"]["note"]


def test_another_program_does_not_reach_it_meanwhile(desk, named, server):
    good, port = named("good"), server.port
    asked = desk.ask(
        f"{fetch(good, port)} && touch began && while ! test -e go; do sleep 0.1; done; {fetch(good, port)}"
    )
    desk.approve(asked)
    said = desk.agent.run(desk.key, f"while ! test -e began; do sleep 0.1; done; {fetch(good, port)}; touch go")
    assert b"hello" not in said
    assert b"Blocked by Handrail" in said
    assert desk.over(asked)["result"]["tail"] == "hellohello"


def test_a_call_that_the_agent_runs_itself_reaches_the_hosts_of_its_card_until_it_has_ended(desk, named, server):
    good, other, port = named("good"), named("other"), server.port
    command = f"{fetch(good, port)}; cat /proc/self/environ > /dev/null"
    answer = asked_by_a_hook(desk, command)
    given = answer["hookSpecificOutput"]["updatedInput"]["command"]
    assert given.endswith(f"\n{command}")
    # Run as the agent runs it, whose shell calls nothing holds.
    lead = Desk(desk.product, desk.product.person_token("lena", "lead"))
    assert lead.run(desk.key, given) == b"hello"
    assert b"hello" not in lead.run(desk.key, given.replace(good, other))
    assert b"hello" not in lead.run(desk.key, command)
    before = desk.product.part_pid("runner")
    os.kill(before, signal.SIGKILL)
    for _ in range(600):
        with suppress(Exception):  # it is between two runners
            if desk.product.part_pid("runner") != before and desk.product.get("/readyz").status == 200:
                break
        time.sleep(0.1)
    assert lead.run(desk.key, given) == b"hello"
    event = hook_event(command, "PostToolUse") | {
        "tool_input": {"command": given},
        "tool_response": {"stdout": "hello"},
    }
    desk.product.post(f"/hooks/claude-code?workspace={desk.key}", desk.agent.token, event)
    assert b"hello" not in lead.run(desk.key, given)
    action = next(one for one in desk.agent.get("/actions").json["actions"] if one["mode"] == "gate")
    assert action["status"] == "succeeded", action


def hook_event(command, name):
    return {
        "session_id": "s1",
        "cwd": "/workspace",
        "permission_mode": "default",
        "hook_event_name": name,
        "tool_name": "Bash",
        "tool_input": {"command": command},
        "tool_use_id": f"toolu_{abs(hash(command))}",
    }


def asked_by_a_hook(desk, command):
    """What the hook of an agent in the workspace is answered once a reviewer has approved its call."""
    answers = []

    def ask():
        path = f"/hooks/claude-code?workspace={desk.key}"
        answers.append(desk.product.post(path, desk.agent.token, hook_event(command, "PreToolUse")).json)

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive() and not (waiting := desk.reviewer.get("/actions?status=pending").json["actions"]):
        time.sleep(0.2)
    desk.approve(waiting[0])
    asking.join()
    return answers[0]
