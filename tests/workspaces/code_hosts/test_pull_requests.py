"""A pull request from a workspace to a code host on this machine: pushed, opened, kept, asked about for an agent."""

import base64
import re
import subprocess
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.code_host import TOKEN, CodeHost
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.visitor import Visitor

POINTS = ("pull_request.pushed", "pull_request.opened")


@pytest.fixture
def host(tmp_path):
    bare, tree = tmp_path / "team" / "shop.git", tmp_path / "tree"

    def git(*args, cwd=tmp_path):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *args], cwd=cwd, check=True)

    git("init", "-q", "-b", "main", str(tree))
    (tree / "cart.py").write_text("total = 0\n")
    git("add", ".", cwd=tree)
    git("commit", "-qm", "Begin", cwd=tree)
    git("clone", "-q", "--bare", str(tree), str(bare))
    git("config", "http.receivepack", "true", cwd=bare)
    made = CodeHost("gitea", tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """A product of its own, which may contact this machine; its runner is killed where a file of POINTS is."""
    folder = tmp_path_factory.mktemp("product")
    points = ",".join(f"{point}:{folder / point}" for point in POINTS)
    running = Product(folder, HANDRAIL_PRIVATE_SOURCES="1", HANDRAIL_FAILPOINT=points)
    running.points = folder
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


def _token_name(host) -> str:
    return f"CODE_HOST_127_0_0_1_{host.url.rpartition(':')[2]}"


def _put_token(product, host):
    name = _token_name(host)
    product.shell(
        "from dashboard.models import Actor, Team; from workspaces import secrets;"
        f"secrets.save(Team.objects.get(), '{name}', 'host', '{TOKEN}', by=Actor.system('tests'))"
    )


def _work(desk, key, line="total = 1"):
    git = "git -c user.name=A -c user.email=a@example.org"
    desk.run(key, f"echo '{line}' > cart.py && {git} commit -qam 'Count `items` @all'")
    return desk.run(key, "git rev-parse HEAD").decode().strip()


def test_a_pull_request_is_opened_with_a_description_from_the_history(product, host):
    agent, lead = Desk(product, product.agent_token("opener")), Desk(product, product.person_token("lead", "lead"))
    key = agent.create(source={"git": f"{host.url}/team/shop.git"}, description="Count items")["key"]
    sha = _work(agent, key)
    missing = lead.post(f"/workspaces/{key}/pull-requests", {"branch": "agent/count"}, expect=202).json["outcome"]
    assert (missing["ok"], missing["reason"].startswith(f"There is no token for {host.site}.")) == (False, True)
    assert (missing["reason_code"], missing["secret"]["origin"]) == ("token", host.url)
    _put_token(product, host)
    asked = agent.post(f"/workspaces/{key}/pull-requests", {"branch": "agent/count"}, expect=202).json["action"]
    assert (asked["status"], host.pulls) == ("pending", [])
    shown = agent.get(f"/actions/{asked['id']}").json
    assert shown["arguments"]["title"] == "Count `items` @all"
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    ended = _ended(agent, asked["id"])
    assert ended["status"] == "succeeded", ended
    assert [(pull["head"], pull["base"], pull["title"]) for pull in host.pulls] == [
        ("agent/count", "main", "Count `items` @all")
    ]
    body = host.pulls[0]["body"]
    assert body.startswith("Count items\n\n### Commits\n\n- `" + sha[:10] + "` Count \\`items\\` \\@all\n")
    assert "- `cart.py` +1 −1" in body
    assert "- `git rev-parse HEAD`: exit status 0" in body
    assert body.endswith(f"Made in the workspace `{key}`.")
    there = subprocess.run(
        ["git", "rev-parse", "agent/count"], cwd=host.root / "team" / "shop.git", capture_output=True, text=True
    )
    assert there.stdout.strip() == sha
    kept = lead.get(f"/workspaces/{key}/pull-requests").json["pull_requests"]
    assert [(each["number"], each["url"], each["sha"]) for each in kept] == [(1, f"{host.url}/team/shop/pull/1", sha)]
    assert TOKEN not in agent.run(key, "env; cat /proc/self/environ; git config -l").decode()


def test_a_second_push_finds_the_open_one(product, host):
    lead = Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = lead.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    _work(lead, key)
    wish = {"branch": "agent/count", "title": "Count", "body": "By hand"}
    first = lead.post(f"/workspaces/{key}/pull-requests", wish, expect=202).json["outcome"]
    again = lead.post(f"/workspaces/{key}/pull-requests", {"branch": "agent/count"}, expect=202).json["outcome"]
    assert (first["reason"], again["reason"]) == (
        f"Opened pull request #1: {host.url}/team/shop/pull/1",
        f"Pushed to the open pull request #1: {host.url}/team/shop/pull/1",
    )
    assert (host.pulls[0]["title"], host.pulls[0]["body"], len(host.pulls)) == ("Count", "By hand", 1)
    given = {"branch": "agent/count", "title": "Count them"}
    renamed = lead.post(f"/workspaces/{key}/pull-requests", given, expect=202).json["outcome"]
    assert renamed["reason"].endswith("/pull/1 (new title)")
    assert (host.pulls[0]["title"], host.pulls[0]["body"]) == ("Count them", "By hand")
    kept = lead.get(f"/workspaces/{key}/pull-requests").json["pull_requests"]
    assert [(each["number"], each["title"]) for each in kept] == [(1, "Count them")]


def test_what_failed_after_the_push_is_tried_again_from_where_it_stands(product, host):
    lead = Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = lead.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    sha = _work(lead, key)
    wish = {"branch": "m-403", "title": "t", "body": "b", "sha": sha}
    host.fails_to = {"POST": (403, {"message": "token does not have the scope\x07"})}
    failed = lead.post(f"/workspaces/{key}/pull-requests", wish, expect=202).json["outcome"]
    assert failed["reason"] == (
        f"Pushed {sha[:12]} to m-403. Opening the pull request failed: Gitea at {host.site} said 403: token does not"
        f" have the scope. Check the secret {_token_name(host)}. Try again when the token may do this."
    )
    assert (failed["ok"], failed["reason_code"], failed["pushed"]) == (
        False, "token", {"branch": "m-403", "sha": sha, "from": ""},
    )  # fmt: skip
    assert (f"{sha} refs/heads/m-403" in _branches(host), host.pulls) == (True, [])
    page = Visitor.named(product, "lead", "lead")
    shown = page.get(f"/w/main/{key}/export/?operation={_newest(lead, key)}")
    button = re.search(r'action="([^"]+/pull-request/[0-9a-f-]+/again/)"', shown)[1]
    host.fails_to = {}
    page.post(button, {})
    _until(lambda: len(host.pulls) == 1)
    again = lead.post(f"/workspaces/{key}/pull-requests", wish, expect=202).json["outcome"]
    assert (again["ok"], again["number"], again["pushed"]) == (True, 1, {"branch": "m-403", "sha": sha, "from": sha})
    assert "is tried again" in page.post(button.replace(button.split("/")[-3], _newest(lead, key)), {})


@pytest.mark.parametrize("point", POINTS)
def test_a_runner_that_is_killed_opens_it_once(product, host, point):
    lead = Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = lead.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    sha = _work(lead, key)
    (product.points / point).touch()
    wish = {"branch": "killed", "title": "t", "body": "b"}
    outcome = lead.post(f"/workspaces/{key}/pull-requests", wish, expect=202).json["outcome"]
    assert (outcome["ok"], outcome["number"], outcome["pushed"]["sha"]) == (True, 1, sha), outcome
    assert ((product.points / point).exists(), len(host.pulls)) == (False, 1)
    assert f"{sha} refs/heads/killed" in _branches(host)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, None), "doesn't answer like GitHub, GitLab, Gitea or Forgejo"),
        ((403, {"message": "no"}), "does not say which"),
    ],
)
def test_a_host_that_can_not_be_asked_is_pushed_nothing(product, host, answer, words):
    lead = Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = lead.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    _work(lead, key)
    before, host.fails = _branches(host), answer
    outcome = lead.post(f"/workspaces/{key}/pull-requests", {"branch": "x"}, expect=202).json["outcome"]
    assert (words in outcome["reason"], outcome["reason"].endswith("Nothing was pushed.")) == (True, True), outcome
    assert (_branches(host), "pushed" in outcome) == (before, False)


