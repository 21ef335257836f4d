import subprocess
import sys

import pytest

from workspaces.envelope.output_refusals import MAX_READ, UNNAMED, refusals_in


@pytest.mark.parametrize(
    ("line", "kind", "path"),
    [
        ("/bin/sh: 1: cannot create .git/hooks/p: Read-only file system", "write", ".git/hooks/p"),
        ("mv: cannot move '.git' to 'away': Device or resource busy", "write", "away"),
        ("touch: cannot touch ‘/etc/x’: Permission denied", "read", "/etc/x"),
        ("fatal: could not open '.git/config' for writing: Read-only file system", None, None),
        ("PermissionError: [Errno 13] Permission denied: '/home/agent/.ssh/id_rsa'", "read", "/home/agent/.ssh/id_rsa"),
        ("OSError: [Errno 30] Read-only file system: 'out/file'", "write", "out/file"),
        ("Error: EROFS: read-only file system, open '/workspace/.claude/settings.json'", "write", None),
        ("fatal: could not open '.git/config' for writing: Read-only file system", "write", ".git/config"),
        ("error: unable to unlink old '.npmrc': Device or resource busy", "write", ".npmrc"),
        ("rm: cannot remove 'my file': Read-only file system", "write", "my file"),
        ("sh: 1: cannot create out: Read-only file system", "write", "out"),
        ("bash: line 1: out: Read-only file system", "write", "out"),
        ("Can't do inplace edit: Cannot make temp name: Read-only file system.", "write", UNNAMED),
        (
            "error: The following files would be overwritten by merge:\n\tREADME\n\t.npmrc\nAborting",
            "write",
            ".npmrc",
        ),
        ("error: unable to write file '.git/hooks/x' mode 100644: Read-only file system", "write", ".git/hooks/x"),
        ("patch: **** Can't create temporary file ci.yml.oIVN0sQ : Read-only file system", "write", "ci.yml"),
        ("could not save: Permission denied", None, None),
        ("all tests passed", None, None),
    ],
)
def test_the_path_that_was_refused_is_found(line, kind, path):
    found = refusals_in(f"before\n{line}\nafter\n".encode())
    assert [entry["kind"] for entry in found if entry["kind"] == kind] == ([kind] if kind else [])
    if path:
        assert found == [{"kind": kind, "what": path}]


def test_a_flood_of_refusals_is_cut():
    lines = "".join(f"rm: cannot remove 'f{n}': Read-only file system\n" for n in range(1000))
    assert len(refusals_in(lines.encode())) == 10


WORDS = ["0", "a ", "a:", "a: ", "'", ": Permission denied", "x: Permission denied", "[Errno 1] ", "[Errno 1] x: '",
         "EROFS: ", "EROFS: a, b '", "\u2018", "': Device or resource busy"]  # fmt: skip


def test_no_line_without_end_holds_the_process():
    """Once 60,000 characters without a blank took more than a minute, and the runner was killed meanwhile."""
    code = (
        "import sys; from workspaces.envelope.output_refusals import refusals_in; refusals_in(sys.stdin.buffer.read())"
    )
    for word in WORDS:
        output = (word * (1 << 20)).encode()[: 1 << 20]
        subprocess.run([sys.executable, "-c", code], input=output, timeout=30, check=True)


def test_only_the_end_of_an_output_is_read():
    line = b"x: Permission denied\n"
    assert refusals_in(line + b"0" * MAX_READ) == []
    assert refusals_in(b"0" * MAX_READ + b"\n" + line) == [{"kind": "read", "what": "x"}]
