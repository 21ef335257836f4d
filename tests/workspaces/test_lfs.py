"""Files of git-lfs are pulled from a source's own host; what cannot be pulled stays a pointer, is named, fails nothing.

The server is a stand-in on loopback. Repositories are local; their `.lfsconfig` names it, or their address does.
"""

import dataclasses
import hashlib
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.lfs_server import MOST_DRIPS, lfs_server
from workspaces.manifests.git_state import dirty_of
from workspaces.provisioning.git import addresses, lfs, lfs_filter, running, submodules
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.store import Cancelled, LocalTree

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
FILTER = [
    "-c",
    f"filter.lfs.clean={sys.executable} -IS {lfs_filter.__file__} clean",
    "-c",
    f"filter.lfs.smudge={sys.executable} -IS {lfs_filter.__file__} smudge",
    "-c",
    "filter.lfs.required=true",
]
BIG, OTHER = b"\0\1big" * 50_000, b"other content of a file that is longer than its pointer" * 40


def git(folder, *args):
    done = subprocess.run([*GIT, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def pointer(content):
    return lfs_filter.pointer(hashlib.sha256(content).hexdigest(), len(content)).decode()


@pytest.fixture
def places(tmp_path, settings):
    folder = tmp_path / "sources"
    folder.mkdir()
    settings.HANDRAIL_LOCAL_SOURCES = [folder]
    settings.HANDRAIL_PRIVATE_SOURCES = True
    return folder


@pytest.fixture
def server():
    with lfs_server() as made:
        yield made


def repository(folder, files, url=""):
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    if url:
        git(folder, "config", "-f", ".lfsconfig", "lfs.url", f"{url}/shop.git/info/lfs")
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def keep(repository, content):
    """Put a content where a repository of git-lfs keeps it; return its path."""
    path = Path(lfs_filter.place_of(str(repository / ".git"), hashlib.sha256(content).hexdigest()))
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


def pulled(tmp_path, source, *, limit=0, cancel=None):
    """Clone with the content; return (folder, what is told of it, {path: why it stays a pointer})."""
    tree = tmp_path / "tree"
    tree.mkdir()
    pulling = lfs.Pulling(limit, lambda _: NONE, cancel)
    told = submodules.clone({"git": str(source)}, tree, pulling=pulling, cancel=cancel).get("lfs")
    return tree, told, {row["path"]: row["reason"] for row in told["left"]} if told else {}


def test_content_is_there_once_for_each_path_and_git_sees_pointers(places, tmp_path, server):
    files = {"a.bin": server.keep(BIG), "deep/b c.bin": server.keep(OTHER), "same.bin": server.keep(BIG)}
    source = repository(places / "shop", files | {"plain.txt": "text\n"}, server.at)
    tree, told, reasons = pulled(tmp_path, source)
    assert (told["files"], told["bytes"], reasons) == (3, 2 * len(BIG) + len(OTHER), {})
    assert [(tree / name).read_bytes() for name in files] == [BIG, OTHER, BIG]
    assert [row[:2] for row in server.asked].count(("GET", f"/objects/{hashlib.sha256(BIG).hexdigest()}")) == 1
    # The manifest, which runs no filter, and git with the filter: nothing was changed. A push has pointers.
    with LocalTree(tree).files() as seen:
        assert dirty_of(seen, git(tree, "rev-parse", "HEAD").strip())["count"] == 0
    assert git(tree, *FILTER, "status", "--porcelain") == ""
    assert git(tree, "show", "HEAD:a.bin") == files["a.bin"]


def test_what_an_agent_adds_becomes_a_pointer_and_comes_back_from_where_it_is_kept(places, tmp_path, server):
    tree, _, _ = pulled(tmp_path, repository(places / "shop", {"a.bin": server.keep(BIG)}, server.at))
    (tree / "a.bin").write_bytes(OTHER)
    assert git(tree, *FILTER, "status", "--porcelain") == " M a.bin\n"
    git(tree, *FILTER, "commit", "-qam", "change")
    assert git(tree, "show", "HEAD:a.bin") == pointer(OTHER)
    git(tree, *FILTER, "checkout", "-q", "HEAD~")
    assert (tree / "a.bin").read_bytes() == BIG
    git(tree, *FILTER, "checkout", "-q", "main")
    assert (tree / "a.bin").read_bytes() == OTHER
    assert git(tree, *FILTER, "status", "--porcelain") == ""
    Path(lfs_filter.place_of(str(tree / ".git"), hashlib.sha256(BIG).hexdigest())).unlink()
    git(tree, *FILTER, "checkout", "-q", "HEAD~")
    assert (tree / "a.bin").read_text() == pointer(BIG)  # as with GIT_LFS_SKIP_SMUDGE: a pointer, not an error


def test_a_local_source_gives_what_it_keeps_itself(places, tmp_path, server):
    source = repository(places / "shop", {"a.bin": pointer(BIG), "b.bin": pointer(OTHER)})
    keep(source, BIG)
    (tmp_path / "secret").write_bytes(OTHER)
    outside = keep(source, OTHER)
    outside.unlink()
    outside.symlink_to(tmp_path / "secret")
    tree, told, reasons = pulled(tmp_path, source)
    assert (tree / "a.bin").read_bytes() == BIG
    assert reasons == {"b.bin": "The source does not have its content."}
    assert (tree / "b.bin").read_text() == pointer(OTHER)
    assert told["files"] == 1


def test_submodules_have_their_files_too(places, tmp_path, server):
    leaf = repository(places / "leaf", {"leaf.bin": server.keep(OTHER)}, server.at)
    whole = repository(places / "whole", {"a.bin": server.keep(BIG)}, server.at)
    git(whole, "submodule", "--quiet", "add", str(leaf), "lib/leaf")
    git(whole, "commit", "-qm", "module")
    tree, told, _ = pulled(tmp_path, whole)
    assert (told["files"], (tree / "lib/leaf/leaf.bin").read_bytes()) == (2, OTHER)
    assert git(tree, *FILTER, "status", "--porcelain") == ""


def test_what_cannot_be_pulled_stays_a_pointer_and_says_why(places, tmp_path, server):
    files = {"a.bin": server.keep(BIG), "gone.bin": pointer(OTHER), "short.bin": server.keep(b"s" * 2000)}
    files["false.bin"] = server.keep(b"f" * 3000)
    server.kept[hashlib.sha256(b"f" * 3000).hexdigest()] = b"x" * 3000
    server.kept[hashlib.sha256(b"s" * 2000).hexdigest()] = b"s" * 1999
    tree, told, reasons = pulled(tmp_path, repository(places / "shop", files, server.at))
    assert reasons == {
        "gone.bin": "127.0.0.1 says: Object does not exist (404)",
        "short.bin": "What came is not what its pointer names.",
        "false.bin": "What came is not what its pointer names.",
    }
    assert (told["files"], (tree / "a.bin").read_bytes()) == (1, BIG)
    assert {name: (tree / name).read_text() for name in reasons} == {name: files[name] for name in reasons}
    assert git(tree, *FILTER, "status", "--porcelain") == ""
    kept = [path for path in (tree / ".git/lfs/objects").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == [hashlib.sha256(BIG).hexdigest()]


def test_the_disk_limit_of_the_environment_counts(places, tmp_path, server):
    files = {"a.bin": server.keep(BIG), "b.bin": server.keep(OTHER)}
    tree, _, reasons = pulled(tmp_path, repository(places / "shop", files, server.at), limit=len(BIG))
    assert reasons == {"a.bin": "Its 250,000 bytes would not fit into the disk limit of the environment."}
    assert (tree / "b.bin").read_bytes() == OTHER
    assert f"/objects/{hashlib.sha256(BIG).hexdigest()}" not in [path for _, path, _ in server.asked]


def test_nothing_leads_to_a_private_address(places, tmp_path, server, settings, monkeypatch):
    """The host of the source is allowed here; what its answers lead to is not."""
    settings.HANDRAIL_PRIVATE_SOURCES = False
    monkeypatch.setattr(addresses, "may_be_reached", lambda address: address == "127.0.0.1")
    with lfs_server("127.77.9.4") as inner:
        files = {"a.bin": server.keep(BIG), "b.bin": server.keep(OTHER), "c.bin": server.keep(b"c" * 2000)}
        a, b, c = (hashlib.sha256(each).hexdigest() for each in (BIG, OTHER, b"c" * 2000))
        inner.kept = dict(server.kept)
        to = {a: f"{inner.at}/objects/{a}", b: f"{server.at}/leads/on", c: "file:///etc/passwd"}
        server.action = lambda oid: {"href": to[oid]}
        server.answers["/leads/on"] = (302, {"Location": f"{inner.at}/objects/{b}"})
        _, _, reasons = pulled(tmp_path, repository(places / "shop", files, server.at))
        private = "127.77.9.4 is at a private address (127.77.9.4); HANDRAIL_PRIVATE_SOURCES=1 allows that."
        assert reasons == {"a.bin": private, "b.bin": private, "c.bin": "It is at no address of http or https."}
        assert inner.asked == []
    (tmp_path / "tree").rename(tmp_path / "first")
    _, _, reasons = pulled(tmp_path, repository(places / "other", files, inner.at))
    assert set(reasons.values()) == {private}


def source_at(server, folder):
    """The source as if it had been cloned from the server by http, which serves only its files of git-lfs."""
    return dataclasses.replace(addresses.check_git(f"{server.at}/shop"), ref=str(folder))


def test_the_token_goes_to_the_source_host_alone(places, tmp_path, server):
    with lfs_server("127.77.9.5") as storage:
        files = {"a.bin": server.keep(BIG), "b.bin": server.keep(OTHER)}
        oid, other = hashlib.sha256(BIG).hexdigest(), hashlib.sha256(OTHER).hexdigest()
        storage.kept = dict(server.kept)
        server.password = "canary-token"
        server.answers[f"/objects/{other}"] = (302, {"Location": f"{storage.at}/objects/{other}"})
        header = {"X-Signed": "yes"}
        at = {oid: storage.at, other: server.at}
        server.action = lambda asked: {"href": f"{at[asked]}/objects/{asked}", "header": header}
        folder = repository(tmp_path / "clone", files)
        source = source_at(server, folder)
        without = lfs.Pulling(0, lambda _: Credential("CODE_HOST_HERE", origin=server.at))
        without.of(source, folder)
        (said,) = {row["reason"] for row in without.told["left"]}
        assert said.startswith(f"{server.at.removeprefix('http://')} asks for credentials. A lead can set the secret")
        asked_for, sent = [], Credential("CODE_HOST_HERE", token="canary-token", origin=server.at)
        pulling = lfs.Pulling(0, lambda place: asked_for.append(place.host) or sent)
        pulling.of(source, folder)
        assert (pulling.told["files"], pulling.told["left"], asked_for) == (2, [], ["127.0.0.1"])
        assert [path for _, path, _ in server.asked][-2:] == ["/shop.git/info/lfs/objects/batch", f"/objects/{other}"]
        assert [authorization for _, _, authorization in storage.asked] == ["", ""]
        folder = repository(tmp_path / "foreign", files)
        foreign = lfs.Pulling(0, lambda place: sent)
        foreign.of(source, folder, lent=False)
        assert foreign.told["files"] == 0


OURS = "{at}/team/shop.git/info/lfs"


@pytest.mark.parametrize(
    ("source", "url", "is_lent"),
    [
        ("{at}/team/shop.git", "", True),
        ("{at}/team/shop", OURS, True),
        ("{at}/team/shop", "{at}/team/assets.git/info/lfs/", True),
        ("ssh://git@127.0.0.1/team/shop.git", OURS, True),
        ("git@127.0.0.1:team/shop.git", OURS, True),
        ("{at}/shop.git", "{at}/shop.git/info/lfs", True),
        ("{at}/shop.git", "{at}/other.git/info/lfs", False),
        ("{at}/team/shop", "{at}/stranger/shop.git/info/lfs", False),
        ("git@127.0.0.1:team/shop.git", "{at}/stranger/shop.git/info/lfs", False),
        ("{at}/team/shop", "{at}/team/shop.git/raw/lfs", False),
        ("{at}/team/shop", "{at}/team/../stranger/x.git/info/lfs", False),
        ("{at}/team/shop", "{at}/team/./shop.git/info/lfs", False),
        ("{at}/team/shop", "{at}/team/%2e%2e/stranger/x.git/info/lfs", False),
        ("{at}/team/shop", "{at}/team/..;/stranger/x.git/info/lfs", False),
        ("{at}/team/shop", "{at}//team/shop.git/info/lfs", False),
        ("http://127.0.0.1:1/team/shop", OURS, False),
        ("git://127.0.0.1/team/shop", OURS, False),
    ],
)
def test_the_token_goes_to_repositories_of_the_sources_owner_alone(places, tmp_path, server, source, url, is_lent):
    folder = repository(tmp_path / "clone", {"a.bin": server.keep(BIG)})
    if url:
        git(folder, "config", "-f", ".lfsconfig", "lfs.url", url.format(at=server.at))
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "lfs")
    sent = Credential("CODE_HOST_HERE", token="canary-token", origin=server.at)
    pulling = lfs.Pulling(0, lambda place: sent)
    pulling.of(addresses.check_git(source.format(at=server.at)), folder)
    assert any(authorization for _, _, authorization in server.asked) == is_lent
    assert server.asked


@pytest.mark.parametrize("mark", ["?x=", "#"])
def test_an_endpoint_with_a_query_is_not_asked(places, tmp_path, server, mark):
    folder = repository(tmp_path / "clone", {"a.bin": server.keep(BIG)})
    git(folder, "config", "-f", ".lfsconfig", "lfs.url", f"{server.at}/team/shop{mark}/team/shop.git/info/lfs")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "lfs")
    pulling = lfs.Pulling(0, lambda place: NONE)
    pulling.of(addresses.check_git(f"{server.at}/team/shop"), folder)
    assert [row["reason"] for row in pulling.told["left"]] == ["The address of its git-lfs API can't contain ? or #."]
    assert server.asked == []


def test_each_batch_is_downloaded_before_the_next_is_asked_for(places, tmp_path, server, monkeypatch):
    monkeypatch.setattr(lfs, "BATCH", 1)
    told, batch = [], lfs._batch
    monkeypatch.setattr(lfs, "_batch", lambda *args: told.append(batch(*args)) or told[-1])
    ours = {"href": f"{server.at}/objects/{hashlib.sha256(BIG).hexdigest()}"}
    server.others = [{"oid": "other", "actions": {"download": ours}}]
    files = {"a.bin": server.keep(BIG), "b.bin": server.keep(OTHER)}
    server.more = {"x": "y" * 1000}
    pulled(tmp_path, repository(places / "shop", files, server.at))
    assert [method for method, *_ in server.asked] == ["POST", "GET", "POST", "GET"]
    oids = [hashlib.sha256(each).hexdigest() for each in (BIG, OTHER)]
    assert [list(each) for each in told] == [[oid] for oid in oids]
    assert told[0][oids[0]] == {"actions": {"download": ours}}


def test_only_files_that_can_be_pointers_are_read_from_a_revision(places, tmp_path, server):
    source = repository(places / "shop", {"plain.txt": "text\n"})
    base = git(source, "rev-parse", "HEAD").strip()
    long = f"{lfs_filter.FIRST_LINE}\n{'x' * lfs_filter.POINTER_BYTES}"
    (source / "long.bin").write_text(long)
    (source / "a.bin").write_text(pointer(BIG))
    (source / "link.bin").symlink_to(pointer(OTHER)[:100])
    git(source, "add", ".")
    git(source, "commit", "-qm", "second")
    read = []

    def spying(*args, **how):
        read.extend(args[2:] if args[0] == "cat-file" else [])
        return run(*args, **how)

    with running.git_in(source) as run:
        found = lfs._wanted_since(spying, base, "HEAD")
    assert [content.paths for content in found] == [("a.bin",)]
    assert read == ["HEAD:a.bin"]


def test_a_long_lfsconfig_is_not_read(places, tmp_path, server):
    folder = repository(tmp_path / "clone", {"a.bin": server.keep(BIG)}, server.at)
    with open(folder / ".lfsconfig", "a") as file:
        file.write("# more\n" * 10_000)
    git(folder, "commit", "-qam", "long")
    pulling = lfs.Pulling(0, lambda place: NONE)
    pulling.of(addresses.check_git(f"{server.at}/team/shop"), folder)
    assert [row["reason"] for row in pulling.told["left"]] == ["Its .lfsconfig has more than 65,536 bytes."]
    assert server.asked == []


def test_a_cancellation_ends_it(places, tmp_path, server):
    cancel = threading.Event()
    source = repository(places / "shop", {"a.bin": server.keep(BIG)}, server.at)
    server.action = lambda oid: cancel.set() or {"href": f"{server.at}/objects/{oid}"}
    with pytest.raises(Cancelled):
        pulled(tmp_path, source, cancel=cancel)


@pytest.mark.parametrize("drips", ["batch headers", "batch", "content headers", "content"])
@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_a_host_that_drips_is_left_at_the_deadline_and_on_a_cancellation(places, tmp_path, server, drips, how):
    folder = repository(tmp_path / "clone", {"a.bin": server.keep(BIG)}, server.at)
    cancel = threading.Event()
    pulling = lfs.Pulling(0, lambda place: NONE, cancel)
    source = addresses.check_git(f"{server.at}/shop")

    def end():
        if server.dripped == 5 and how == "cancelled":
            cancel.set()
        elif server.dripped == 5:
            pulling.ending.until = 0.0

    server.drips, server.on_drip = drips, end
    if how == "cancelled":
        with pytest.raises(Cancelled):
            pulling.of(source, folder)
    else:
        pulling.of(source, folder)
        assert [row["reason"] for row in pulling.told["left"]] == ["The files took longer than their limit of time."]
    assert 5 <= server.dripped < MOST_DRIPS
    assert (folder / "a.bin").read_text() == pointer(BIG)


def test_a_batch_answer_that_is_too_long_is_refused(places, tmp_path, server, monkeypatch):
    monkeypatch.setattr(lfs, "ANSWER_BYTES", 1000)
    server.more = {"x": "y" * 1000}
    _, _, reasons = pulled(tmp_path, repository(places / "shop", {"a.bin": server.keep(BIG)}, server.at))
    assert reasons == {"a.bin": "The answer has more than 1,000 bytes."}


def test_git_in_the_workspace_and_the_export_page_see_pointers(desk, product):
    folder = Path(tempfile.mkdtemp(prefix="lfs-", dir=product.sources))
    source = repository(folder / "shop", {"a.bin": pointer(BIG)})
    keep(source, BIG)
    manager = Desk(product, product.person_token("manager-of-lfs", "admin"))
    manager.post("/environments", {"name": "with-lfs", "driver": "sandbox", "lfs": "pulled"})
    made = desk.create(environment="with-lfs", source={"git": str(source)})
    assert made["source"]["lfs"] == {"files": 1, "bytes": len(BIG), "left": [], "more": 0}
    manifest = desk.get(f"/workspaces/{made['key']}/snapshots/1/manifest").json
    assert manifest["dirty"]["count"] == 0
    said = desk.run(made["key"], "sha256sum < a.bin | cut -c1-64; git status --porcelain")
    assert said.decode().split() == [hashlib.sha256(BIG).hexdigest()]
    change = "head -c 5000 /dev/zero > a.bin; git commit -qam zeros; git show HEAD:a.bin; git status --porcelain"
    assert desk.run(made["key"], change).decode() == pointer(bytes(5000))
    asked = desk.post(f"/workspaces/{made['key']}/push", {"branch": "agent/lfs"}, expect=202).json["action"]
    evidence = desk.get(f"/actions/{asked['id']}/evidence").json
    said = [line for finding in evidence["findings"] for line in finding["says"] if line.startswith("Leaves out")]
    assert said == ["Leaves out 1 file of git-lfs: only its pointer is pushed (a.bin)."]


def test_a_revision_brings_the_content_of_its_files(desk, product):
    folder = Path(tempfile.mkdtemp(prefix="lfs-", dir=product.sources))
    source = repository(folder / "shop", {"a.bin": pointer(BIG), "same.bin": pointer(OTHER)})
    keep(source, BIG)
    keep(source, OTHER)
    manager = Desk(product, product.person_token("manager-of-revisions", "admin"))
    manager.post("/environments", {"name": "revised-lfs", "driver": "sandbox", "lfs": "pulled"})
    key = manager.create(environment="revised-lfs", source={"git": str(source)})["key"]
    manager.run(key, "echo mine > mine; git add mine; git commit -qm mine")
    new = b"n" * 5000
    keep(source, new)
    (source / "a.bin").write_text(pointer(new))
    (source / "gone.bin").write_text(pointer(b"g" * 4000))
    git(source, "add", ".")
    git(source, "commit", "-qm", "second")
    manager.post(f"/workspaces/{key}/revisions", {"git": str(source)}, expect=None)
    told = manager.settled(key)["source"]["lfs"]
    assert (told["files"], [row["path"] for row in told["left"]]) == (3, ["gone.bin"])
    said = manager.run(key, "sha256sum < a.bin; sha256sum < same.bin; git status --porcelain; cat gone.bin")
    assert said.decode().splitlines()[:2] == [f"{hashlib.sha256(each).hexdigest()}  -" for each in (new, OTHER)]
    assert said.decode().endswith(f"-\n{pointer(b'g' * 4000)}")


def test_contents_are_there_after_going_back_and_for_commits_that_were_brought_beside(desk, product):
    folder = Path(tempfile.mkdtemp(prefix="lfs-", dir=product.sources))
    source = repository(folder / "shop", {"a.bin": pointer(BIG)})
    keep(source, BIG)
    manager = Desk(product, product.person_token("manager-of-lfs-again", "admin"))
    manager.post("/environments", {"name": "lfs-again", "driver": "sandbox", "lfs": "pulled"})
    key = manager.create(environment="lfs-again", source={"git": str(source)})["key"]
    new = b"n" * 5000
    keep(source, new)
    (source / "a.bin").write_text(pointer(new))
    git(source, "commit", "-qam", "second")
    wish = {"git": str(source)}

    def seen():
        return manager.run(key, "sha256sum < a.bin | cut -c1-64; git status --porcelain").decode().strip()

    manager.post(f"/workspaces/{key}/revisions", wish | {"how": "beside"}, expect=None)
    manager.settled(key)
    first = manager.get(f"/workspaces/{key}").json["source"]
    assert first["sha"] != git(source, "rev-parse", "HEAD").strip()
    assert seen() == hashlib.sha256(BIG).hexdigest()
    number = manager.post(f"/workspaces/{key}/snapshots").json["number"]
    manager.run(key, "git merge -q origin/main")
    assert seen() == hashlib.sha256(new).hexdigest()
    manager.run(key, "git reset -q --hard HEAD~; rm -r .git/lfs")
    manager.post(f"/workspaces/{key}/revisions", wish, expect=None)
    manager.settled(key)
    assert seen() == hashlib.sha256(new).hexdigest()
    manager.post(f"/workspaces/{key}/snapshots/{number}/restore", expect=None)
    manager.settled(key)
    manager.post(f"/workspaces/{key}/revisions", wish, expect=None)
    manager.settled(key)
    assert seen() == hashlib.sha256(new).hexdigest()