def test_a_base_that_is_not_there_is_refused_and_the_default_one_is_named(product, host):
    agent, lead = Desk(product, product.agent_token("into-a-base")), Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = agent.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    agent.run(
        key, "mkdir .gitea && printf '## Description\\n\\n## Tests\\n' > .gitea/pull_request_template.md && git add ."
    )
    _work(agent, key)
    before = _branches(host)
    for one in (agent, lead):
        wish = {"branch": "x", "base": "does-not-exist"}
        refused = one.post(f"/workspaces/{key}/pull-requests", wish, expect=422).json
        assert refused["detail"] == f"team/shop at {host.site} has no branch does-not-exist. Nothing was pushed."
    assert (_branches(host), agent.get(f"/actions?workspace={key}").json["actions"]) == (before, [])
    asked = agent.post(f"/workspaces/{key}/pull-requests", {"branch": "x", "draft": True}, expect=202).json["action"]
    shown = agent.get(f"/actions/{asked['id']}").json["arguments"]
    assert (shown["base"], shown["draft"], "given" in shown) == ("main", True, False)
    assert shown["body"].startswith("## Description\n\n### Commits\n")
    assert shown["body"].endswith("\n\n## Tests")
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    assert _ended(agent, asked["id"])["status"] == "succeeded"
    assert [(pull["base"], pull["title"]) for pull in host.pulls] == [("main", "WIP: Count `items` @all")]


