"""An index that an agent wrote takes no more memory or time than a few times its size."""

import random
import struct
import subprocess

import pytest

from workspaces.git_files import index as git_index

HEAD = struct.Struct(">4sII")


def made(version: int, names: list[bytes], after: bytes = bytes(20)) -> bytes:
    """An index whose entries end with these bytes: a number and a name in version 4, else a name with its padding."""
    entry = struct.pack(">10I20sH", *[0] * 6, 0o100644, 0, 0, 0, bytes(20), 1)
    return HEAD.pack(b"DIRC", version, len(names)) + b"".join(entry + name for name in names) + after


UNREADABLE = {
    "each path is the one before and a byte": made(4, [b"\0a\0"] * 12_000),
    "long paths that take a byte each": made(4, [b"\0" + b"a" * 4000 + b"\0"] + [b"\x01b\0"] * 3000),
    "a path that grows beyond what a path may have": made(4, [b"\0" + b"a" * 4000 + b"\0", b"\0" + b"b" * 97 + b"\0"]),
    "a long path": made(2, [b"a" * 5000 + b"\0" * 8]),
    "a path without an end": made(2, [b"a" * 50], b""),
    "a path without an end in version 4": made(4, [b"\0" + b"a" * 50], b""),
    "more cut than the path before has": made(4, [b"\0ab\0", b"\x05c\0"]),
    "a number without an end": made(4, [b"\xff" * 5000]),
    "more extensions than git writes": made(2, [b"a\0"], b"EXTN\0\0\0\0" * 200 + bytes(20)),
    "nothing": b"",
}


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_an_index_made_to_take_much_is_unreadable(data):
    with pytest.raises(git_index.Unreadable):
        git_index.parse(data, 100_000)
    with pytest.raises(git_index.Unreadable):
        list(git_index.entries(data, 100_000))


def test_every_index_is_read_or_unreadable():
    """No other error leaves the one reader, whatever the bytes are."""
    made_at, whole = random.Random(30), made(4, [b"\0a\0", b"\1b/c\0", b"\0d\0"], b"TREE\0\0\0\0" + bytes(20))
    for _ in range(3000):
        data = bytearray(whole[: made_at.randrange(len(whole))] if made_at.random() < 0.3 else whole)
        for _ in range(made_at.randrange(4)):
            if data:
                data[made_at.randrange(len(data))] = made_at.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            git_index.parse(bytes(data), 1000)
        except git_index.Unreadable:
            continue


@pytest.mark.parametrize("version", "234")
def test_a_deep_repository_with_long_common_prefixes_is_read(tmp_path, version):
    """Paths of 250 bytes, three times as long as those of what package managers install."""

    def git(*words, given=None):
        return subprocess.run(["git", *words], cwd=tmp_path, input=given, capture_output=True, check=True).stdout

    git("init", "-q")
    blob = git("hash-object", "-w", "--stdin", given=b"").strip().decode()
    folder = "/".join(f"node_modules/.store/a-package-with-a-long-name-{depth}" for depth in range(5))
    paths = [f"{folder}/{number // 50}/file-{number}.js" for number in range(6000)]
    git("update-index", "--index-info", given="".join(f"100644 {blob}\t{path}\n" for path in paths).encode())
    git("update-index", "--index-version", version)
    data = (tmp_path / ".git" / "index").read_bytes()
    wanted = {path.encode() for path in paths}
    assert {path for path, _ in git_index.entries(data, 10_000)} == set(git_index.parse(data, 10_000).entries) == wanted
