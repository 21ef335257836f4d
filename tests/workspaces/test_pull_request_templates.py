"""The repository's template of a pull request: which file it is, and where the description goes."""

import subprocess

import pytest

from workspaces.runner.git import probe
from workspaces.services.pull_request_templates import PLACES, filled


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", "OURS"),
        ("Please test.", "Please test.\n\nOURS"),
        ("## Description\n\n<!-- say\n## what -->\n\n## Tests\n- [ ] done", None),
        ("# What does this change?\r\n\r\n# Tests\r\n", "# What does this change?\n\nOURS\n\n# Tests"),
        ("## Description\nalready said\n", "## Description\nalready said\n\nOURS"),
        ("---\nname: x\n---\n### Summary", "### Summary\n\nOURS"),
        ("a\u202eb\x1b[1m\ttab", "ab[1m\ttab\n\nOURS"),
    ],
)
def test_the_description_goes_into_its_empty_section_else_after(template, expected):
    expected = expected or "## Description\n\n<!-- say\n## what -->\n\nOURS\n\n## Tests\n- [ ] done"
    assert filled(template, "OURS") == expected


@pytest.mark.parametrize(
    ("kind", "files", "expected"),
    [
        ("github", {".github/PULL_REQUEST_TEMPLATE.md": "a", "pull_request_template.md": "b"}, "a"),
        ("github", {"docs/pull_request_template.txt": "c"}, "c"),
        ("github", {".gitlab/merge_request_templates/Default.md": "d"}, ""),
        ("gitlab", {".gitlab/merge_request_templates/Default.md": "d"}, "d"),
        ("gitea", {".gitea/pull_request_template.md": "e", ".github/pull_request_template.md": "a"}, "e"),
        ("forgejo", {".forgejo/PULL_REQUEST_TEMPLATE.md": "f", ".gitea/pull_request_template.md": "e"}, "f"),
        ("", {".gitlab/merge_request_templates/default.md": "d"}, "d"),
        ("github", {".github/pull_request_template/one.md": "many", ".github/pull_request_template.yaml": "form"}, ""),
        ("github", {"pull_request_template.md": "x" * 20_001}, ""),
        ("github", {}, ""),
    ],
)
def test_the_template_is_the_committed_file_where_the_host_looks(tmp_path, kind, files, expected):
    def git(*args):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@x", *args], cwd=tmp_path, check=True)

    git("init", "-q")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("add", ".")
    git("commit", "-q", "--allow-empty", "-m", "one")
    (tmp_path / "pull_request_template.md").write_text("not committed")
    assert probe.template(probe.Git(str(tmp_path), 10), PLACES[kind]) == expected


def test_a_link_is_no_template_and_an_unborn_branch_has_none(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    git = probe.Git(str(tmp_path), 10)
    assert probe.template(git, PLACES[""]) == ""
    (tmp_path / "pull_request_template.md").symlink_to("/etc/hostname")
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    commit = ["git", "-c", "user.name=A", "-c", "user.email=a@x", "commit", "-qm", "x"]
    subprocess.run(commit, cwd=tmp_path, check=True)
    assert probe.template(git, PLACES[""]) == ""
