"""Attributes of paths are those that `git check-attr` names, and settings those that `git config` does."""

import random
import subprocess
from itertools import count

import pytest

from workspaces.git_files import attributes as attributes_module
from workspaces.git_files import work
from workspaces.git_files.attributes import KEPT, MAX_TEXT, Attributes
from workspaces.git_files.settings import settings_of

ASKED = ["text", "eol", "crlf", "ident", "binary", "diff", "filter", "plain"]
GLOBS = [
    "*", "*.txt", "a.txt", "/a.txt", "sub/*.txt", "sub/**", "**/deep/*", "sub/", "deep", "*.[ch]", "?.txt", "x\\*y",
    '"b c.txt"', '"\\303\\274.txt"', "!a.txt", "#a.txt", "**", "sub/**/f.c", "[a-b].txt",
]  # fmt: skip
STATES = [
    "text", "-text", "!text", "text=auto", "eol=crlf", "eol=lf", "crlf", "-crlf", "crlf=input", "binary", "-binary",
    "ident", "plain", "-plain", "filter=lfs", "text eol=lf", "binary text", "text -text", "!text !eol",
]  # fmt: skip
PATHS = ["a.txt", "b c.txt", "ü.txt", "x*y", "deep", "#a.txt", "sub/a.txt", "sub/deep/f.c", "sub/deep/g", "deep/h.h"]
FILES = [".gitattributes", "sub/.gitattributes", "sub/deep/.gitattributes", ".git/info/attributes"]


def text_of(pick, may_define):
    lines = [pick.choice([" ", "\t"]).join([pick.choice(GLOBS), pick.choice(STATES)]) for _ in range(pick.randrange(5))]
    if may_define and pick.random() < 0.5:
        lines.insert(pick.randrange(len(lines) + 1), f"[attr]plain {pick.choice(STATES)} -diff")
    return pick.choice(["\n", "\r\n"]).join([*lines, ""])


def said_by_git(folder) -> dict:
    feed = "".join(f"{path}\0" for path in PATHS).encode()
    done = subprocess.run(["git", "check-attr", "-z", "--stdin", *ASKED], cwd=folder, input=feed, capture_output=True)
    words = done.stdout.decode().split("\0")
    found = {path: {} for path in PATHS}
    for at in range(0, len(words) - 2, 3):
        path, name, value = words[at : at + 3]
        if value != "unspecified":
            found[path][name] = {"set": True, "unset": False}.get(value, value)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_attributes_are_those_of_git(seed, tmp_path):
    pick = random.Random(seed)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text_of(pick, may_define=not name.startswith("sub")).encode())

    def read(path):
        file = tmp_path / path.decode()
        return file.read_bytes() if file.is_file() else None

    attributes = Attributes(read)
    found = {path: attributes.of(path.encode()) for path in PATHS}
    kept = {path: {name: value for name, value in said.items() if name in ASKED} for path, said in found.items()}
    texts = "".join(f"== {name}\n{(tmp_path / name).read_text()}" for name in FILES)
    assert kept == said_by_git(tmp_path), texts


def test_patterns_that_take_too_long_give_no_attributes():
    text = b"".join(b"*a" * 200 + b"b%d text\n" % number for number in range(2000))
    attributes = Attributes(lambda path: text if path == b".gitattributes" else None, seconds=0.2)
    for _ in range(5):
        assert attributes.of(b"a" * 250 + b".txt") == {}


WANTED = frozenset({"text", "eol"})


def states_kept(attributes):
    return [state for lines in attributes._files.values() for line in lines for state in line.states]


def test_only_what_is_read_of_attributes_is_kept_without_repeats():
    many = b" ".join(b"x%d -text text" % number for number in range(100))
    text = b"".join(b"f%d %s\n" % (number, many) for number in range(200)) + b"* eol=lf -text text eol=crlf\n"
    attributes = Attributes(lambda path: text if path == b"sub/.gitattributes" else None, WANTED)
    assert attributes.of(b"sub/f7") == {"text": True, "eol": "crlf"}
    assert len(states_kept(attributes)) == 200 + 2


def test_no_more_text_of_attributes_is_read_than_is_allowed():
    read, text = [], (b"#" * 999 + b"\n") * 1000 + b"* text\n"

    def file(path):
        read.append(path)
        return text if path.startswith(b"d") else None

    attributes = Attributes(file, WANTED)
    found = [attributes.of(b"d%d/f" % number) for number in range(60)]
    assert len([path for path in read if path.startswith(b"d")]) == MAX_TEXT // len(text) + 1
    assert found == [{"text": True}] * (MAX_TEXT // len(text)) + [{}] * (60 - MAX_TEXT // len(text))
    assert attributes.of(b"d0/f") == {}


def test_many_short_lines_of_attributes_count_as_what_they_take():
    read, text = [], b"* text\n" * 2000

    def file(path):
        read.append(path)
        return text if path.startswith(b"d") else None

    attributes = Attributes(file, WANTED)
    assert [attributes.of(b"d%d/f" % number) for number in range(60)][-1] == {}
    assert len(states_kept(attributes)) * KEPT <= MAX_TEXT


def test_a_long_chain_of_macros_is_followed():
    chained = b"".join(b"[attr]m%d m%d\n" % (number, number + 1) for number in range(1900))
    text = b"* m0\n" + chained + b"[attr]m1900 text\n"
    found = Attributes(lambda path: text if path == b".gitattributes" else None).of(b"f")
    assert found["text"] is True


def test_the_clock_runs_while_attributes_are_parsed(monkeypatch):
    now = count()
    monkeypatch.setattr(work.time, "monotonic", lambda: next(now))
    parsed = []
    line = attributes_module._line
    monkeypatch.setattr(attributes_module, "_line", lambda text: parsed.append(text) or line(text))
    text = b"f text\n" * 1500
    attributes = Attributes(lambda path: text if path == b".gitattributes" else None, WANTED, seconds=100)
    assert attributes.of(b"f") == {}
    assert len(parsed) <= 110


def test_settings_are_read_as_git_reads_them(tmp_path):
    text = (
        '[core]\n\tbare = false ; said\n[CORE] AutoCRLF = input # so\n[remote "x.y"]\n\tautocrlf = true\n'
        '[extensions]\n\tobjectFormat="sha256"\n\tworktreeConfig\n[core]\n eol=lf\n'
    )
    (tmp_path / "config").write_text(text)
    found = settings_of(text.encode())
    for name in ("core.bare", "core.autocrlf", "extensions.objectformat", "core.eol", "extensions.worktreeconfig"):
        done = subprocess.run(["git", "config", "-f", "config", name], cwd=tmp_path, capture_output=True, text=True)
        assert (name, found[name]) == (name, done.stdout.strip())
    assert "remote.autocrlf" not in found
