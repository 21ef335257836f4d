"""Submodules of a source are cloned under the rules of the source; each that is not is named, and fails nothing."""

import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dashboard.problems import Problem
from workspaces.manifests.submodules import submodules_of
from workspaces.provisioning.git import running, submodules
from workspaces.store import LocalTree

HERE = "127.77.9.3"
GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]


@pytest.fixture
def places(tmp_path, settings):
    """The folder of allowed local repositories, with `leaf` and `sub`, which has leaf at `deep/le af`."""
    folder = tmp_path / "sources"
    folder.mkdir()
    settings.HANDRAIL_LOCAL_SOURCES = [folder]
    settings.HANDRAIL_PRIVATE_SOURCES = True
    hosts = tmp_path / "hosts"
    hosts.write_text(f"{HERE} known-here.test\n")
    settings.HANDRAIL_EGRESS_HOSTS = str(hosts)
    repository(folder / "leaf")
    add(repository(folder / "sub"), "../leaf", "deep/le af")
    return folder


def git(folder, *args):
    done = subprocess.run([*GIT, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder):
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / f"{folder.name}.txt").write_text(f"{folder.name}\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def add(folder, url, path, shown=None):
    """Add a submodule and commit; its address in .gitmodules becomes `shown`."""
    git(folder, "submodule", "--quiet", "add", url, path)
    if shown is not None:
        git(folder, "config", "-f", ".gitmodules", f"submodule.{path}.url", shown)
    git(folder, "commit", "-qam", f"add {path}")


def cloned(tmp_path, address, **how):
    tree = tmp_path / "tree"
    tree.mkdir()
    made = submodules.clone({"git": str(address), "sha": "old", "submodules": []}, tree, **how)
    return tree, made, {row["path"]: row["reason"] for row in made.get("submodules", ())}


def test_submodules_that_are_left_are_empty_folders_as_in_a_plain_clone(places, tmp_path):
    add(repository(places / "super"), "../sub", "lib/sub")
    tree, made, reasons = cloned(tmp_path, places / "super", left=True)
    assert reasons == {"lib/sub": "The environment leaves submodules as empty folders."}
    assert made["submodules"][0]["sha"] == git(places / "sub", "rev-parse", "HEAD")
    git(places, "clone", "-q", f"file://{places / 'super'}", str(tmp_path / "plain"))
    plain = tmp_path / "plain"
    assert list((tree / "lib/sub").iterdir()) == list((plain / "lib/sub").iterdir()) == []
    for asked in (["submodule", "status"], ["status", "--porcelain"]):
        assert git(tree, *asked) == git(plain, *asked)
    assert not (tree / ".git/modules").exists()
    assert "[submodule" not in (tree / ".git/config").read_text()


def test_submodules_of_submodules_are_there_and_git_has_nothing_left_to_do(places, tmp_path):
    add(repository(places / "super"), "../sub", "lib/sub")
    tree, made, reasons = cloned(tmp_path, places / "super")
    assert reasons == {"lib/sub": "", "lib/sub/deep/le af": ""}
    moved = tree.rename(tmp_path / "elsewhere")  # a workspace sees its files at another path
    assert (moved / "lib/sub/deep/le af/leaf.txt").read_text() == "leaf\n"
    before = (moved / ".git/config").read_bytes()
    git(moved, "submodule", "update", "--init", "--recursive")
    assert (moved / ".git/config").read_bytes() == before
    assert git(moved, "status", "--porcelain") == ""
    assert all(line.startswith((" ", "")) and line[0] != "-" for line in git(moved, "submodule", "status").splitlines())
    with LocalTree(moved).files() as files:
        told = submodules_of(files)
    assert told == [{"path": row["path"], "sha": row["sha"], "filled": True} for row in made["submodules"]]


def test_a_commit_that_no_branch_leads_to_is_cloned(places, tmp_path):
    git(places / "leaf", "checkout", "-q", "--detach")
    git(places / "leaf", "commit", "-q", "--allow-empty", "-m", "side")
    add(repository(places / "super"), "../leaf", "leaf")
    git(places / "leaf", "checkout", "-q", "main")
    _, _, reasons = cloned(tmp_path, places / "super")
    assert reasons == {"leaf": ""}


def test_an_unavailable_submodule_is_named_and_fails_nothing(places, tmp_path):
    whole = repository(places / "super")
    add(whole, "../leaf", "good")
    refused = {
        "host": ("https://nowhere.invalid/x.git", "Can't resolve"),
        "outside": (str(tmp_path / "private"), "HANDRAIL_LOCAL_SOURCES"),
        "file": (f"file://{tmp_path}/private", "HANDRAIL_LOCAL_SOURCES"),
        "above": ("../../../../../../../../../etc", "leads out"),
        "helper": ("ext::sh -c touch% /tmp/x", "A git address"),
        "key": ("https://me:secret@known-here.test/x.git", "credentials"),
        "ssh": ("git@known-here.test:a/x.git", "ssh key for known-here.test is used only"),
        "dash": ("--upload-pack=touch", "can't begin with"),
        "none": ("", "no address"),
    }
    for path, (url, _) in refused.items():
        add(whole, "../leaf", path, url)
    add(whole, "../leaf", "skipped")
    git(whole, "config", "-f", ".gitmodules", "submodule.skipped.update", "none")
    git(whole, "commit", "-qam", "skip one")
    refused["skipped"] = ("../leaf", "update = none")
    tree, made, reasons = cloned(tmp_path, whole)
    assert reasons.pop("good") == ""
    assert {path: words in reasons[path] for path, (_, words) in refused.items()} == dict.fromkeys(refused, True)
    assert all(not any((tree / path).iterdir()) for path in refused)
    assert "secret" not in str(made["submodules"])
    with LocalTree(tree).files() as files:
        assert {row["path"]: row["filled"] for row in submodules_of(files)} == {
            path: path == "good" for path in (*refused, "good")
        }


def test_a_commit_that_is_gone_leaves_an_empty_folder(places, tmp_path):
    whole = repository(places / "super")
    add(whole, "../leaf", "leaf")
    git(whole, "update-index", "--cacheinfo", f"160000,{'ab' * 20},leaf")
    git(whole, "commit", "-qm", "gone")
    tree, _, reasons = cloned(tmp_path, whole)
    assert "ab" * 6 in reasons["leaf"]
    assert list((tree / "leaf").iterdir()) == []


@pytest.fixture
def served(places, tmp_path):
    """`served(NAME)`: the address of a bare copy of a local repository over HTTP, below /team/ or elsewhere."""
    folder = tmp_path / "served"
    heard = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            heard.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith(("/team/private", "/others/private")) and not self.headers.get("Authorization"):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.end_headers()
                return
            super().do_GET()

    server = ThreadingHTTPServer((HERE, 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def serve(name, at="team/{}"):
        target = folder / at.format(name)
        git(places, "clone", "-q", "--bare", name, target)
        git(target, "update-server-info")
        return f"http://known-here.test:{server.server_port}/{at.format(name)}"

    serve.heard = heard
    yield serve
    server.shutdown()
    server.server_close()


def test_a_repository_from_elsewhere_names_no_folder_of_this_host(served, places, tmp_path):
    whole = repository(places / "super")
    add(whole, "../leaf", "local", str(places / "leaf"))
    add(whole, "../leaf", "beside")
    served("leaf")
    tree, _, reasons = cloned(tmp_path, served("super"))
    assert "can't name a folder of this host" in reasons["local"]
    assert reasons["beside"] == ""
    assert (tree / "beside/leaf.txt").exists()


def test_keys_are_lent_to_submodules_of_the_same_owner_alone(served, places, tmp_path, settings, monkeypatch):
    settings.HANDRAIL_GIT_HOSTS = ["known-here.test"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.netrc").write_text("machine known-here.test login me password canary\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("private", "private2"):
        repository(places / name)
    whole = repository(places / "super")
    add(whole, "../private", "ours")
    theirs = served("private2", "others/{}")
    add(whole, "../private2", "theirs", theirs)
    add(whole, "../private2", "hidden", "../team/../others/private2")
    add(whole, "../private2", "ssh", "git@known-here.test:others/private2")
    served("private")
    _, _, reasons = cloned(tmp_path, served("super"))
    assert reasons["ours"] == ""
    assert "asks for credentials. git said" in reasons["theirs"]
    assert "or it is private" in reasons["hidden"]
    assert "own owner" in reasons["ssh"]
    assert not any(key for path, key in served.heard if path.startswith("/others/"))
    assert any(key for path, key in served.heard if path.startswith("/team/private/"))


def test_the_source_itself_is_refused_as_ever(places, tmp_path):
    with pytest.raises(Problem):
        submodules.clone({"git": "/etc"}, tmp_path)
    with pytest.raises(running.CloneFailed):
        submodules.clone({"git": str(repository(places / "one")), "ref": "nowhere"}, tmp_path / "sources" / "..")


@pytest.mark.parametrize(
    ("parent", "url", "found"),
    [
        ("https://h:443/a/b.git", "../c.git", "https://h:443/a/c.git"),
        ("https://h:443/a/b.git/", "./c", "https://h:443/a/b.git/c"),
        ("https://h:443/a/b.git", "../../x/../c.git/", "https://h:443/x/../c.git"),
        ("git@h:a/b.git", "../c.git", "git@h:a/c.git"),
        ("git@h:b.git", "../c.git", "git@h:c.git"),
        ("/s/a/b", "../../c", "/s/c"),
        ("/s/b", "/t", "/t"),
    ],
)
def test_relative_addresses_are_read_as_git_reads_them(parent, url, found):
    assert submodules.absolute(parent, url) == found