@pytest.mark.parametrize(
    "wish",
    [{"branch": "main"}, {"branch": "main", "base": "release"}, {"branch": "Main"}, {"branch": "x", "base": "x"}],
)
def test_the_branch_that_it_goes_into_is_refused_before_anything_is_pushed(product, host, wish):
    agent, lead = Desk(product, product.agent_token("into-itself")), Desk(product, product.person_token("lead", "lead"))
    key = agent.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    before = _branches(host)
    _work(agent, key)
    for one in (agent, lead):  # without a token for the host, git itself names the default branch
        refused = one.post(f"/workspaces/{key}/pull-requests", wish, expect=422).json
        assert refused["detail"].startswith("A pull request needs a branch of its own;")
    _put_token(product, host)
    for one in (agent, lead):
        one.post(f"/workspaces/{key}/pull-requests", wish, expect=422)
    page = Visitor.named(product, "lead", "lead")
    shown = page.get(f"/w/main/{key}/export/")
    fields = {name: re.search(f'name="{name}" value="([^"]+)"', shown)[1] for name in ("sha", "seen")}
    said = page.post(f"/w/main/{key}/pull-request/", fields | {"base": "", "title": "t"} | wish)
    assert "A pull request needs a branch of its own;" in said
    assert (_branches(host), host.pulls) == (before, [])
    assert agent.get(f"/actions?workspace={key}").json["actions"] == []


def _branches(host) -> str:
    told = subprocess.run(["git", "show-ref"], cwd=host.root / "team" / "shop.git", capture_output=True, text=True)
    return told.stdout


def test_a_commit_after_the_page_opens_no_pull_request(product, host):
    lead = Desk(product, product.person_token("lead", "lead"))
    _put_token(product, host)
    key = lead.create(source={"git": f"{host.url}/team/shop.git"})["key"]
    shown = _work(lead, key)
    now = _work(lead, key, "total = 2")
    wish = {"branch": "agent/late", "title": "t", "body": "b", "sha": shown}
    outcome = lead.post(f"/workspaces/{key}/pull-requests", wish, expect=202).json["outcome"]
    assert (outcome["reason_code"], outcome["shown"], outcome["now"]) == ("moved", shown, now)
    assert ("agent/late" in _branches(host), host.pulls) == (False, [])


