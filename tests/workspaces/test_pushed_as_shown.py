"""A person pushes what the page showed, whatever the workspace holds: its git and its refs lie."""

import re
import subprocess

import pytest

from tests.support.visitor import Visitor
from tests.support.waiting import until

GIT = "/usr/bin/git -c user.name=A -c user.email=a@example.org"
# A git that packs another repository in the place of this one, as the first on the PATH and by other names.
EVIL = f"""
{GIT} checkout -q HEAD && echo good >> calc.py && {GIT} commit -qam GOOD
mkdir -p ~/evil ~/.local/bin && cp -r .git ~/evil/.git
cd ~/evil && {GIT} reset -q --hard && echo bad > backdoor.txt && {GIT} add . && {GIT} commit -qm innocent
cat > ~/.local/bin/git <<'END'
#!/bin/sh
[ "$1" = bundle ] && exec /usr/bin/git -C /home/agent/evil "$@"
exec /usr/bin/git "$@"
END
chmod +x ~/.local/bin/git; for name in dirname mkdir rm; do cp ~/.local/bin/git ~/.local/bin/$name; done
"""
ON_ITS_WAY = ("approved", "running")
CONFIGURED = {
    "alias": f"{GIT} config alias.bundle '!echo x' && {GIT} config --global alias.bundle '!echo x'",
    "fsmonitor": f"{GIT} config core.fsmonitor 'touch /tmp/seen'",
    "hooks": "mkdir -p .git/hooks; for name in post-checkout pre-push reference-transaction; do"
    " printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/$name; chmod +x .git/hooks/$name; done",
    "include": "printf '[core]\\n worktree = /home/agent\\n' > ~/included;"
    f" {GIT} config --global include.path /home/agent/included",
    "gitproxy": f"{GIT} config core.gitproxy 'sh -c false'; {GIT} config core.sshCommand 'sh -c false'",
    "replace": f"{GIT} replace $({GIT} commit-tree -m other $({GIT} write-tree)) HEAD; {GIT} replace -f HEAD $({GIT}"
    f" commit-tree -m other $({GIT} write-tree))",
    "grafts": f"mkdir -p .git/info; {GIT} rev-parse HEAD > .git/info/grafts",
    "environment": "printf 'export GIT_DIR=/home/agent/evil/.git\\n' > ~/.profile; cp ~/.profile ~/.bashrc;"
    " cp ~/.profile ~/.bash_profile",
}


@pytest.fixture
def lead(desk, lead_token):
    return type(desk)(desk.product, lead_token)


@pytest.fixture
def visitor(desk, lead_token):
    return Visitor.named(desk.product, "lead-of-workspaces", "lead")


@pytest.fixture
def key(desk, repository):
    return desk.create(source={"git": str(repository[0]), "ref": "main"})["key"]


def _git(path, *args) -> str:
    return subprocess.run(["git", *args], cwd=path, capture_output=True, text=True, check=False).stdout.strip()


def _commit(desk, key, line) -> str:
    return (
        desk.run(key, f"echo '{line}' >> calc.py && {GIT} commit -qam '{line}' && {GIT} rev-parse HEAD")
        .decode()
        .strip()
    )


def _fields(page: str, branch: str) -> dict:
    named = {name: re.search(f'name="{name}" value="([^"]*)"', page)[1] for name in ("sha", "seen")}
    return named | {"branch": branch}


def _push(visitor, key, branch, *, meanwhile=lambda: None) -> str:
    """Open the Export page, let something happen, then press Push; the page once the push is over."""
    address = f"/w/main/{key}/export/"
    fields = _fields(visitor.get(address), branch)
    meanwhile()
    return _pressed(visitor, key, fields)


def _pressed(visitor, key, fields) -> str:
    """Press Push and look at the page that follows until the push is over."""
    page = visitor.post(f"/w/main/{key}/push/", fields)
    if again := re.search(r'hx-get="(/w/main/[^"]+operation=[^"]+)"', page):
        return until(lambda: 'id="pushing"' not in visitor.get(again[1]) and visitor.text)
    return page


def test_the_shown_commits_are_pushed(key, desk, visitor, repository):
    sha = _commit(desk, key, "# shown")
    page = visitor.get(f"/w/main/{key}/export/")
    assert (sha[:10] in page, "# shown" in page, "calc.py" in page) == (True, True, True)
    assert f"Pushed {sha[:12]} to agent/shown." in _push(visitor, key, "agent/shown")
    assert _git(repository[0], "rev-parse", "agent/shown") == sha
    assert f"Pushed {sha[:12]} to agent/second." in _push(visitor, key, "agent/second")
    assert _git(repository[0], "rev-parse", "agent/second") == sha


def test_a_commit_that_comes_after_the_page_is_not_pushed(key, desk, visitor, repository):
    shown, later = _commit(desk, key, "# shown"), []
    page = _push(visitor, key, "agent/late", meanwhile=lambda: later.append(_commit(desk, key, "# LATE")))
    assert f"HEAD is {later[0][:12]} now, and {shown[:12]} was shown. Nothing was pushed." in page
    assert _git(repository[0], "branch", "--list", "agent/late") == ""
    # The page that says so shows the commit that came, so that a second press is an informed one.
    assert f"Pushed {later[0][:12]}" in _pressed(visitor, key, _fields(page, "agent/late"))


def test_a_form_without_a_commit_pushes_nothing(key, desk, visitor, repository):
    _commit(desk, key, "# unseen")
    visitor.get(f"/w/main/{key}/export/")
    page = visitor.post(f"/w/main/{key}/push/", {"branch": "agent/blind"})
    assert "show what would be pushed. Nothing was pushed." in page
    assert _git(repository[0], "branch", "--list", "agent/blind") == ""


