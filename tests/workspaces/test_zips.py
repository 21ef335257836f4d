"""Files as a zip: chosen ones or a folder, now or of a snapshot, with safe names; what is left out is said in it."""

import io
import stat
import zipfile


def _zip(answer) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(answer.body))


def _made(desk) -> str:
    key = desk.create()["key"]
    desk.run(
        key,
        "mkdir -p site/a site/empty && printf one > site/a/one.txt && printf '#!/bin/sh\n' > site/run"
        " && chmod 755 site/run && ln -s a/one.txt site/inside && ln -s ../../etc/passwd site/outside"
        " && ln -s /etc/passwd site/absolute && mkfifo site/pipe && printf 2 > $'site/b\\\\..\\\\two'"
        " && printf 3 > $'site/bad\\xff' && printf other > other",
    )
    return key


def test_a_folder_comes_as_a_zip_with_links_that_stay_in_it(desk):
    key = _made(desk)
    answer = desk.get(f"/workspaces/{key}/files/site?zip=1")
    found = _zip(answer)
    assert found.testzip() is None
    modes = {info.filename: info.external_attr >> 16 for info in found.infolist()}
    left_out = found.read("handrail-left-out.txt").decode()
    assert sorted(modes) == sorted(
        ["a/", "a/one.txt", "b_.._two", "bad%DCFF", "empty/", "handrail-left-out.txt", "inside", "run"]
    )
    assert (stat.S_ISLNK(modes["inside"]), found.read("inside")) == (True, b"a/one.txt")
    assert (stat.S_IMODE(modes["run"]), found.read("a/one.txt")) == (0o755, b"one")
    assert left_out.splitlines() == [
        "Not in this zip:",
        "site/absolute: a symbolic link to /etc/passwd, outside of this folder",
        "site/outside: a symbolic link to ../../etc/passwd, outside of this folder",
        "site/pipe: a fifo",
    ]


def test_chosen_files_come_alone_also_of_a_snapshot_while_it_is_stopped(desk):
    key = _made(desk)
    number = desk.post(f"/workspaces/{key}/snapshots", {}, expect=201).json["number"]
    desk.run(key, "printf changed > other && rm -r site/a")
    desk.post(f"/workspaces/{key}/stop", {}, expect=202)
    found = _zip(desk.get(f"/workspaces/{key}/files/?zip=1&snapshot={number}&path=other&path=site/a"))
    assert {name: found.read(name) for name in found.namelist()} == {
        "other": b"other",
        "site/a/": b"",
        "site/a/one.txt": b"one",
    }


def test_what_is_no_folder_or_does_not_exist_is_refused(desk):
    key = _made(desk)
    for query, status in [
        ("files/other?zip=1", 422),
        ("files/nowhere?zip=1", 404),
        ("files/site?zip=1&path=../other", 422),
        ("files/site?zip=1&path=missing", 404),
    ]:
        desk.get(f"/workspaces/{key}/{query}", expect=status)
