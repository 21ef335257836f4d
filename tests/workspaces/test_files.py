"""Live files: list, read, write, delete, and never outside the workspace."""

import os
from hashlib import sha256

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="module")
def key(desk):
    return desk.create()["key"]


def test_a_file_is_written_read_listed_and_deleted(desk, key):
    at = f"/workspaces/{key}/files/src/deep/a.txt"
    assert desk.call("PUT", at, b"one\n", 201).json["created"] is True
    assert desk.call("PUT", at, b"two\n", 200).json["created"] is False
    assert desk.get(at).body == b"two\n"
    entries = desk.get(f"/workspaces/{key}/files/src/deep").json["entries"]
    assert [(e["name"], e["type"], e["size"], e["mode"]) for e in entries] == [("a.txt", "file", 4, "0644")]
    assert desk.run(key, "stat -c '%u %a' src/deep/a.txt src/deep src") == b"1000 644\n1000 755\n1000 755\n"
    desk.call("DELETE", at)
    desk.get(at, expect=404)


def test_a_rewritten_file_keeps_its_mode(desk, key):
    desk.run(key, "printf x > run.sh; chmod 750 run.sh")
    desk.call("PUT", f"/workspaces/{key}/files/run.sh", b"#!/bin/sh\n")
    assert desk.run(key, "stat -c %a run.sh") == b"750\n"


def test_an_answer_is_an_attachment_that_no_browser_renders(desk, key):
    desk.call("PUT", f"/workspaces/{key}/files/page.html", b"<script>alert(1)</script>", 201)
    headers = desk.get(f"/workspaces/{key}/files/page.html").headers
    assert headers["Content-Disposition"] == "attachment"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"]


def test_a_file_larger_than_what_may_be_written_is_read_whole(new_product):
    product = new_product(HANDRAIL_FILE_BYTES="4096")
    product.start()
    desk = Desk(product, product.agent_token())
    key = desk.create()["key"]
    digest = desk.run(key, "head -c 3000000 /dev/urandom > large; sha256sum < large").split()[0].decode()
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    desk.call("PUT", f"/workspaces/{key}/files/large", bytes(4097), expect=413)
    live, kept = [desk.get(f"/workspaces/{key}/files/large{at}") for at in ("", f"?snapshot={number}")]
    assert [sha256(answer.body).hexdigest() for answer in (live, kept)] == [digest, digest]


def test_names_that_are_not_utf8_travel_percent_encoded(desk, key):
    desk.run(key, r"""python3 -c "import os; open(b'caf\xe9', 'wb').write(b'latin')" """)
    assert desk.get(f"/workspaces/{key}/files/caf%E9").body == b"latin"
    listed = desk.get(f"/workspaces/{key}/files/").json["entries"]
    assert [e["name_b64"] for e in listed if "name_b64" in e] == ["Y2Fm6Q=="]


@pytest.mark.parametrize(
    "path", ["../outside", "a/../../outside", "/etc/passwd", "%2e%2e/outside", "a%00b", "..", "%2Fetc%2Fpasswd"]
)
def test_paths_outside_are_refused(desk, key, path):
    for method, body in (("GET", None), ("PUT", b"x"), ("DELETE", None)):
        answer = desk.product.call(method, f"/api/v1/workspaces/{key}/files/{path}", desk.token, body)
        assert answer.status in (404, 422), (method, path, answer.status)


def test_a_symlink_out_of_the_workspace_is_not_followed(desk, key, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("host secret")
    os.chmod(tmp_path, 0o755)
    desk.run(key, f"ln -sfn {tmp_path} out; ln -sfn {secret} leak; ln -sfn /etc etc")
    for path in ("leak", "out/secret", "etc/passwd"):
        answer = desk.product.call("GET", f"/api/v1/workspaces/{key}/files/{path}", desk.token)
        assert answer.status in (404, 422), path
        assert b"host secret" not in answer.body
    assert desk.product.call("PUT", f"/api/v1/workspaces/{key}/files/leak", desk.token, b"x").status == 409
    assert desk.product.call("PUT", f"/api/v1/workspaces/{key}/files/out/new", desk.token, b"x").status in (404, 422)
    assert secret.read_text() == "host secret"
    assert os.listdir(tmp_path) == ["secret"]
    desk.call("DELETE", f"/workspaces/{key}/files/out")
    assert secret.exists()


def test_a_fifo_does_not_hang_the_reader(desk, key):
    desk.run(key, "mkfifo pipe")
    assert desk.get(f"/workspaces/{key}/files/pipe", expect=409).json["detail"].startswith("This isn't a regular file")


def test_a_person_without_the_role_may_read_but_not_write(desk, key, product):
    desk.call("PUT", f"/workspaces/{key}/files/kept", b"kept", 201)
    before = desk.get(f"/workspaces/{key}/files/").json
    viewer = type(desk)(product, product.person_token("viewer-of-files", "viewer"))
    assert viewer.get(f"/workspaces/{key}/files/").json == before
    viewer.call("PUT", f"/workspaces/{key}/files/x", b"x", 403)
    viewer.call("DELETE", f"/workspaces/{key}/files/kept", None, 403)
    stranger = type(desk)(product, product.agent_token("stranger", team="elsewhere"))
    stranger.get(f"/workspaces/{key}/files/", expect=404)
    stranger.call("PUT", f"/workspaces/{key}/files/x", b"x", 404)
    assert desk.get(f"/workspaces/{key}/files/").json == before