def test_the_api_names_both_commits(key, desk, lead, repository):
    shown, now = _commit(desk, key, "# one"), _commit(desk, key, "# two")
    outcome = lead.post(f"/workspaces/{key}/push", {"branch": "agent/api", "sha": shown}, expect=202).json["outcome"]
    assert (outcome["ok"], outcome["reason_code"], outcome["shown"], outcome["now"]) == (False, "moved", shown, now)
    assert _git(repository[0], "branch", "--list", "agent/api") == ""
    outcome = lead.post(f"/workspaces/{key}/push", {"branch": "agent/api", "sha": now}, expect=202).json["outcome"]
    assert (outcome["ok"], _git(repository[0], "rev-parse", "agent/api")) == (True, now)
    lead.post(f"/workspaces/{key}/push", {"branch": "agent/api", "sha": "HEAD"}, expect=422)


def test_a_git_of_the_workspace_is_never_asked(key, desk, visitor, lead, repository, tmp_path):
    desk.run(key, EVIL)
    head = desk.run(key, "/usr/bin/git rev-parse HEAD").decode().strip()
    assert f"Pushed {head[:12]}" in _push(visitor, key, "agent/faked")
    assert "backdoor.txt" not in _git(repository[0], "ls-tree", "-r", "--name-only", "agent/faked")
    (tmp_path / "bundle").write_bytes(lead.get(f"/workspaces/{key}/bundle").body)
    assert head in _git(tmp_path, "bundle", "list-heads", "bundle")
    subprocess.run(["git", "clone", "-q", str(tmp_path / "bundle"), str(tmp_path / "cloned")], check=True)
    assert not (tmp_path / "cloned" / "backdoor.txt").exists()


@pytest.mark.parametrize("name", CONFIGURED)
def test_no_setting_of_the_workspace_changes_what_is_pushed(key, desk, visitor, repository, name):
    sha = _commit(desk, key, f"# {name}")
    desk.run(key, CONFIGURED[name])
    assert f"Pushed {sha[:12]}" in _push(visitor, key, f"agent/{name}")
    assert _git(repository[0], "log", "--format=%s", f"main..agent/{name}") == f"# {name}"


def test_commits_hidden_behind_a_forged_record_of_the_remote_are_not_pushed(key, desk, visitor, repository):
    for line in ("# one", "# hidden", "# shown"):
        _commit(desk, key, line)
    desk.run(key, "/usr/bin/git update-ref refs/remotes/origin/main HEAD~1")
    page = _push(visitor, key, "agent/forged")
    assert "1 new commit" in page
    assert "It would send 3 commits, and 1 commit were shown. Nothing was pushed." in page
    assert _git(repository[0], "branch", "--list", "agent/forged") == ""


def _approved(desk, lead, key, branch, *, meanwhile=lambda: None) -> dict:
    """Ask for a push as the agent, let something happen, then approve it; the action when it is over."""
    asked = desk.post(f"/workspaces/{key}/push", {"branch": branch}, expect=202).json["action"]
    meanwhile()
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    return until(lambda: (told := desk.get(f"/actions/{asked['id']}").json)["status"] not in ON_ITS_WAY and told)


def test_an_approval_of_a_push_holds_for_the_list_on_its_card(key, desk, lead, repository):
    for line in ("# one", "# two", "# three"):
        _commit(desk, key, line)
    told = _approved(desk, lead, key, "agent/listed")
    assert (told["status"], _git(repository[0], "rev-list", "--count", "main..agent/listed")) == ("succeeded", "3")
    _commit(desk, key, "# four")
    forge = "/usr/bin/git update-ref refs/remotes/origin/main"  # what was pushed before is remembered without it
    told = _approved(desk, lead, key, "agent/after", meanwhile=lambda: desk.run(key, f"{forge} HEAD"))
    assert (told["status"], _git(repository[0], "branch", "--list", "agent/after")) == ("pending", "")
    assert "the commits and files for agent/after changed since it was approved" in " ".join(told["reasons"])
    _commit(desk, key, "# five")
    desk.run(key, f"{forge} HEAD~1")
    told = _approved(desk, lead, key, "agent/before")
    assert (told["status"], _git(repository[0], "branch", "--list", "agent/before")) == ("failed", "")


def test_an_agent_does_not_choose_where_a_push_goes(key, desk, lead, repository):
    other = repository[0].parent / f"other-{key}"
    subprocess.run(["git", "clone", "-q", str(repository[0]), str(other)], check=True)
    refused = desk.post(f"/workspaces/{key}/revisions", {"git": str(other)}, expect=403).json
    assert refused["code"] == "other_source"
    desk.post(f"/workspaces/{key}/revisions", {"git": f"file://{repository[0]}"})  # another spelling of the same
    sha = _commit(desk, key, "# work")
    lead.post(f"/workspaces/{key}/push", {"branch": "agent/stays"}, expect=202)
    assert (_git(repository[0], "rev-parse", "agent/stays"), _git(other, "branch", "--list", "agent/*")) == (sha, "")
    empty = desk.create()["key"]
    desk.post(f"/workspaces/{empty}/revisions", {"git": str(other)}, expect=403)
    wish = {"git": str(other), "mode": "replace"}
    seen = lead.post(f"/workspaces/{key}/revisions", wish, expect=409).json["safety_snapshot"]
    lead.post(f"/workspaces/{key}/revisions", wish | {"base": seen})
    assert lead.get(f"/workspaces/{key}").json["source"]["git"] == str(other)
