"""What the documents say is what the code does."""

import json
import re
from pathlib import Path

from approvals.connect import claude_code_settings
from dashboard import tasks

CHECKOUT = Path(__file__).resolve().parents[2]
README = (CHECKOUT / "README.md").read_text()
# What settings.py reads, as its two reading functions are called there.
READ = re.compile(r'\benv(?:_int)?\("([A-Z_]+)"')


def test_the_settings_table_lists_exactly_what_settings_read():
    rows = re.findall(r"^\| `([A-Z_]+)` \|", README, flags=re.MULTILINE)
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == set(READ.findall((CHECKOUT / "dashboard" / "settings.py").read_text()))


def test_nothing_else_reads_a_variable_of_ours():
    elsewhere = [
        path.relative_to(CHECKOUT)
        for app in ("dashboard", "workspaces", "approvals")
        for path in (CHECKOUT / app).rglob("*.py")
        if path.parent.name != "snippets"  # given out, to run elsewhere
        and re.search(r"(environ\.get\(|environ\[|getenv\()[\"'](HANDRAIL_|DATABASE_URL|REDIS_URL)", path.read_text())
    ]
    assert elsewhere == []


def test_the_hook_of_the_readme_is_the_one_that_connect_gives_out():
    shown = json.loads(re.search(r"```json\n(.*?)```", README, flags=re.DOTALL).group(1))
    assert shown["hooks"]["PreToolUse"] == claude_code_settings()["hooks"]["PreToolUse"]


def test_files_that_the_documents_point_to_are_there():
    documents, seen = [CHECKOUT / "README.md", *(CHECKOUT / "docs").rglob("*.md")], 0
    for document in documents:
        shown = re.sub(r"<!--.*?-->", "", document.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", shown):
            assert (document.parent / target).exists(), f"{document.name} points to {target}"
            seen += 1
    assert seen > 20


def test_every_make_target_of_the_readme_exists():
    makefile = (CHECKOUT / "Makefile").read_text()
    named = set(re.findall(r"`make (\w+)", README))
    assert {"up", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_every_scheduled_task_exists():
    from django.utils.module_loading import import_string

    assert [callable(import_string(path)) for path in tasks.SCHEDULED] == [True] * len(tasks.SCHEDULED)


def test_constraints_name_versions_and_no_hosts():
    lines = (CHECKOUT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)] == []
