"""The files of a workspace that is up are watched, and its snapshots look only at what may have changed."""

import time

import pytest

from tests.support.desk import Desk
from tests.workspaces.drivers.runs import IMAGES, why_not
from workspaces.api.schemas import WorkspaceOut
from workspaces.store.guest.watched import GUEST
from workspaces.store.watch import Watched, kernels


@pytest.fixture(scope="module")
def desk(product):
    return Desk(product, product.agent_token("watching", team="watching"))


def test_the_api_names_the_ways_in_which_files_are_watched():
    ways = " | ".join(sorted({way.how for way in kernels.WAYS} | {GUEST, Watched().how}))
    assert WorkspaceOut.model_fields["watching"].description.startswith(f"{{how: {ways}, why}}: ")


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_snapshots_of_a_workspace_that_is_up_look_at_what_changed(desk, require, driver):
    if why := why_not(driver, with_image=driver == "docker"):
        require(driver, why)
    key = desk.create(**({"driver": "docker", "image": IMAGES["docker"]} if driver == "docker" else {}))["key"]
    at = f"/workspaces/{key}"
    assert desk.get(at).json["watching"] == {"how": "off", "why": "no snapshot was taken since it came up"}
    desk.run(key, "mkdir -p a/b c; for n in $(seq 50); do echo $n > a/b/$n; echo $n > c/$n; done")
    first = desk.post(f"{at}/snapshots").json
    if (watching := desk.get(at).json["watching"])["how"] != "fanotify":
        require("fanotify", watching["why"])
    assert first["looked_at"]["walked"] >= 103
    desk.run(key, "echo changed > c/7")
    second = desk.post(f"{at}/snapshots").json
    assert second["looked_at"]["walked"] == 0
    assert 50 < second["looked_at"]["watched"] < 70
    assert desk.get(f"{at}/snapshots/{second['number']}").json["looked_at"] == second["looked_at"]
    desk.post(f"{at}/pause", expect=202)
    assert desk.settled(key)["watching"] == {"how": "off", "why": "it is not up"}
    last = desk.get(f"{at}/snapshots").json["snapshots"][0]
    assert (last["kind"], last["tree"]) == ("end", second["tree"])
    assert last["looked_at"] == {"walked": second["entries"], "watched": 0}


def test_what_has_changed_is_stored_while_a_judge_works(desk, require):
    if why := why_not("sandbox", with_image=False):
        require("sandbox", why)
    key = desk.create()["key"]
    at = f"/workspaces/{key}"
    desk.run(key, "mkdir c; for n in $(seq 50); do echo $n > c/$n; done")
    desk.post(f"{at}/snapshots")
    if (watching := desk.get(at).json["watching"])["how"] != "fanotify":
        require("fanotify", watching["why"])

    def looked_at_after(call) -> int:
        desk.run(key, "echo $RANDOM$RANDOM > c/7")
        if call:
            asked = {"tool": "Bash", "arguments": {"command": f"rm -rf /workspace/c/{call}"}, "cwd": "/workspace"}
            desk.post("/actions", asked | {"workspace": key})
            time.sleep(2)
        return desk.post(f"{at}/snapshots").json["looked_at"]["watched"]

    assert looked_at_after(call=0) > 50
    assert any(looked_at_after(call) < 50 for call in range(1, 10))
