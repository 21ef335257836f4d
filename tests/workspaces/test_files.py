"""Live files: list, read, write, delete, and never outside the workspace."""

import os
import re
from hashlib import sha256
from urllib.parse import quote

import pytest
from django.urls import URLResolver, get_resolver
from django.urls.converters import PathConverter

from tests.approvals.evidence.conftest import Person
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


ODD_NAMES = ["two\nlines.txt", "\nfirst", "last\n", "d\nir/in\n\nner", "r\r\nn", "a\u2028b", "\x85"]
ODD_NAMES += ["\t\x1b[0m\x7f", "%0A", "q?x=1#y&z;"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_each_verb_takes_each_name_that_a_file_can_have(desk, key, product, lead_token, name):
    people, at = Desk(product, lead_token), quote(name)
    assert desk.call("PUT", f"/workspaces/{key}/files/{at}", b"y\n", 201).json["path"] == name
    assert desk.get(f"/workspaces/{key}/files/{at}").body == b"y\n"
    folder, _, last = name.rpartition("/")
    listed = desk.get(f"/workspaces/{key}/files/{quote(folder)}" + ("" if not folder else "/")).json["entries"]
    assert last in [entry["name"] for entry in listed]
    assert desk.get(f"/workspaces/{key}/files/?zip=true&path={quote(name, safe='')}").body[:2] == b"PK"
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    assert desk.get(f"/workspaces/{key}/files/{at}?snapshot={number}").body == b"y\n"
    assert people.get(f"/workspaces/{key}/file-history/{at}").json["versions"]
    assert people.get(f"/workspaces/{key}/blame/{at}").json["lines"]
    desk.call("DELETE", f"/workspaces/{key}/files/{at}")
    desk.get(f"/workspaces/{key}/files/{at}", expect=404)
    desk.post(f"/workspaces/{key}/snapshots/{number}/restore", {"paths": [name]}, expect=None)
    desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/{at}").body == b"y\n"


def test_pages_show_files_with_each_name(desk, key, product):
    person = Person(product, "files-reader")
    for name in ODD_NAMES:
        desk.call("PUT", f"/workspaces/{key}/files/{quote(name)}", b"read me\n", None)
        for page in ("", "history/", "blame/"):
            text = person.get(f"/w/main/{key}/files/{page}?path={quote(name, safe='')}")
            assert page == "history/" or "read me" in text, (page, name)
    assert person.get(f"/w/main/{key}/files/?path={quote('d' + chr(10) + 'ir', safe='')}")


def test_no_address_of_the_api_ends_at_a_line_break():
    seen = [(route, parts) for route, parts in routes_of(get_resolver().url_patterns) if route.startswith("api/")]
    assert sum("files/" in route for route, _ in seen) > 2
    for route, parts in seen:
        for name, converter in parts.items():
            if isinstance(converter, PathConverter):
                assert re.fullmatch(converter.regex, "a\nb/\n"), (route, name)


def routes_of(patterns, before=""):
    """Each route of the installed addresses with its converters, those of pages as well."""
    for entry in patterns:
        route = before + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from routes_of(entry.url_patterns, route)
        else:
            yield route, getattr(entry.pattern, "converters", {})


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
