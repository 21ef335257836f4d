"""Claude Code in a connected folder that is held, as an ordinary user: its shell calls run in a box of the kernel's."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.approvals.agents.claude_code.conftest import Reviewer
from tests.approvals.agents.claude_code.model import DONE, call
from tests.approvals.agents.claude_code.session import NOBODY, Project
from tests.support.visitor import Visitor


class HeldFolder:
    """A project of the user who runs the product, connected and held; with canaries in the home around it."""

    def __init__(self, claude, model, product):
        self.product = product
        self.project = Project(claude, model.url, product.url, token="none")
        self._move()
        self.folder = self.project.folder
        (self.folder / ".env").write_text("KEY=canary-env\n")
        (self.folder.parent / "other").mkdir()
        (self.folder.parent / "other" / "notes.txt").write_text("canary-other\n")
        (self.folder / "steal.py").write_text(STEAL)
        (self.folder / ".git").mkdir()
        (self.folder / ".git" / "config").write_text("[core]\n")
        (self.project.home / ".ssh").mkdir(mode=0o700)
        (self.project.home / ".ssh" / "id_ed25519").write_text("canary-ssh\n")
        self.project.hooks.unlink()
        if os.geteuid() == 0:
            for path in [self.project.root, *self.project.root.rglob("*")]:
                os.chown(path, NOBODY, NOBODY)
        done = product.manage("connect", "claude-code", str(self.folder))
        assert done.returncode == 0, done.stderr
        self.hold(True)

    def _move(self):
        """Away from /tmp, of which a box has its own."""
        parent = "/home" if os.geteuid() == 0 else Path.home()
        root = Path(tempfile.mkdtemp(prefix="handrail-held-", dir=parent))
        root.chmod(0o755)
        for name in ("home", "repo"):
            shutil.move(self.project.root / name, root / name)
        project = self.project
        project.root, project.home, project.folder = root, root / "home", root / "repo"
        project.hooks = project.folder / ".claude" / "settings.json"
        project.environment |= {"HOME": str(project.home), "TMPDIR": str(project.home)}

    def hold(self, on: bool):
        code = f"""
            from dashboard.models import Actor
            from workspaces import operations
            from workspaces.models import Workspace
            from workspaces.services import folders
            workspace = Workspace.objects.get(source__path={str(self.folder)!r}, trashed_at=None)
            operation = folders.box_calls(workspace, {on}, by=Actor.system("test"))
            print(operations.wait(operation, 60).outcome)
        """
        said = self.product.shell("\n".join(line.strip() for line in code.strip().splitlines()))
        assert f"'held': {on}" in said, said

    def close(self):
        self.product.manage("disconnect", str(self.folder))
        self.project.close()


@pytest.fixture
def held(claude, model, new_product, ordinary_user):
    product = new_product(HANDRAIL_HELD="1")
    if os.geteuid() == 0:
        product.become(ordinary_user)
    product.start()
    folder = HeldFolder(claude, model, product)
    yield folder
    folder.close()


# What no reader of commands sees: the names are put together only when it runs.
STEAL = """
import glob, os
for path in [*glob.glob(os.path.expanduser("~/.s" + "sh/*")), "../.e" + "nv", "../../other/notes.txt"]:
    try:
        print(open(path).read())
    except OSError as error:
        print(error)
with open("../.g" + "it/config", "a") as file:
    file.write("[core] hooksPath = x")
