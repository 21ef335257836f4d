"""Work gets out: as a bundle, and by a push that a person allowed."""

import subprocess

from tests.support.waiting import until


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


def test_a_repository_outside_of_the_folder_is_refused_with_a_way_on(desk, repository, tmp_path):
    key = desk.create(source={"git": str(repository[0])})["key"]
    made = "/usr/bin/git -c user.name=A -c user.email=a@x"
    elsewhere = "/tmp/main"  # the home is read too
    desk.run(key, f"{made} clone -q . {elsewhere} && {made} -C {elsewhere} worktree add -q /tmp/linked && mv .git kept")
    desk.run(key, "cp /tmp/linked/.git .git")
    said = desk.get(f"/workspaces/{key}/bundle", expect=409).json["detail"]
    assert "outside of this folder" in said
    assert "Push with git itself, or work in the repository's own folder." in said
    borrow = f"mkdir -p .git/objects/info && echo {elsewhere}/.git/objects > .git/objects/info/alternates"
    empty = "find .git/objects -type f ! -path '*/info/*' -delete"
    desk.run(key, f"rm .git && mv kept .git && {empty} && {borrow} && {made} rev-parse HEAD^{{tree}}")
    said = desk.get(f"/workspaces/{key}/bundle", expect=409).json["detail"]
    assert "Run `git repack -ad` and remove .git/objects/info/alternates, then try again." in said
    desk.run(key, f"{made} repack -qad && rm .git/objects/info/alternates")
    (tmp_path / "whole").write_bytes(desk.get(f"/workspaces/{key}/bundle").body)


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


def test_a_push_that_would_lose_commits_is_refused(desk, repository, lead_token):
    path, *_ = repository
    lead = type(desk)(desk.product, lead_token)
    key = lead.create(source={"git": str(path), "ref": "main"})["key"]
    _commit(lead, key, "# elsewhere")
    told = lead.post(f"/workspaces/{key}/push", {"branch": "feature"}, expect=202).json
    assert told["outcome"]["ok"] is False
    theirs = _branch(path, "feature")
    assert (told["outcome"]["reason_code"], [row["sha"] for row in told["outcome"]["missing"]]) == ("behind", [theirs])
    assert f"feature has 1 commit that is not here ({theirs[:7]} " in told["outcome"]["reason"]
    assert "Update the workspace from its source, or push to another branch." in told["outcome"]["reason"]


def test_branches_and_workspaces_that_cannot_be_pushed(desk, repository):
    key = desk.create(source={"git": str(repository[0])})["key"]
    for branch in ("", "-x", "a..b", "a b", "x.lock", "a:b", "HEAD", "@{-1}", "refs/heads/x", "refs/../x"):
        desk.post(f"/workspaces/{key}/push", {"branch": branch}, expect=422)
    empty = desk.create()["key"]
    desk.post(f"/workspaces/{empty}/push", {"branch": "x"}, expect=409)
    for one in (key, empty):
        assert "push" not in [
            operation["kind"] for operation in desk.get(f"/workspaces/{one}/operations").json["operations"]
        ]
        assert desk.get(f"/actions?workspace={one}").json["actions"] == []


def test_branches_of_every_name_that_git_takes_are_pushed(desk, repository, lead_token):
    lead, path = type(desk)(desk.product, lead_token), repository[0]
    for name in ("topic/slash", "v1"):
        subprocess.run(["git", "branch", name, "feature"], cwd=path, check=True)
    subprocess.run(["git", "tag", "v1", "main"], cwd=path, check=True)
    key = lead.create(source={"git": str(path), "ref": "refs/heads/topic/slash"})["key"]
    assert lead.run(key, "git branch --show-current").decode().strip() == "topic/slash"
    for branch in ("ünï", "fix/#12-like", "+main", "@", "日本\u200b", "v1"):
        sha = _commit(lead, key, f"# {branch}")
        outcome = lead.post(f"/workspaces/{key}/push", {"branch": branch}, expect=202).json["outcome"]
        assert (outcome["ok"], _branch(path, f"refs/heads/{branch}")) == (True, sha), outcome
    assert _branch(path, "refs/tags/v1") == _branch(path, "refs/heads/main") == repository[1]


