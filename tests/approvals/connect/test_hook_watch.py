"""A connected folder whose hook is gone or changed: noticed, shown, and put back by one tap."""

import json
import re
import subprocess
import time

import pytest

from tests.support.visitor import Visitor

LOCAL = ".claude/settings.local.json"


@pytest.fixture
def connected(product, tmp_path):
    """A folder with a settings file of its own, connected as `watched`."""
    folder = tmp_path / "watched"
    (folder / ".claude").mkdir(parents=True)
    (folder / LOCAL).write_text('{"model": "opus"}')
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    done = product.manage("connect", "claude-code", str(folder), "--key", folder.parent.name.replace("_", "-"))
    assert done.returncode == 0, done.stderr
    yield folder
    product.manage("disconnect", str(folder))


def told(product, folder) -> str:
    return product.shell(
        "from workspaces.models import Workspace\n"
        f"print(Workspace.objects.kept().get(source__path={str(folder)!r}).hook_problem)"
    )


def noticed(product, folder, what: str) -> str:
    """What the product says of the hook once it holds these words; within a minute, as the issue has it."""
    deadline = time.monotonic() + 60
    while what not in (said := told(product, folder)) or bool(what) != bool(said):
        assert time.monotonic() < deadline, said
        time.sleep(1)
    return said


def break_it(folder, how: str):
    file = folder / LOCAL
    now = json.loads(file.read_text())
    if how == "removed":
        file.unlink()
    elif how == "matcher":
        now["hooks"]["PreToolUse"][0]["matcher"] = "Nothing"
        file.write_text(json.dumps(now))
    elif how == "switched off":
        file.write_text(json.dumps(now | {"disableAllHooks": True}))


@pytest.mark.parametrize("how", ["removed", "matcher", "switched off"])
def test_a_missing_or_changed_hook_is_noticed_and_put_back(product, connected, how):
    before = json.loads((connected / LOCAL).read_text())
    assert told(product, connected) == ""
    break_it(connected, how)
    problem = noticed(product, connected, ".claude/settings")
    person = Visitor.named(product, "rita-of-hooks", "reviewer")
    desk = person.get("/")
    assert "Claude Code is not gated in" in desk
    action = re.search(r'action="(/w/[^"]+/hook/)"', desk)
    address = action.group(1).removesuffix("hook/")
    assert problem.split(" ")[0] in person.get(address)
    person.post(action[1], {"next": "/"})
    assert told(product, connected) == ""
    assert "Claude Code is not gated in" not in person.get("/")
    now = json.loads((connected / LOCAL).read_text())
    assert now == before if how != "removed" else {"model": "opus"} | now == before
    assert events(product, connected) == ["workspace.hook_missing watch", "workspace.hook_in_place rita-of-hooks"]


def events(product, folder) -> list[str]:
    printed = product.shell(
        "from dashboard.models import Event; from workspaces.models import Workspace\n"
        f"w = Workspace.objects.kept().get(source__path={str(folder)!r})\n"
        "for e in Event.objects.filter(workspace_id=w.pk, verb__contains='hook').order_by('seq'):\n"
        "    print(e.verb, e.actor_label.split()[-1])"
    )
    return printed.splitlines()


def test_a_viewer_sees_it_and_has_no_button(product, connected):
    break_it(connected, "removed")
    noticed(product, connected, ".claude/settings")
    desk = Visitor.named(product, "vera-of-hooks", "viewer").get("/")
    assert "Claude Code is not gated in" in desk
    assert "/hook/" not in desk


def test_invalid_settings_are_reported_and_left_alone(product, connected):
    (connected / LOCAL).write_text("{broken")
    noticed(product, connected, "is not what Claude Code reads")
    person = Visitor.named(product, "rita-of-hooks", "reviewer")
    desk = person.get("/")
    assert "mend or remove it first" in person.post(re.search(r'action="(/w/[^"]+/hook/)"', desk)[1], {"next": "/"})
    assert (connected / LOCAL).read_text() == "{broken"
    (connected / LOCAL).unlink()


def test_disconnect_after_it_was_put_back_leaves_the_folder_as_it_was(product, connected):
    break_it(connected, "matcher")
    noticed(product, connected, ".claude/settings")
    person = Visitor.named(product, "rita-of-hooks", "reviewer")
    desk = person.get("/")
    person.post(re.search(r'action="(/w/[^"]+/hook/)"', desk)[1], {"next": "/"})
    assert product.manage("disconnect", str(connected)).returncode == 0
    assert (connected / LOCAL).read_text() == '{"model": "opus"}'