def test_a_workspace_without_a_code_host_says_so(product):
    lead = Desk(product, product.person_token("lead", "lead"))
    key = lead.create()["key"]
    refused = lead.post(f"/workspaces/{key}/pull-requests", {"branch": "x"}, expect=409).json
    assert "did not come from a repository at a code host" in refused["detail"]


def _newest(desk, key) -> str:
    operations = desk.get(f"/workspaces/{key}/operations").json["operations"]
    return next(each["id"] for each in operations if each["kind"] == "pull_request")


def _until(true) -> None:
    for _ in range(100):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it did not become true")


def _ended(desk, pk):
    for _ in range(20):
        action = desk.get(f"/actions/{pk}?wait=2").json
        if action["status"] in ("succeeded", "failed", "uncertain"):
            break
    return action


def test_a_private_repository_is_cloned_revised_and_pushed_with_the_teams_token(product, host, tmp_path):
    host.is_private = True
    lead, address = Desk(product, product.person_token("lead", "lead")), f"{host.url}/team/shop.git"
    name = f"CODE_HOST_127_0_0_1_{host.url.rpartition(':')[2]}"
    key = lead.create(source={"git": address})["key"]
    failed = lead.get(f"/workspaces/{key}").json
    assert (failed["state"], f"A lead can set the secret {name} with the origin {host.url}" in failed["reason"]) == (
        "failed",
        True,
    )
    page = Visitor.named(product, "lead", "lead").get(f"/w/main/{key}/")
    filled = re.search(r'href="(/secrets/new/\?[^"]+)"', page)[1].replace("&amp;", "&")
    assert parse_qs(urlsplit(filled).query) == {"name": [name], "scope": ["host"], "origin": [host.url]}
    lead.call("PUT", f"/secrets/{name}", {"scope": "host", "value": TOKEN, "origin": host.url})
    assert lead.create(key=key, expect=200, source={"git": address})["state"] == "ready"
    work = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
    (tmp_path / "tree" / "new.py").write_text("new = 1\n")
    for command in (["add", "."], ["commit", "-qm", "Next"], ["push", "-q", tmp_path / "team" / "shop.git", "main"]):
        subprocess.run([*work, *command], cwd=tmp_path / "tree", check=True)
    taken = lead.post(f"/workspaces/{key}/revisions", {"git": address, "how": "merge"}, expect=202).json
    assert lead.operation(key, taken["operation"])["outcome"]["ok"]
    assert lead.run(key, "cat new.py").decode().strip() == "new = 1"
    sha = _work(lead, key)
    pushed = lead.post(f"/workspaces/{key}/push", {"branch": "agent/x"}, expect=None).json["outcome"]
    assert (pushed["ok"], pushed["pushed"]["sha"]) == (True, sha)
    told = [
        lead.get(path).body
        for path in (f"/workspaces/{key}", f"/workspaces/{key}/snapshots/1/manifest", "/events?limit=200")
    ]
    told += [lead.run(key, "env; cat /proc/self/environ; cat .git/config; ls -la ~"), product.log.encode()]
    written = [path.read_bytes() for path in product.home.rglob("*") if path.is_file() and not path.is_symlink()]
    for form in (TOKEN.encode(), base64.b64encode(f"x-access-token:{TOKEN}".encode())):
        assert not any(form in text for text in told + written)


def test_a_token_that_the_host_refuses_is_named_after_a_push(product, host):
    lead, address = Desk(product, product.person_token("lead", "lead")), f"{host.url}/team/shop.git"
    key = lead.create(source={"git": address})["key"]
    lead.call("PUT", "/secrets/OURS", {"scope": "host", "value": "wrong-token-xyz", "origin": host.url})
    _work(lead, key)
    pushed = lead.post(f"/workspaces/{key}/push", {"branch": "agent/x"}, expect=None).json["outcome"]
    assert (pushed["ok"], pushed["reason_code"]) == (False, "token")
    assert "refused the token in the secret OURS" in pushed["reason"]
    assert pushed["secret"] == {"name": "OURS", "origin": host.url}
