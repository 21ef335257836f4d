"""What the card shows: headline, reasons, one line for each sub-command, and whether it can be undone."""

import pytest

from approvals.policy import Policy, classify


def judge(command, **options):
    return classify("Bash", {"command": command}, policy=Policy(), **options)


@pytest.mark.parametrize(
    ("command", "title", "undo"),
    [
        ("git push origin HEAD:main", "Push to main on origin", "no"),
        ("git push --force origin main", "Overwrite main on origin", "no"),
        ("git push origin HEAD:main && rm -rf build/", "Push to main on origin, delete build", "partly"),
        ("rm -rf build dist", "Delete build and 1 more", "yes"),
        ("rm /etc/hosts", "Delete /etc/hosts", "no"),
        ("mv a.py b.py", "Move a.py to b.py", "yes"),
        ("mkdir -p src/new", "Make the folder src/new", "yes"),
        ("echo x > notes.txt", "Write notes.txt", "yes"),
        ("sed -i s/a/b/ src/app.py", "Edit src/app.py", "yes"),
        ("pytest -q", "Run pytest", "yes"),
        ("npm test", "Run npm test", "yes"),
        ("npm install lodash", "Install packages with npm install", "partly"),
        ("npm publish", "Publish a package with npm publish", "no"),
        ("curl -s https://example.com/x", "Contact example.com", "no"),
        ("cat .env", "Read .env", "no"),
        ("ls", "Run ls", "yes"),
        ("python3 x.py", "Run python3 x.py", "partly"),
        ("kill 1", "End processes", "no"),
    ],
)
def test_the_headline_and_what_can_be_undone(command, title, undo):
    verdict = judge(command)
    assert (verdict.title, verdict.undo) == (title, undo)


def test_one_entry_for_each_sub_command_in_the_order_of_the_text():
    verdict = judge("cd api && git push origin HEAD:main && rm -rf build/ # tidy")
    assert [(e["line"], e["text"], e["what"], e["targets"]) for e in verdict.commands] == [
        (1, "cd api", "read", []),
        (2, "git push origin HEAD:main", "push", ["main", "origin"]),
        (3, "rm -rf build/", "delete", ["api/build"]),
    ]


def test_after_a_cd_that_may_have_failed_both_folders_count():
    verdict = judge("cd api; rm -rf build")
    assert verdict.commands[1]["targets"] == ["api/build", "build"]


@pytest.mark.parametrize(
    ("command", "what", "targets"),
    [
        ("echo x > a.txt", "write", ["a.txt"]),
        ("rm a.txt b.txt", "delete", ["a.txt", "b.txt"]),
        ("git push", "push", []),
        ("git push origin dev", "push", ["dev", "origin"]),
        ("npm install lodash@4 left-pad", "install", ["lodash@4", "left-pad"]),
        ("pip install requests", "install", ["requests"]),
        ("curl https://example.com:8443/", "network", ["example.com:8443"]),
        ("cat a.txt", "read", ["a.txt"]),
        ("pytest", "run", []),
        ("sudo ls", "run", []),
    ],
)
def test_evidence_has_a_verb_and_its_targets(command, what, targets):
    entry = judge(command).commands[-1]
    assert (entry["what"], entry["targets"]) == (what, targets)


def test_the_reason_names_the_line_and_the_rule():
    policy = Policy.of_rules(["Bash(ls *)"])
    verdict = classify("Bash", {"command": "ls && git push"}, policy=policy)
    assert verdict.reasons == ["Waits because line 2 pushes to the current branch on its remote."]
    verdict = classify("Bash", {"command": "ls src"}, policy=policy)
    assert (verdict.reasons, verdict.rule) == (
        ["Runs without asking because line 1 is covered by the rule Bash(ls *)."],
        "Bash(ls *)",
    )


def test_a_reason_never_repeats_hidden_characters():
    verdict = judge("echo a\u202e\x1b[2K")
    assert verdict.reasons == ["Waits because it holds a hidden character, U+202E."]


@pytest.mark.parametrize(
    ("tool", "arguments", "title", "undo"),
    [
        ("Edit", {"file_path": "/workspace/api/settings.py"}, "Edit api/settings.py", "yes"),
        ("Write", {"file_path": "/etc/passwd", "content": ""}, "Write /etc/passwd", "no"),
        ("Read", {"file_path": "a.py"}, "Read a.py", "yes"),
        ("Grep", {"pattern": "x"}, "Search .", "yes"),
        ("WebFetch", {"url": "https://example.com/x"}, "Fetch a page from example.com", "no"),
        ("mcp__github__create_issue", {"title": "x"}, "Use create_issue of github", "no"),
        ("TodoWrite", {"todos": []}, "Use Todo Write", "yes"),
    ],
)
def test_other_tools_have_headlines_too(tool, arguments, title, undo):
    verdict = classify(tool, arguments, policy=Policy())
    assert (verdict.title, verdict.undo) == (title, undo)


def test_a_folder_elsewhere_can_be_the_workspace():
    world = {"cwd": "/home/mia/shop/api", "workspace_root": "/home/mia/shop", "home": "/home/mia"}
    assert judge("rm -rf ../build", **world).commands[0]["targets"] == ["build"]
    assert judge("rm -rf ../build", **world).tier == "medium"
    assert judge("rm -rf ../../other", **world).tier == "high"
    assert judge("rm -rf ~", **world).tier == "forbidden"
    assert classify("Write", {"file_path": "x.py", "content": ""}, policy=Policy(), **world).title == "Write api/x.py"
