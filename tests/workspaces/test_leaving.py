"""Work gets out: as a bundle, and by a push that a person allowed."""

import subprocess


def _commit(desk, key, line):
    git = "git -c user.name=A -c user.email=a@example.org"
    desk.run(key, f"echo '{line}' >> calc.py && {git} commit -qam '{line}' && git rev-parse HEAD")
    return desk.run(key, "git rev-parse HEAD").decode().strip()


def test_a_bundle_holds_what_was_committed(desk, repository, tmp_path):
    key = desk.create(source={"git": str(repository[0])})["key"]
    sha = _commit(desk, key, "# one")
    (tmp_path / "b").write_bytes(desk.get(f"/workspaces/{key}/bundle").body)
    subprocess.run(["git", "clone", "-q", str(tmp_path / "b"), str(tmp_path / "c")], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert head.stdout.strip() == sha


def test_a_bundle_of_no_repository_says_so(desk):
    key = desk.create()["key"]
    assert "git made no bundle" in desk.get(f"/workspaces/{key}/bundle", expect=409).json["detail"]


def test_an_agents_push_waits_and_arrives_once_it_is_allowed(desk, repository, lead_token):
    path, *_ = repository
    key = desk.create(source={"git": str(path)})["key"]
    sha = _commit(desk, key, "# pushed")
    asked = desk.post(f"/workspaces/{key}/push", {"branch": "agent/work"}, expect=202).json["action"]
    assert asked["status"] == "pending"
    assert _branch(path, "agent/work") == ""
    lead = type(desk)(desk.product, lead_token)
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    for _ in range(20):
        ended = desk.get(f"/actions/{asked['id']}?wait=2").json
        if ended["status"] in ("succeeded", "failed", "uncertain"):
            break
    assert (ended["status"], _branch(path, "agent/work")) == ("succeeded", sha)


def test_a_push_that_would_lose_commits_is_refused_in_words(desk, repository, lead_token):
    path, *_ = repository
    lead = type(desk)(desk.product, lead_token)
    key = lead.create(source={"git": str(path), "ref": "main"})["key"]
    _commit(lead, key, "# elsewhere")
    told = lead.post(f"/workspaces/{key}/push", {"branch": "feature"}, expect=202).json
    assert told["outcome"]["ok"] is False
    assert "git said" in told["outcome"]["reason"]


def test_branches_and_workspaces_that_cannot_be_pushed(desk, repository):
    key = desk.create(source={"git": str(repository[0])})["key"]
    for branch in ("", "-x", "a..b", "a b", "x.lock", "a:b", "+main", "refs/../x"):
        desk.post(f"/workspaces/{key}/push", {"branch": branch}, expect=422)
    empty = desk.create()["key"]
    desk.post(f"/workspaces/{empty}/push", {"branch": "x"}, expect=409)
    for one in (key, empty):
        assert "push" not in [
            operation["kind"] for operation in desk.get(f"/workspaces/{one}/operations").json["operations"]
        ]
        assert desk.get(f"/actions?workspace={one}").json["actions"] == []


def _branch(path, name) -> str:
    done = subprocess.run(["git", "rev-parse", "-q", "--verify", name], cwd=path, capture_output=True, text=True)
    return done.stdout.strip()
