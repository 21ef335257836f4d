"""Where nothing can hold an agent's programs: what it starts over the API is judged as shell calls are, or asked."""

import asyncio
import uuid

import pytest

from dashboard.door.table import VERBS
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not
from tests.workspaces.terminals.viewers import Viewer

MAKES = 'bash -c "$(echo touch made)"'
UNHELD = {
    "sandbox": ({"driver": "sandbox"}, {"HANDRAIL_HELD": "0"}),
    "docker": ({"driver": "docker", "image": IMAGES["docker"]}, {"HANDRAIL_HELD": "1"}),
}
# What each verb that starts a program is asked to do here; the other two are the gate's own and rehearsals.
REQUESTS = {
    "POST /workspaces/{key}/commands": [
        {"command": MAKES},
        {"argv": ["python3", "-c", "import os; os.system('touch made')"]},
        {"command": "cat .env"},
        {"argv": ["bash", "-c", "echo x > .git/hooks/pre-commit"]},
        {"command": "ls", "env": {"LD_PRELOAD": "/workspace/x.so"}},
        {"command": "ls", "env": {"PATH": "/workspace/bin"}},
        {"command": "git push"},
    ],
    "POST /workspaces/{key}/terminals": [{}, {"argv": ["ls"]}, {"argv": ["bash", "-c", MAKES]}],
}
ELSEWHERE = {
    "POST /actions": "tests/approvals/broker/test_broker.py",
    "POST /actions/{action_id}/consume": "runs in the agent's own shell",
    "POST /hooks/{agent}": "runs in the agent's own shell",
    "POST /aap/v1/requests": "runs in the agent's own shell",
    "POST /aap/v1/requests/{pk}/consume": "runs in the agent's own shell",
    "POST /actions/{action_id}/rehearse": "tests/approvals/actions/test_rehearsals_elsewhere.py",
    "WS /ws/terminals/{id} type": "below",
    "POST /e2b/envd/process.Process/Start": "tests/approvals/protocols/e2b/test_held.py",
    "POST /e2b/envd/process.Process/SendInput": "tests/approvals/protocols/e2b/test_held.py",
    "POST /e2b/envd/process.Process/StreamInput": "tests/approvals/protocols/e2b/test_held.py",
    "POST /e2b/envd/process.Process/Update": "tests/approvals/protocols/e2b/test_held.py",
    "POST /e2b/envd/filesystem.Filesystem/MakeDir": "tests/approvals/protocols/e2b/test_held.py",
    "POST /e2b/envd/filesystem.Filesystem/Move": "tests/approvals/protocols/e2b/test_held.py",
}


class Unheld:
    """An agent and a lead of a product whose agents' programs nothing holds, and a workspace that is up."""

    def __init__(self, product, wish):
        self.product, self.wish = product, wish
        self.agent = Desk(product, product.agent_token("unheld-agent"))
        self.lead = Desk(product, product.person_token("unheld-lead", "lead"))
        self.key = self.agent.create(**wish)["key"]
        self.lead.run(self.key, "mkdir -p .git/hooks && echo KEY=canary > .env")

    def approve(self, action):
        answer = {"verdict": "approve", "digest": action["digest"]}
        self.lead.post(f"/actions/{action['id']}/decision", answer, expect=200)
        return until(lambda: self._ended(action["id"]))

    def _ended(self, pk):
        found = self.agent.get(f"/actions/{pk}").json
        return found if found["status"] in ("succeeded", "failed") else None

    def started(self):
        rows = [self.lead.get(f"/workspaces/{self.key}/{kind}").json[kind] for kind in ("commands", "terminals")]
        return [row["id"] for kind in rows for row in kind]


@pytest.fixture(scope="module", params=[*UNHELD])
def unheld(request, tmp_path_factory, require):
    wish, settings = UNHELD[request.param]
    if why := why_not(request.param, True):
        require(request.param, why)
    settings = settings | {"HANDRAIL_UNHELD": "ask", "HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"]}
    product = Product(tmp_path_factory.mktemp("unheld") / "home", **settings)
    product.start()
    try:
        yield Unheld(product, wish)
    finally:
        product.clean_up()


