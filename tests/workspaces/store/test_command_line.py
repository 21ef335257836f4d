"""The engine alone, as scripts call it."""

import base64
import json
import os
import subprocess
import sys

import pytest

from tests.support import CHECKOUT


@pytest.fixture
def call(tmp_path):
    def run(*arguments, input=None):
        command = [sys.executable, "-m", "workspaces.store", *map(os.fspath, arguments)]
        done = subprocess.run(command, capture_output=True, input=input, timeout=60)
        lines = done.stdout.splitlines() if arguments[0] != "cat" else done.stdout
        return done.returncode, lines, done.stderr.decode()

    return run


def ok(answer):
    code, lines, said = answer
    assert (code, said) == (0, "")
    return [json.loads(line) for line in lines]


def test_the_whole_round(call, work, tmp_path, address):
    store = address
    ok(call("init", store))
    (first,) = ok(call("snapshot", store, work))
    assert set(first) == {"tree", "entries", "bytes", "added_bytes", "skipped", "looked_at", "seconds"}
    assert (first["entries"], first["skipped"]) == (7, [])
    (work / "README.md").write_text("other")
    with open(os.path.join(os.fsencode(work), b"\xff"), "w") as file:
        file.write("x")
    (second,) = ok(call("snapshot", store, work))
    assert ok(call("diff", store, first["tree"], second["tree"])) == [
        {"path": "README.md", "kind": "modified", "old_mode": "100644", "new_mode": "100644"},
        {
            "path": "\ufffd", "path_b64": base64.b64encode(b"\xff").decode(), "kind": "added",
            "old_mode": None, "new_mode": "100644",
        },
    ]  # fmt: skip
    names = [entry["name"] for entry in ok(call("ls", store, first["tree"]))]
    assert names == ["README.md", "empty", "link", "src"]
    assert [entry["name"] for entry in ok(call("ls", store, first["tree"], "src"))] == ["deep", "main.py"]
    assert call("cat", store, first["tree"], "src/main.py") == (0, b"print('hello')\n", "")
    (restored,) = ok(call("restore", store, first["tree"], work))
    assert restored == {"created": 0, "changed": 1, "removed": 1, "entries": 7}
    assert ok(call("compare", store, first["tree"], work, "--full")) == [{"entries": 7, "differ": []}]
    assert ok(call("verify", store, "--full"))[0]["ok"] is True
    (done,) = ok(call("gc", store, "--keep", "-", input=first["tree"].encode()))
    assert done["trees"] == 1
    (again,) = ok(call("restore", store, first["tree"], tmp_path / "fresh"))
    assert again["created"] == 7


@pytest.mark.parametrize(
    "arguments",
    [
        ("snapshot", "missing", "."),
        ("init", "."),
        ("ls", "store", "nonsense"),
        ("cat", "store", "00" * 32, "x"),
        ("restore", "store", "00" * 32, "out"),
        ("gc", "store", "--keep", "00" * 32),
    ],
)
def test_errors_are_one_line_and_exit_1(call, tmp_path, monkeypatch, arguments):
    monkeypatch.setenv("PYTHONPATH", os.fspath(CHECKOUT))
    monkeypatch.chdir(tmp_path)
    ok(call("init", "store"))
    code, lines, said = call(*arguments)
    assert (code, len(said.splitlines())) == (1, 1)
    assert not lines


def test_a_damaged_store_exits_1_with_its_findings(call, work, tmp_path):
    store = tmp_path / "store"
    ok(call("init", store))
    ok(call("snapshot", store, work))
    pack = next((store / "packs").iterdir())
    data = bytearray(pack.read_bytes())
    data[200_000] ^= 4
    pack.write_bytes(data)
    code, lines, said = call("verify", store, "--full")
    (found,) = map(json.loads, lines)
    assert (code, found["ok"]) == (1, False)
    assert {hurt["path"] for problem in found["problems"] for hurt in problem["hurts"]} >= {"src/deep/data.bin"}
    assert len(said.splitlines()) == 1
