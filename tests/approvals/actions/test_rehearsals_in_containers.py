"""Try it first in a container, which no envelope holds: its copy's secrets are masked, and some results not applied."""

import pytest

from tests.support.engine import Client
from tests.support.product import Product
from tests.support.visitor import Visitor
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not

from .test_rehearsals import Rehearsing


@pytest.fixture(scope="module")
def desk(tmp_path_factory, require):
    if why := why_not("docker", True):
        require("docker", why)
    product = Product(tmp_path_factory.mktemp("containers") / "home", HANDRAIL_DOCKER_HOST=OPTIONS["docker"]["address"])
    product.start()
    try:
        desk = Rehearsing(product, driver="docker", image=IMAGES["docker"])
        desk.run(
            "mkdir -p .git/hooks .git/refs .github/workflows keys/.ssh config plain && echo [core] > .git/config && "
            "echo canary > keys/.ssh/id_rsa && echo canary > config/.env && chmod 640 config/.env && "
            "echo on: > .github/workflows/ci.yml && echo x > plain/file"
        )
        yield desk
    finally:
        product.clean_up()


def test_masked_files_are_closed_and_come_back_as_they_were(desk):
    before = desk.content()
    read = "cat config/.env keys/.ssh/id_rsa; ls keys/.ssh; cat .github/workflows/ci.yml"
    asked = desk.ask_for(f"{read}; touch plain/new")
    found = desk.rehearse(asked)
    assert ("canary" in found["output"], found["output"].count("ermission denied")) == (False, 3), found["output"]
    assert ([change["path"] for change in found["changes"]], found["not_applied_because"]) == (["plain/new"], "")
    assert desk.content() == before
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    assert desk.over(asked)["status"] == "succeeded"
    after = desk.content()
    assert {path for path in after if after[path] != before.get(path)} == {"plain/new"}


@pytest.mark.parametrize(
    "command",
    [
        "rm -f config/.env",
        "mv config elsewhere",
        "mv config/.env config/plain",
        "chmod 600 config/.env; echo mine > config/.env; true",
        "mv config kept; ln -s kept config",
        "rm -rf keys",
    ],
)
def test_a_result_that_moved_what_was_masked_is_not_applied(desk, command):
    before = desk.content()
    asked = desk.ask_for(command)
    found = desk.rehearse(asked)
    touched = command.startswith("chmod") or "with secrets" in found["not_applied_because"]
    assert (found["status"], touched, "canary" in found["output"]) == ("done", True, False), found
    if found["not_applied_because"]:
        assert desk.decide(asked, expect=409, apply="rehearsal")["code"] == "no_rehearsal"
    desk.decide(asked, "deny")
    assert (desk.content(), desk.leftovers()) == (before, [])


@pytest.mark.parametrize(
    "command",
    [
        "echo 'rm -rf ~' > .git/hooks/pre-commit",
        "echo 'pager = evil' >> .git/config",
        "mv .github/workflows/ci.yml plain/ci.yml",
        "mkdir -p plain/.vscode; echo {} > plain/.vscode/tasks.json",
    ],
)
def test_a_result_with_changed_protected_files_is_not_applied(desk, command):
    asked = desk.ask_for(command)
    found = desk.rehearse(asked)
    assert (found["status"], found["exit_status"]) == ("done", 0), found
    assert "take effect by themselves" in found["not_applied_because"], found
    assert desk.decide(asked, expect=409, apply="rehearsal")["code"] == "no_rehearsal"
    desk.decide(asked, "deny")


def test_the_card_says_what_holds_and_the_container_is_gone_afterwards(desk):
    asked = desk.ask_for("echo $HOSTNAME; touch plain/card")
    card = " ".join(Visitor.named(desk.product, "ruth").get(f"/actions/{asked['id']}/").split())
    assert "It runs in a container of its own, without an envelope" in card
    assert desk.rehearse(asked)["status"] == "done"
    with Client(OPTIONS["docker"]["address"]) as engine:
        names = [name for made in engine.containers(all=True) for name in made["Names"]]
    assert [name for name in names if "rehearse-" in name] == []
    desk.decide(asked, "deny")
