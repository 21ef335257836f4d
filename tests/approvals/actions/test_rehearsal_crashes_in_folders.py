"""kill -9 of the runner while a command of a held folder is tried or applied: the waiting call is still answered."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from tests.approvals.actions.test_rehearsal_crashes import APPLIED, TRIED, until
from tests.approvals.actions.test_rehearsals_in_folders import ASKS, Folder
from tests.support.held_calls import give

APPLIED_UNFROZEN = [point for point in APPLIED if point != "restore.frozen"]  # a person's own programs are not frozen


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    user = ordinary_user if os.geteuid() == 0 else None
    flags = Path(tempfile.mkdtemp(prefix="handrail-flags-"))  # pytest's own folders are closed to the user
    give(flags, user)
    armed = (
        ",".join(f"{point}:{flags / point}" for point in (*TRIED, *APPLIED))
        + f",apply.begun=stop:{flags / 'apply.begun'}"
    )
    made = Folder(tmp_path_factory.mktemp("desk") / "home", user, HANDRAIL_FAILPOINT=armed)
    made.flags = flags
    yield made
    made.close()
    shutil.rmtree(flags)


def arm(folder, point):
    """Have the runner killed there, once. Return a function that says whether it was."""
    (folder.flags / point).touch()
    return lambda: not (folder.flags / point).exists()


def leftovers(folder):
    copies = folder.product.home.glob("workspaces/*/rehearsals/*")
    return [*copies, *folder.product.home.glob("runs/rehearse-*")]


@pytest.mark.parametrize("point", TRIED)
def test_killed_while_it_is_tried(folder, point):
    folder.put("kept", "as it was\n")
    thread, ended, card = folder.waiting(f"{ASKS}rm kept; echo made > made; : {point}")
    before, was_hit = folder.files(), arm(folder, point)
    assert folder.rehearse(card)["status"] == "failed"
    assert (was_hit(), folder.files(), leftovers(folder)) == (True, before, [])
    found = until(lambda: folder.rehearse(card))
    assert (found["status"], found["change_count"]) == ("done", 2), found
    folder.decide(card, "deny")
    thread.join(60)
    assert ended[0]["permissionDecision"] == "deny"
    assert (folder.files(), leftovers(folder)) == (before, [])


@pytest.mark.parametrize("point", APPLIED_UNFROZEN)
def test_killed_while_its_result_is_applied(folder, point):
    for number in range(20):
        (folder.folder / "many").mkdir(exist_ok=True)
        folder.put(f"many/{number}", "old\n")
    give(folder.folder / "many", folder.calls.as_user.get("user"))
    command = "for file in many/*; do echo new > $file; done; rm many/3; date +%N | tee many/more"
    thread, ended, card = folder.waiting(f"{ASKS}{command}; : {point}")
    found = folder.rehearse(card)
    before, was_hit = folder.files(), arm(folder, point)
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    thread.join(120)
    assert was_hit()
    assert ended[0]["permissionDecision"] == "allow", ended
    done = folder.calls.run(ended[0]["updatedInput"]["command"])
    assert (done.returncode, done.stdout.decode()) == (0, found["output"])
    new = {f"many/{number}": b"new\n" for number in range(20) if number != 3}
    untouched = {path: before[path] for path in before if not path.startswith("many/")}
    assert folder.files() == untouched | new | {"many/more": found["output"].encode()}
    assert leftovers(folder) == []


def test_what_changed_after_the_approval_is_kept_and_nothing_applied(folder):
    folder.put("notes", "one\n")
    thread, ended, card = folder.waiting(ASKS + "echo two >> notes; echo made > made")
    found = folder.rehearse(card)
    was_hit, runner = arm(folder, "apply.begun"), folder.product.part_pid("runner")
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    until(was_hit)
    folder.put("notes", "meanwhile\n")
    os.kill(runner, signal.SIGCONT)
    thread.join(60)
    assert ended[0]["permissionDecision"] == "deny", ended
    assert "files have changed since it was tried" in ended[0]["permissionDecisionReason"]
    assert (folder.files()["notes"], "made" in folder.files()) == (b"meanwhile\n", False)
