"""What git makes of a repository in a workspace: page, patch and push see it as plain git does, or say why not."""

import re
import subprocess

import pytest

from tests.support.visitor import Visitor

GIT = "/usr/bin/git -c user.name=A -c user.email=a@example.org"


@pytest.fixture
def lead(desk, lead_token):
    return type(desk)(desk.product, lead_token)


@pytest.fixture
def page(desk, lead_token):
    visitor = Visitor.named(desk.product, "lead-of-workspaces", "lead")

    def read(key):
        text = re.sub(r"<[^>]*>", " ", visitor.get(f"/w/main/{key}/export/").split("<main")[1])
        return re.sub(r"\s+", " ", text)

    return read


def git(path, *args, feed=None) -> str:
    done = subprocess.run(["git", *args], cwd=path, input=feed, capture_output=True, check=False)
    return done.stdout.decode().strip() or done.stderr.decode().strip()


def pushed(lead, key, branch) -> str:
    """Push as the page does, with the commit that is shown; the commit that arrived, or why none did."""
    sha = lead.run(key, "git rev-parse HEAD").decode().strip()
    outcome = lead.post(f"/workspaces/{key}/push", {"branch": branch, "sha": sha}, expect=202).json["outcome"]
    return sha if outcome["ok"] else outcome["reason"]


def commit(lead, key, line, folder=".") -> str:
    command = f"cd {folder} && echo '# {line}' >> calc.py && {GIT} commit -qam '{line}' && git rev-parse HEAD"
    return lead.run(key, command).decode().strip()


def test_a_repository_of_sha256_comes_back(lead, page, product, tmp_path, repository):
    source = product.sources / f"sha256-{repository[0].name}"
    git(product.sources, "init", "-q", "-b", "main", "--object-format=sha256", source)
    (source / "calc.py").write_text("one\n")
    git(source, "add", ".")
    git(source, "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "first")
    base = git(source, "rev-parse", "HEAD")
    key = lead.create(source={"git": str(source)})["key"]
    sha = commit(lead, key, "of sha256")
    shown = page(key)
    assert f"1 new commit from main {sha[:10]} of sha256" in shown
    assert pushed(lead, key, "agent/new") == git(source, "rev-parse", "agent/new") == sha
    patch = lead.get(f"/workspaces/{key}/patch?from=1&to=live").body
    git(source, "checkout", "-q", "--detach", base)
    assert git(source, "apply", "--index", feed=patch) == ""
    assert git(source, "write-tree") == git(source, "rev-parse", f"{sha}^{{tree}}")
    (tmp_path / "bundle").write_bytes(lead.get(f"/workspaces/{key}/bundle").body)
    git(tmp_path, "clone", "-q", "bundle", "cloned")
    assert git(tmp_path / "cloned", "rev-parse", "HEAD") == sha


def test_a_worktree_and_a_sparse_checkout_in_a_workspace(lead, page, repository):
    path = repository[0]
    key = lead.create(source={"git": str(path), "ref": "main"})["key"]
    lead.run(key, f"{GIT} worktree add -q side -b side && {GIT} worktree add -q ~/outside -b outside")
    commit(lead, key, "in the worktree", "side")
    commit(lead, key, "in the outside worktree", "~/outside")
    sha = commit(lead, key, "at the top")
    shown = page(key)
    assert "side" in shown
    assert "outside" in shown
    assert pushed(lead, key, "agent/top") == git(path, "rev-parse", "agent/top") == sha
    lead.run(
        key, f"mkdir lib && echo x > lib/x && {GIT} add lib && {GIT} commit -qm lib && git sparse-checkout set none"
    )
    lead.run(key, "test ! -e lib")
    sha = commit(lead, key, "in a sparse checkout")
    assert pushed(lead, key, "agent/sparse") == sha
    assert git(path, "ls-tree", "--name-only", "agent/sparse").split() == ["calc.py", "lib"]


def test_a_partial_clone_in_a_workspace_says_what_is_missing_until_it_is_there(lead, page, repository):
    path = repository[0]
    key = lead.create(source={"git": str(path), "ref": "main"})["key"]
    commit(lead, key, "made here")
    lead.run(
        key,
        "git config uploadpack.allowFilter true && cp -r .git ~/whole && rm -rf .git && git clone -q --filter=blob:none"
        " --no-checkout file://$HOME/whole ~/partial && mv ~/partial/.git .git && git update-ref -d"
        " refs/remotes/origin/main && git ls-files",
    )
    said = "The repository is a partial clone: some of its objects are only where it was cloned from"
    assert said in page(key)
    assert said in pushed(lead, key, "agent/partial")
    assert said in lead.get(f"/workspaces/{key}/bundle", expect=409).json["detail"]
    assert "agent/partial" not in git(path, "branch", "--format=%(refname:short)").split()
    lead.run(key, "git fetch -q --refetch --no-filter")
    sha = pushed(lead, key, "agent/partial")
    assert sha == git(path, "rev-parse", "agent/partial")
