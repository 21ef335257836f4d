"""The policy is told what lies in the workspace: files with secrets, and the programs of its packages."""


def test_a_search_asks_only_where_the_folder_holds_a_secret(desk, workspace, ask):
    assert ask(workspace, "grep -r KEY .")["tier"] == "low"
    desk.run(workspace, "mkdir config && echo KEY=1 > config/prod.env")
    asked = ask(workspace, "grep -rn KEY .")
    assert (asked["tier"], "prod.env" in asked["reasons"][0]) == ("high", True)
    assert ask(workspace, "grep -r KEY d")["tier"] == "low"
    assert ask(workspace, "find . -name '*.txt'")["tier"] == "low"
    desk.run(workspace, "rm -r config")


def test_npx_runs_only_what_the_project_installed(desk, workspace, ask):
    assert ask(workspace, "npx eslint a.js")["tier"] == "high"
    desk.run(workspace, "mkdir -p node_modules/.bin && touch node_modules/.bin/eslint")
    assert ask(workspace, "npx eslint b.js")["tier"] == "medium"
    assert ask(workspace, "npx jest")["tier"] == "high"
