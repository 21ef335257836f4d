"""What was pushed before is remembered by branch: later looks, pages and descriptions have the new commits alone."""

import re
import subprocess

import pytest

from tests.support.visitor import Visitor
from tests.support.waiting import until

GIT = "/usr/bin/git -c user.name=A -c user.email=a@example.org"


@pytest.fixture
def lead(desk, lead_token):
    return type(desk)(desk.product, lead_token)


@pytest.fixture
def visitor(desk, lead_token):
    return Visitor.named(desk.product, "lead-of-workspaces", "lead")


@pytest.fixture
def look(visitor):
    return lambda key: visitor.get(f"/w/main/{key}/export/")


@pytest.fixture
def bare(repository):
    """The source: a bare repository, to whose default branch can be pushed."""
    made = repository[0].with_suffix(".git")
    _git(repository[0], "clone", "-q", "--bare", ".", str(made))
    return made


@pytest.fixture
def key(desk, bare):
    return desk.create(source={"git": str(bare)})["key"]


def _git(path, *args) -> str:
    return subprocess.run(["git", *args], cwd=path, capture_output=True, text=True, check=True).stdout.strip()


def _commit(desk, key, line) -> str:
    command = f"echo '{line}' >> new.txt && git add . && {GIT} commit -qm '{line}' && git rev-parse HEAD"
    return desk.run(key, command).decode().strip()


def _push(lead, key, branch) -> dict:
    return lead.post(f"/workspaces/{key}/push", {"branch": branch}, expect=202).json["outcome"]


def _listed(page: str) -> list[str]:
    """The subjects of the commits that the page lists as new."""
    listed = page.partition('id="commits"')[2].partition("</ol>")[0]
    return re.findall(r"</code>\s*(.*?)\s*</li>", listed, re.DOTALL)


def test_commits_that_were_pushed_are_not_new_again(key, desk, lead, look):
    first, second = _commit(desk, key, "one"), _commit(desk, key, "two")
    assert _listed(look(key)) == ["two", "one"]
    assert _push(lead, key, "agent/a")["ok"]
    text = look(key)
    assert (_listed(text), "No new commit: the repository has them all." in text) == ([], True)
    assert re.search(rf"agent/a</code>.*<code>{second[:10]}</code> pushed by lead-of-workspaces", text, re.DOTALL)
    third = _commit(desk, key, "three")
    text = look(key)
    assert (_listed(text), first[:10] in text) == (["three"], False)
    assert re.search(r'id="pushed-files">\s*<li>\s*<code>new.txt</code>\s*<span class="plus"[^>]*>\+1</span>', text)
    assert _push(lead, key, "agent/b")["ok"]
    text = look(key)
    assert text.index("agent/b</code>") < text.index("agent/a</code>")
    assert third[:10] in text


def test_a_fork_knows_what_its_origin_pushed(key, desk, lead, look):
    _commit(desk, key, "one")
    assert _push(lead, key, "agent/origin")["ok"]
    desk.post(f"/workspaces/{key}/snapshots", {}, expect=201)
    fork = desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"}).json["key"]
    until(lambda: desk.get(f"/workspaces/{fork}").json["state"] == "ready")
    _commit(desk, fork, "two")
    assert _listed(look(fork)) == ["two"]


def test_what_is_gone_there_is_sent_and_listed_again(key, desk, lead, look, visitor, bare):
    """A branch that was squashed into another and deleted: its commits are not there any more."""
    _commit(desk, key, "one")
    assert _push(lead, key, "agent/squashed")["ok"]
    _git(bare, "branch", "-D", "agent/squashed")
    _commit(desk, key, "two")
    text = look(key)
    assert _listed(text) == ["two"]
    told = _push_as_shown(lead, visitor, key, text)
    assert (told["ok"], "It would send 2 commits, and 1 commit were shown." in told["reason"]) == (False, True)
    text = look(key)
    assert _listed(text) == ["two", "one"]
    assert _push_as_shown(lead, visitor, key, text)["ok"]


def _push_as_shown(lead, visitor, key, text) -> dict:
    """Push what the page shows from the page, as its form does; the outcome."""
    fields = {name: re.search(f'name="{name}" value="([^"]*)"', text)[1] for name in ("sha", "seen")}
    page = visitor.post(f"/w/main/{key}/push/", fields | {"branch": "agent/again"})
    pk = re.search(r"operation=([0-9a-f-]{36})", page)[1]
    return until(lambda: lead.get(f"/workspaces/{key}/operations/{pk}").json["outcome"])


def test_a_branch_is_told_what_it_gets_itself_whatever_others_have(key, desk, lead, visitor, look):
    _commit(desk, key, "one")
    assert _push(lead, key, "agent/a")["ok"]
    _commit(desk, key, "two")
    asked = desk.post(f"/workspaces/{key}/push", {"branch": "main"}, expect=202).json["action"]
    [finding] = lead.get(f"/actions/{asked['id']}/evidence").json["findings"]
    assert [each["subject"] for each in finding["commits"]] == ["two", "one"]
    text = look(key)
    assert _listed(text) == ["two"]
    fields = {name: re.search(f'name="{name}" value="([^"]*)"', text)[1] for name in ("sha", "seen")}
    second = visitor.post(f"/w/main/{key}/push/", fields | {"branch": "main"})
    assert ("main is the default branch" in second, " two" in second, " one" in second) == (True, True, True)
    assert _push(lead, key, "agent/a")["ok"]
    asked = desk.post(f"/workspaces/{key}/push", {"branch": "agent/a"}, expect=202).json["action"]
    [finding] = lead.get(f"/actions/{asked['id']}/evidence").json["findings"]
    assert (finding["commits"], any("already exists" in text for text in finding["says"])) == ([], False)


def test_a_push_of_a_new_branch_arrives_after_the_default_one_moved_on_there(key, desk, lead, look, visitor, bare):
    clone = bare.with_suffix(".other")
    _git(bare, "clone", "-q", ".", str(clone))
    _git(clone, "-c", "user.name=B", "-c", "user.email=b@example.org", "commit", "-q", "--allow-empty", "-m", "theirs")
    _git(clone, "push", "-q", "origin", "main")
    _git(bare, "branch", "-D", "feature")
    _commit(desk, key, "ours")
    told = _push_as_shown(lead, visitor, key, look(key))
    assert told["ok"], told


def test_a_default_branch_that_is_not_known_is_asked_for_once(key, desk, visitor, look):
    forget = (
        "from workspaces.models import Workspace; w = Workspace.objects.get(key={!r}); w.source.pop('default_branch');"
    )
    desk.product.shell(f"{forget.format(key)} w.save()")
    _commit(desk, key, "one")
    text = look(key)
    assert "default branch" not in text
    fields = {name: re.search(f'name="{name}" value="([^"]*)"', text)[1] for name in ("sha", "seen")}
    assert "main is the default branch of" in visitor.post(f"/w/main/{key}/push/", fields | {"branch": "main"})
    assert desk.get(f"/workspaces/{key}").json["source"]["default_branch"] == "main"
    assert "default branch <code>main</code>" in look(key)