"""


def outputs(model, word: str) -> list[str]:
    return [json.dumps(block["content"]) for block in model.results_of(word)]


def test_calls_run_in_the_box_unasked_and_the_shell_keeps_its_folder(held, model, session):
    (held.folder / "sub").mkdir()
    if os.geteuid() == 0:
        os.chown(held.folder / "sub", NOBODY, NOBODY)
    model.scripts["WORK"] = [
        [call("Bash", command="python3 -c \"open('made.txt', 'w').write('made')\"; echo out; echo err >&2; exit 3")],
        [call("Bash", command="cd sub && echo there")],
        [call("Bash", command="pwd; sleep 300 & echo $! > pid")],
        [call("Bash", command="python3 -c 'import os; os.kill(int(open(\"pid\").read()), 15)' && echo ended")],
        [call("Bash", command="python3 ../steal.py")],
        DONE,
    ]
    running = held.project.start("WORK on it", session=session)
    held.project.finish(running, within=120)
    heard, actions = outputs(model, "WORK"), Reviewer(held.product).actions(session)
    assert (held.folder / "made.txt").read_text() == "made"
    assert "out" in heard[0]
    assert "3" in heard[0]
    assert "there" in heard[1]
    assert str(held.folder / "sub") in heard[2]
    assert "ended" in heard[3]
    assert "canary" not in model.transcript("WORK")
    assert "Masked by Handrail" in heard[4]
    assert "Read-only file system" in heard[4]
    assert (held.folder / ".git" / "config").read_text() == "[core]\n"
    assert len(actions) == 5
    assert [action["tier"] for action in actions][:1] == ["medium"]
    assert all(action["envelope"] for action in actions if action["status"] in ("succeeded", "failed"))


TRY = "python3 tries.py"


def test_what_the_box_refused_is_told_shown_and_on_the_card_that_asks_for_it(held, model, session):
    (held.folder / "tries.py").write_text(
        "import socket\n"
        "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "except OSError: pass\n"
        "open('.git/config', 'a').write('x')\n"
    )
    model.scripts["TRY"] = [
        [call("Bash", command=TRY)],
        [call("Bash", command=TRY, dangerouslyDisableSandbox=True)],
        DONE,
    ]
    running = held.project.start("TRY it", session=session)
    reviewer = Reviewer(held.product)
    card = reviewer.card(session)
    reviewer.answer(card, "deny")
    held.project.finish(running, within=60)
    first = reviewer.actions(session)[0]
    assert first["status"] == "failed"
    assert first["blocked"] == [{"kind": "socket", "what": "IPv4 UDP"}, {"kind": "write", "what": ".git/config"}]
    assert "It ran held before. Refused: socket IPv4 UDP, write .git/config." in card["reasons"]
    assert "make the call again with dangerouslyDisableSandbox" in model.transcript("TRY")
    assert "ALARM" not in json.dumps(reviewer.actions(session))


def test_the_button_of_the_page_holds_calls_and_names_another_hook_that_hinders_it(held, model, session):
    lead = Visitor.named(held.product, "lea-of-holds", "lead")
    find = f"Workspace.objects.get(source__path={str(held.folder)!r}, trashed_at=None).key"
    page = f"/w/main/{held.product.shell(f'from workspaces.models import Workspace; print({find})').strip()}/"
    assert "Held: yes." in lead.get(page)
    assert "no longer held" in lead.post(page + "held/", {"on": "0"}, at=page)
    assert "Hold calls" in lead.get(page)
    with pytest.raises(HTTPError, match="403"):
        Visitor.named(held.product, "rob-of-holds", "reviewer").post(page + "held/", {"on": "1"}, at=page)
    shared = held.folder / ".claude" / "settings.json"
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
    for event in ("PreToolUse", "PermissionRequest"):
        shared.write_text(json.dumps({"hooks": {event: [other]}}))
        assert "settings.json has another hook before tools" in lead.post(page + "held/", {"on": "1"}, at=page)
        assert "Held: no." in lead.get(page)
    shared.unlink()
    assert "are held now" in lead.post(page + "held/", {"on": "1"}, at=page)
    shared.write_text(json.dumps({"hooks": {"PreToolUse": [other]}}))  # made later: the call is not wrapped
    model.scripts["LATER"] = [[call("Bash", command="pwd")], DONE]
    held.project.finish(held.project.start("LATER", session=session), within=120)
    (action,) = Reviewer(held.product).actions(session)
    assert (action["status"], action["envelope"]) == ("succeeded", None)


# Calls that ask, in a folder and a home as `prepared` makes them: {command: what is there afterwards, and what is not}.
APPROVED = {
    "rm -rf dist && touch HOME/asked": ([], ["repo/dist"]),
    "rm HOME/single": ([], ["home/single"]),
    "mv HOME/single HOME/moved": (["home/moved"], ["home/single"]),
    "sed -i s/on/off/ .github/workflows/ci.yml && grep -q off .github/workflows/ci.yml": (
        ["repo/.github/workflows/ci.yml"],
        [],
    ),
    "rm -f .github/workflows/ci.yml": ([], ["repo/.github/workflows/ci.yml"]),
    "find . -name one.txt -delete && touch HOME/asked": (["repo/dist/x"], ["repo/one.txt"]),
    "find HOME/old -name x -delete": (["home/old"], ["home/old/x"]),
    "ln -sfn /etc/hostname HOME/lnk && readlink HOME/lnk": (["home/lnk"], []),
    "perl -pi -e s/on/off/ .github/workflows/ci.yml && grep off .github/workflows/ci.yml": (["repo/one.txt"], []),
}


@pytest.mark.slow
def test_an_approved_call_runs_as_its_card_showed_it(held, model, session):
    # Handrail's own home is another one here, so the calls name this one in full.
    calls = {command.replace("HOME", str(held.project.home)): after for command, after in APPROVED.items()}
    model.scripts["APPROVED"] = [*([call("Bash", command=command)] for command in calls), DONE]
    prepared(held)
    running = held.project.start("APPROVED calls", session=session)
    reviewer = Reviewer(held.product)
    root = held.folder.parent
    for command, (there, gone) in calls.items():
        card = reviewer.card(session)
        assert card["arguments"]["command"] == command
        prepared(held)
        reviewer.answer(card, "approve")
        reviewer.settled(card, "succeeded")
        assert all(os.path.lexists(root / path) for path in there), command
        assert not any(os.path.lexists(root / path) for path in gone), command
        assert (root / "home" / "beside").read_text() == "keep\n"
    held.project.finish(running, within=60)
    assert "ALARM" not in json.dumps(reviewer.actions(session))


def prepared(held):
    home, folder = held.project.home, held.folder
    for path, text in {
        home / "beside": "keep\n",
        home / "single": "a\n",
        home / "old" / "x": "a\n",
        folder / "dist" / "x": "a\n",
        folder / "one.txt": "a\n",
        folder / ".github" / "workflows" / "ci.yml": "on: push\n",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if os.geteuid() == 0:
        for path in (home / "old", folder / "dist", folder / ".github"):
            for each in (path, *path.rglob("*")):
                os.chown(each, NOBODY, NOBODY)
        for path in (home / "beside", home / "single", folder / "one.txt"):
            os.chown(path, NOBODY, NOBODY)