def test_each_verb_that_starts_a_program_is_tried():
    assert {name for name, verb in VERBS.items() if verb.unheld} == {*REQUESTS, *ELSEWHERE}


@pytest.mark.parametrize(("name", "wish"), [(name, wish) for name, wishes in REQUESTS.items() for wish in wishes])
def test_a_command_that_the_policy_asks_about_becomes_a_card(unheld, name, wish):
    before = unheld.started()
    told = unheld.agent.post(name.removeprefix("POST ").format(key=unheld.key), wish, expect=202).json
    assert (told["status"], told["action"]["tier"]) == ("pending", "high")
    assert unheld.started() == before
    unheld.lead.run(unheld.key, "test ! -e made")
    asked = unheld.agent.get(f"/actions/{told['action']['id']}").json
    if "terminals" in name:
        assert "terminal that nothing holds" in asked["reasons"][0]
    for variable, value in wish.get("env", {}).items():
        assert f"export {variable}={value}; " in asked["arguments"]["command"]


def test_a_workspace_that_is_being_created_refuses_as_ever(unheld):
    key = f"new-{uuid.uuid4().hex[:8]}"
    unheld.agent.post("/workspaces", {"key": key, "setup": "sleep 5", **unheld.wish})
    for kind, wish in (("commands", {"command": MAKES}), ("terminals", {})):
        told = unheld.agent.post(f"/workspaces/{key}/{kind}", wish, expect=409).json
        assert told["state"] in ("creating", "setting_up")
    unheld.agent.settled(key)


@pytest.mark.parametrize("wish", [{"command": "echo hi"}, {"argv": ["ls"]}, {"command": "ls", "env": {"A": "hi"}}])
def test_a_command_that_the_policy_allows_runs_at_once(unheld, wish):
    done = unheld.agent.finished(unheld.agent.post(f"/workspaces/{unheld.key}/commands", wish).json["id"])
    assert done["exit_status"] == 0


def test_an_approved_command_runs_once_and_its_repeat_names_it(unheld):
    headers, path = {"Idempotency-Key": uuid.uuid4().hex}, f"/workspaces/{unheld.key}/commands"
    wish = {"command": "echo $A >> .git/hooks/post-commit", "env": {"A": "once"}}
    asked = unheld.agent.post(path, wish, expect=202, headers=headers).json["action"]
    assert unheld.approve(asked)["status"] == "succeeded"
    made = unheld.agent.post(path, wish, headers=headers).json
    assert made["action"]["id"] == asked["id"]
    assert unheld.lead.run(unheld.key, "cat .git/hooks/post-commit") == b"once\n"


def test_a_person_is_not_asked(unheld):
    unheld.lead.run(unheld.key, 'python3 -c \'open("mine", "w")\' && rm mine')


def test_an_agent_types_into_a_terminal_that_a_person_approved_and_into_no_other(unheld):
    asked = unheld.agent.post(f"/workspaces/{unheld.key}/terminals", expect=202).json["action"]
    approved = unheld.approve(asked)["result"]["terminal"]
    opened = unheld.lead.post(f"/workspaces/{unheld.key}/terminals", {"argv": ["bash", "-c", "cat > typed"]}).json["id"]
    unheld.lead.call("PUT", f"/workspaces/{unheld.key}/terminals/{opened}/share", {"shared": True})

    async def main():
        async with Viewer(unheld.product, unheld.agent.token, opened, name="a") as viewer:
            await viewer.until(lambda seen: any(frame["type"] == "ready" for frame in seen.frames))
            assert viewer.frames[0]["read_only"] is True
        async with Viewer(unheld.product, unheld.agent.token, approved, name="a") as viewer:
            await viewer.until(lambda seen: any(frame["type"] == "ready" for frame in seen.frames))
            assert viewer.frames[0]["read_only"] is False
            await viewer.type(b"echo by-an-agent > by-an-agent; exit\n")
            await viewer.until(lambda seen: any(frame["type"] == "exit" for frame in seen.frames))

    asyncio.run(main())
    assert unheld.lead.run(unheld.key, "cat by-an-agent") == b"by-an-agent\n"
