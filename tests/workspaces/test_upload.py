"""Uploads: a folder or a tar becomes a workspace; what is hostile becomes a reason in words."""

import gzip
import io
import tarfile

import pytest
import zstandard


def tar_of(*members) -> bytes:
    """A tar of (name, bytes) files and of ready TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda raw: zstandard.compress(raw)])
def test_a_tar_becomes_a_workspace(desk, pack):
    sent = desk.post("/uploads", pack(tar_of(("d/a.txt", b"hello\n"), ("b", b""))))
    made = desk.create(source={"upload": sent.json["id"]})
    assert (made["state"], made["entries"]) == ("ready", 3)
    assert desk.run(made["key"], "cat d/a.txt; stat -c %u d/a.txt") == b"hello\n1000\n"


@pytest.mark.parametrize(
    "member",
    [
        ("../outside", b"x"),
        ("/etc/outside", b"x"),
        special("device", tarfile.CHRTYPE),
        special("hard", tarfile.LNKTYPE, "../../etc/passwd"),
    ],
    ids=["dot-dot", "absolute", "device", "hard link out"],
)
def test_a_hostile_member_is_refused(desk, member):
    sent = desk.post("/uploads", tar_of(("fine", b"1"), member))
    made = desk.create(source={"upload": sent.json["id"]})
    assert made["state"] == "failed"
    assert made["reason"]


def test_a_symlink_out_is_never_written_through(desk, tmp_path):
    sent = desk.post("/uploads", tar_of(special("out", tarfile.SYMTYPE, str(tmp_path)), ("out/file", b"x")))
    assert desk.create(source={"upload": sent.json["id"]})["state"] == "failed"
    assert list(tmp_path.iterdir()) == []


def test_links_of_a_virtual_environment_and_pairs_of_names_are_taken(desk):
    names = ["README.md", "readme.md", "caf\u00e9", "cafe\u0301"]
    links = [special(".venv/bin/python", tarfile.SYMTYPE, "/usr/bin/python3"), special("up", tarfile.SYMTYPE, "../..")]
    sent = desk.post("/uploads", tar_of(*((name, name.encode()) for name in names), *links))
    made = desk.create(source={"upload": sent.json["id"]})
    assert (made["state"], made["reason"]) == ("ready", "")
    assert desk.run(made["key"], "readlink .venv/bin/python up; cat README.md readme.md") == (
        b"/usr/bin/python3\n../..\nREADME.mdreadme.md"
    )
    again = desk.post("/uploads", tar_of(("README.md", b"two"), links[0]))
    revised = desk.post(f"/workspaces/{made['key']}/revisions", {"upload": again.json["id"], "mode": "replace"})
    assert revised.json["state"] != "failed"
    assert desk.run(made["key"], "cat README.md; ls -A") == b"two.handrail\n.venv\nREADME.md\n"


def test_an_invalid_tar_is_refused(desk):
    sent = desk.post("/uploads", b"this is no archive")
    made = desk.create(source={"upload": sent.json["id"]})
    assert (made["state"], "tar" in made["reason"]) == ("failed", True)


def test_uploads_that_are_none(desk, product):
    desk.post("/uploads", b"", expect=422)
    desk.post("/workspaces", {"key": "no-upload", "source": {"upload": "0" * 32}}, expect=422)
    desk.post("/workspaces", {"key": "no-upload", "source": {"upload": "../../keys/secret_key"}}, expect=422)
    sent = desk.post("/uploads", tar_of(("a", b"1")))
    foreign = type(desk)(product, product.agent_token("thief", team="thieves"))
    foreign.post("/workspaces", {"key": "stolen", "source": {"upload": sent.json["id"]}}, expect=422)
    viewer = type(desk)(product, product.person_token("viewer-of-uploads", "viewer"))
    kept = set(product.home.glob("uploads/*/*"))
    viewer.post("/uploads", tar_of(("a", b"1")), expect=403)
    assert set(product.home.glob("uploads/*/*")) == kept
    desk.get("/workspaces/no-upload", expect=404)
    foreign.get("/workspaces/stolen", expect=404)


def test_push_sends_a_folder_without_what_is_ignored(product, desk, tmp_path):
    (tmp_path / "src/node_modules/x").mkdir(parents=True)
    (tmp_path / "src/node_modules/x/index.js").write_text("x")
    (tmp_path / "src/main.py").write_text("print(1)\n")
    (tmp_path / "src/main.log").write_text("noise")
    (tmp_path / "src/same.py").hardlink_to(tmp_path / "src/main.py")
    (tmp_path / "src/python").symlink_to("/usr/bin/python3")
    (tmp_path / "patterns").write_text("*.log\n")
    product.environment["HANDRAIL_TOKEN"] = desk.token
    try:
        done = product.manage(
            "push",
            str(tmp_path / "src"),
            "pushed",
            "--ignore",
            "node_modules/",
            "--ignore-file",
            str(tmp_path / "patterns"),
        )
    finally:
        del product.environment["HANDRAIL_TOKEN"]
    assert done.returncode == 0, done.stderr
    assert desk.settled("pushed")["state"] == "ready"
    listed = [entry["name"] for entry in desk.get("/workspaces/pushed/files/").json["entries"]]
    assert listed == ["main.py", "python", "same.py"]