def _branch(path, name) -> str:
    done = subprocess.run(["git", "rev-parse", "-q", "--verify", name], cwd=path, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_fork_pushes_to_where_its_origin_came_from(desk, repository, lead_token):
    lead, path = type(desk)(desk.product, lead_token), repository[0]
    origin = lead.create(source={"git": str(path)})["key"]
    fork = lead.post(f"/workspaces/{origin}/fork", {"key": f"{origin}-fork"}).json["key"]
    lead.settled(fork)
    again = lead.post(f"/workspaces/{fork}/fork", {"key": f"{origin}-fork-2"}).json["key"]
    lead.settled(again)
    sha = _commit(lead, again, "# of a fork of a fork")
    told = lead.post(f"/workspaces/{again}/push", {"branch": "agent/fork"}, expect=202).json
    assert (told["outcome"]["ok"], _branch(path, "agent/fork")) == (True, sha)


def test_a_commit_goes_to_each_branch_once(desk, repository, lead_token):
    lead, path = type(desk)(desk.product, lead_token), repository[0]
    key = lead.create(source={"git": str(path), "ref": "main"})["key"]
    sha = lead.run(key, "git rev-parse HEAD").decode().strip()
    first, again = (
        lead.post(f"/workspaces/{key}/push", {"branch": "agent/same"}, expect=202).json["outcome"] for _ in range(2)
    )
    assert (first["ok"], first["pushed"]) == (True, {"branch": "agent/same", "sha": sha, "from": ""})
    assert again["reason"] == f"Nothing to push: agent/same already has HEAD ({sha[:12]})."
    assert (again["ok"], again["reason_code"], _branch(path, "agent/same")) == (False, "refused", sha)
    before, sha = sha, _commit(lead, key, "# more")
    outcome = lead.post(f"/workspaces/{key}/push", {"branch": "agent/same"}, expect=202).json["outcome"]
    assert outcome["pushed"] == {"branch": "agent/same", "sha": sha, "from": before}
    newest = max(lead.get(f"/workspaces/{key}/operations").json["operations"], key=lambda each: each["created_at"])
    assert newest["progress"]["step"] == "push"
    lead.run(key, "rm -rf .git && git init -q")
    told = lead.post(f"/workspaces/{key}/push", {"branch": "agent/none"}, expect=202).json["outcome"]
    assert told["reason"] == "Nothing is committed yet."


def test_a_missing_source_is_named_without_a_path_of_the_host(desk, repository, lead_token):
    lead, path = type(desk)(desk.product, lead_token), repository[0]
    key = lead.create(source={"git": str(path)})["key"]
    path.rename(path.with_suffix(".away"))
    told = lead.post(f"/workspaces/{key}/push", {"branch": "agent/gone"}, expect=202).json["outcome"]
    assert (told["reason_code"], told["reason"]) == ("source", "There is no folder … Nothing was pushed.")
    path.mkdir()
    told = lead.post(f"/workspaces/{key}/push", {"branch": "agent/gone"}, expect=202).json["outcome"]
    assert (told["reason_code"], str(path.parent) in str(told)) == ("source", False)
    path.rmdir()
    path.with_suffix(".away").rename(path)


def test_a_hooks_words_reach_an_agent_as_they_reach_a_person(desk, repository, lead_token):
    lead, path = type(desk)(desk.product, lead_token), repository[0]
    key = desk.create(source={"git": str(path)})["key"]
    hook = path / ".git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'POLICY: needs a ticket' >&2; echo \"$PWD\" >&2; exit 1\n")
    hook.chmod(0o755)
    try:
        _commit(desk, key, "# refused")
        person = lead.post(f"/workspaces/{key}/push", {"branch": "agent/hook"}, expect=202).json["outcome"]
        asked = desk.post(f"/workspaces/{key}/push", {"branch": "agent/hook"}, expect=202).json["action"]
        lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
        agent = until(lambda: (told := desk.get(f"/actions/{asked['id']}").json)["status"] == "failed" and told)
    finally:
        hook.unlink()
    assert (person["reason_code"], person["remote"]) == ("refused", ["POLICY: needs a ticket", "…"])
    assert person["reason"].startswith("The repository refused agent/hook (pre-receive hook declined): POLICY: needs a")
    assert person["reason"].endswith("Nothing was pushed.")
    assert (agent["result"]["note"], agent["result"]["remote"]) == (person["reason"], person["remote"])
    assert _branch(path, "agent/hook") == ""


def test_the_card_of_a_push_says_what_it_leaves_out(desk, repository):
    key = desk.create(source={"git": str(repository[0])})["key"]
    git = "git -c user.name=A -c user.email=a@example.org"
    desk.run(
        key,
        f"{git} checkout -qb aside && echo '# aside' >> calc.py && {git} commit -qam aside && {git} checkout -q -"
        " && echo '*.log' > .gitignore && echo '*.bin filter=lfs' > .gitattributes && echo x > big.bin"
        f" && git add -f .gitignore .gitattributes && git -c filter.lfs.clean=cat add big.bin && {git} commit -qm lfs"
        " && echo '# open' >> calc.py && echo new > notes.txt && echo ignored > build.log",
    )
    asked = desk.post(f"/workspaces/{key}/push", {"branch": "agent/left"}, expect=202).json["action"]
    evidence = desk.get(f"/actions/{asked['id']}/evidence").json
    said = [line for finding in evidence["findings"] for line in finding["says"] if line.startswith("Leaves out")]
    assert said == [
        "Leaves out 1 file with uncommitted changes (calc.py).",
        "Leaves out 1 new file that was never committed (notes.txt).",
        "Leaves out 1 other branch with commits that are only here (aside).",
        "Leaves out 1 file of git-lfs: only its pointer is pushed (big.bin).",
        "Leaves out 1 ignored file or folder (build.log).",
    ]
