import pytest

from workspaces.envelope.output_refusals import refusals_in


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
