"""What the card shows: headline, reasons, one line for each sub-command, and whether it can be undone."""

import pytest

from approvals.policy import Policy, classify, load_policy


def judge(command, **options):
    return classify("Bash", {"command": command}, policy=Policy(), **options)


@pytest.mark.parametrize(
    ("command", "title", "undo"),
    [
        ("git push origin HEAD:main", "Push to main on origin", "no"),
        ("git push --force origin main", "Overwrite main on origin", "no"),
        ("git push origin HEAD:main && rm -rf build/", "Push to main on origin, delete build", "no"),
        ("rm -rf build dist", "Delete build and 1 more", "yes"),
        ("rm /etc/hosts", "Delete /etc/hosts", "no"),
        ("mv a.py b.py", "Move a.py to b.py", "yes"),
        ("mkdir -p src/new", "Create the folder src/new", "yes"),
        ("echo x > notes.txt", "Write notes.txt", "yes"),
        ("sed -i s/a/b/ src/app.py", "Edit src/app.py", "yes"),
        ("pytest -q", "Run pytest", "yes"),
        ("npm test", "Run npm test", "yes"),
        ("npm install lodash", "Install lodash (npm)", "partly"),
        ("npm publish", "Publish this package (npm)", "no"),
        ("curl -s https://example.com/x", "Contact example.com", "no"),
        ("cat .env", "Read .env", "no"),
        ("ls", "Run ls", "yes"),
        ("python3 x.py", "Run python3 x.py", "unknown"),
        ("kill 1", "End processes", "no"),
        ("xxd a.bin -s", "Write -s", "yes"),
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
    assert verdict.reasons == ["Needs approval: part 2 pushes to the current branch on its remote."]
    verdict = classify("Bash", {"command": "ls src"}, policy=policy)
    assert (verdict.reasons, verdict.rule) == (
        ["Auto-approved: covered by the rule Bash(ls *)."],
        "Bash(ls *)",
    )


def test_a_reason_never_repeats_hidden_characters():
    verdict = judge("echo a\u202e\x1b[2K")
    assert verdict.reasons == ["Needs approval: it holds a hidden character, U+202E."]


@pytest.mark.parametrize(
    ("tool", "arguments", "title", "undo"),
    [
        ("Edit", {"file_path": "/workspace/api/settings.py"}, "Edit api/settings.py", "yes"),
        ("Write", {"file_path": "/etc/passwd", "content": ""}, "Write /etc/passwd", "no"),
        ("Read", {"file_path": "a.py"}, "Read a.py", "yes"),
        ("Grep", {"pattern": "x"}, "Search .", "yes"),
        ("WebFetch", {"url": "https://example.com/x"}, "Fetch a page from example.com", "no"),
        ("mcp__github__create_issue", {"title": "x"}, 'Create an issue "x" (github)', "partly"),
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


AGENT_SETTINGS = (
    ".codex/config.toml", ".gemini/settings.json", ".qwen/settings.json", ".opencode/plugin/x.js", "opencode.json",
    ".cursor/hooks.json", ".github/hooks/x.json", ".copilot/config.json", ".kiro/hooks/x", ".config/opencode/x.json",
)  # fmt: skip


@pytest.mark.parametrize("path", AGENT_SETTINGS)
@pytest.mark.parametrize("folder", ["", "sub/", "/home/mia/shop/", "~/"])
def test_what_an_agent_reads_at_its_start_is_never_written_by_a_rule(path, folder):
    allowed = Policy.of_rules(["Edit(**)", "Edit(//**)", "Edit(~/**)", "Bash(tee *)", "Bash(mv *)"])
    # The home is the workspace, as where somebody connects it: nothing but the name protects the file.
    worlds = ({"workspace_root": "/home/mia", "cwd": "/home/mia", "home": "/home/mia"}, {})
    for world in worlds:
        for tool, arguments in (
            ("Write", {"file_path": folder + path, "content": "x"}),
            ("Bash", {"command": f"tee {folder}{path}"}),
            ("Bash", {"command": f"mv notes.txt {folder}{path}"}),
        ):
            assert classify(tool, arguments, policy=allowed, **world).tier == "high"


@pytest.mark.parametrize(
    "path", ["codex/x.py", "src/cursor.py", ".github/ISSUE_TEMPLATE/a.md", "docs/opencode.json.md"]
)
def test_look_alikes_of_an_agents_settings_are_ordinary_files(path):
    allowed = Policy.of_rules(["Edit(**)"])
    assert classify("Write", {"file_path": path, "content": "x"}, policy=allowed).tier == "low"


WITHOUT_WORKSPACE = {"workspace_root": None, "home": "/home/agent"}


@pytest.mark.parametrize("cwd", ["/", "/home/mia", "/home/mia/repo", "/etc", "/workspace", None])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/home/mia/repo/diary.txt"}),
        ("Read", {"file_path": "notes.txt"}),
        ("Grep", {"pattern": "x"}),
        ("Glob", {"pattern": "**/*"}),
        ("LS", {"path": "."}),
        ("Bash", {"command": "cat notes.txt"}),
        ("Bash", {"command": "ls"}),
        ("Bash", {"command": "echo *"}),
        ("Bash", {"command": "grep -r password"}),
        ("Bash", {"command": "git log -p"}),
        ("Bash", {"command": "bash -c 'rg x'"}),
        ("Bash", {"command": "cd / && git diff"}),
        ("Write", {"file_path": "notes.txt", "content": "x"}),
        ("Bash", {"command": "echo x > notes.txt"}),
    ],
)
def test_without_a_workspace_no_cwd_makes_a_file_the_agents_own(tool, arguments, cwd):
    wide = ["Edit(**)", "Read(**)", "Bash(git log *)", "Bash(git diff *)", "Bash(grep *)", "Bash(ls *)", "Bash(rg *)"]
    for policy in (Policy(), Policy.of_rules([*wide, "Bash(cat *)", "Bash(echo *)", "Bash(cd *)"])):
        assert classify(tool, arguments, policy=policy, cwd=cwd, **WITHOUT_WORKSPACE).tier == "high"


@pytest.mark.parametrize(
    ("rules", "tool", "arguments"),
    [
        ([], "Bash", {"command": "pwd"}),
        ([], "Bash", {"command": "echo hi | head -1"}),
        ([], "Read", {"file_path": "/usr/share/dict/words"}),
        (["Bash(make check)"], "Bash", {"command": "make check"}),
        (["Read(//srv/docs/a.md)"], "Read", {"file_path": "/srv/docs/a.md"}),
    ],
)
def test_without_a_workspace_what_reads_no_file_or_was_named_word_for_word_runs(rules, tool, arguments):
    policy = Policy.of_rules(rules) if rules else Policy()
    assert classify(tool, arguments, policy=policy, cwd="/home/mia", **WITHOUT_WORKSPACE).tier == "low"


@pytest.mark.parametrize(
    ("rules", "tool", "arguments"),
    [
        (["Edit(out/**)"], "Write", {"file_path": "out/x", "content": "x"}),
        (["Edit(out/**)", "Bash(tee *)"], "Bash", {"command": "tee out/x"}),
        (["Bash(./scripts/test.sh)"], "Bash", {"command": "./scripts/test.sh"}),
        (["Bash(git status)"], "Bash", {"command": "git status"}),
    ],
)
def test_a_rule_means_the_workspaces_own_folder_wherever_the_agent_says_it_is(rules, tool, arguments):
    policy = Policy.of_rules(rules)
    there = classify(tool, arguments, policy=policy).tier
    elsewhere = classify(tool, arguments, policy=policy, cwd="/workspace/vendor/evil").tier
    assert (there, elsewhere) == ("low", "high")


@pytest.mark.parametrize("cwd", ["/workspace", "/workspace/src", "/workspace/infra"])
def test_a_ban_holds_from_every_folder(cwd):
    policy = load_policy('forbidden = ["Edit(infra/**)"]')
    call = {"file_path": "/workspace/infra/main.tf", "content": "x"}
    assert classify("Write", call, policy=policy, cwd=cwd).tier == "forbidden"
    assert classify("Write", call, policy=policy, cwd=cwd, **WITHOUT_WORKSPACE).tier == "forbidden"


@pytest.mark.parametrize(
    ("command", "undo"),
    [
        ("gh api repos/a/b", "yes"),
        ("gh api repos/a/b/issues -f title=x", "no"),
        ("gh api repos/a/b --input x.json", "no"),
    ],
)
def test_a_call_of_the_code_host_that_sends_fields_is_no_read(command, undo):
    verdict = classify("Bash", {"command": command}, policy=Policy())
    assert ("reads from GitHub" in " ".join(verdict.reasons)) == (undo == "yes")
    assert verdict.undo == undo
