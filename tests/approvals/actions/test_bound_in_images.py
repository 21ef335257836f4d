"""An approval binds what runs in a container and in a guest: their own files and PATH, never those of this host."""

import pytest

from tests.approvals.evidence.conftest import Person, text_of
from tests.support.engine import make_busybox
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not

from ..broker.test_broker import Brokered
from ..conftest import ACTIONS
from .test_bound_files import CHANGED, consume, look, paths

WISHES = {"docker": {"driver": "docker", "image": IMAGES["docker"]}, "microvm": {"driver": "microvm"}}


@pytest.fixture(scope="module")
def brokered(product, require):
    """`brokered("docker", **wish)`: an agent with a workspace of this driver."""

    def make(driver, **wish):
        if why := why_not(driver, True):
            require(driver, why)
        return Brokered(product, **WISHES[driver] | wish)

    yield make
    product.end_guests()


@pytest.fixture(scope="module", params=[*WISHES])
def desk(request, brokered):
    return brokered(request.param)


@pytest.fixture
def run(desk):
    """`run("echo 1 > a")`: a command of the agent's own in its workspace."""

    def command(text):
        made = desk.ok("POST", f"{desk.path}/commands", {"command": text}, expect=201)
        for _ in range(12):
            made = desk.ok("GET", f"/api/v1/commands/{made['id']}?wait=5")
            if made["state"] == "settled":
                break
        assert made["exit_status"] == 0, made

    return command


@pytest.fixture
def page(product):
    person = Person(product)
    return lambda action: text_of(person.get(f"/actions/{action['id']}/"))


def test_a_script_that_changed_after_the_yes_is_asked_about_again(desk, page):
    desk.put("deploy.sh", b"echo one >> ran-one\n")
    asked = desk.ask("Bash", {"command": "bash deploy.sh"})
    assert (asked["status"], paths(asked)) == ("pending", ["deploy.sh"])
    assert "echo one >> ran-one" in page(asked)
    desk.put("deploy.sh", b"echo two >> ran-two\n")
    desk.decide(asked)
    for _ in range(60):
        again = desk.ok("GET", f"{ACTIONS}/{asked['id']}?wait=1")
        if again["revision"] == 2:
            break
    assert (again["status"], again["revision"]) == ("pending", 2)
    assert again["reasons"][0] == CHANGED.format("deploy.sh")
    assert (desk.file("ran-one"), desk.file("ran-two")) == (None, None)
    assert "echo two >> ran-two" in page(again)
    desk.decide(again)
    assert desk.over(again)["status"] == "succeeded"
    assert (desk.file("ran-one"), desk.file("ran-two")) == (None, b"two\n")


@pytest.mark.parametrize(
    ("command", "swap", "said"),
    [
        ("bash ~/tool.sh", "echo 2 > ~/tool.sh", "/home/agent/tool.sh"),
        ("bash /workspace/deep/abs.sh", "echo 2 > deep/abs.sh", "deep/abs.sh"),
        ("sudo ./turned.sh", "ln -sf other.sh turned.sh", "turned.sh"),
        (
            "terraform apply",
            "mkdir -p ~/.local/bin; echo 2 > ~/.local/bin/terraform",
            "/home/agent/.local/bin/terraform",
        ),
    ],
)
def test_what_changes_in_between_is_noticed(desk, run, command, swap, said):
    run("rm -rf ~/.local/bin; mkdir -p deep; echo 1 > ~/tool.sh; echo 1 > deep/abs.sh")
    run("echo a > first.sh; echo b > other.sh; ln -sf first.sh turned.sh")
    asked = desk.ask("Bash", {"command": command}, mode="gate")
    assert asked["status"] == "pending"
    desk.decide(asked)
    run(swap)
    assert consume(desk, asked, expect=409)["code"] == "changed"
    assert look(desk, asked)["reasons"][0] == CHANGED.format(said)


def test_a_link_to_a_file_of_this_host_shows_nothing_of_the_file(desk, run, page, tmp_path):
    planted = tmp_path / "host.sh"
    planted.write_text("echo canary-of-the-host\n")
    run(f"ln -sf {planted} out.sh")
    asked = desk.ask("Bash", {"command": "bash out.sh"}, mode="gate")
    text = page(asked)
    assert ("canary-of-the-host" in text, "outside the workspace, so it is not shown or checked" in text) == (
        False,
        True,
    )


def test_a_paused_workspace_shows_its_script(desk, page):
    desk.put("rest.sh", b"echo at rest\n")
    desk.ok("POST", f"{desk.path}/pause", {}, expect=202)
    desk.settles("paused")
    asked = desk.ask("Bash", {"command": "bash rest.sh"}, mode="gate")
    assert paths(asked) == ["rest.sh"]
    assert "echo at rest" in page(asked)
    desk.ok("POST", f"{desk.path}/resume", {}, expect=202)
    desk.settles("ready")


def test_a_program_is_found_by_the_path_that_the_image_brings(brokered, require):
    if why := why_not("docker", True):
        require("docker", why)
    changes = ["ENV PATH=/opt/bin:/workspace/tools:/bin"]
    image = make_busybox(OPTIONS["docker"]["address"], env=changes, name="handrail/test:path")
    desk = brokered("docker", image=image)
    desk.put("tools/terraform", b"#!/bin/sh\necho one\n")
    asked = desk.ask("Bash", {"command": "terraform apply"}, mode="gate")
    assert (asked["status"], paths(asked)) == ("pending", ["tools/terraform"])
    desk.decide(asked)
    desk.put("tools/terraform", b"#!/bin/sh\necho two\n")
    assert consume(desk, asked, expect=409)["code"] == "changed"
    assert look(desk, asked)["reasons"][0] == CHANGED.format("tools/terraform")
