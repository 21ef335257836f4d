"""A push that names no branch goes to the workspace's only where nothing in the call may have left that branch."""

import pytest

from approvals.policy import classify, load_policy

POLICY = load_policy("""
[targets]
production = ["branch:main"]
staging = ["branch:staging"]

[[when]]
target = "staging"
low = ["writes"]

[[when]]
target = "production"
critical = ["writes"]

[[when]]
branch = "main"
high = ["Bash(touch *)"]
""")


def judged(command, branch="staging"):
    return classify("Bash", {"command": command}, policy=POLICY, context={"branch": branch})


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin",
        "git push origin HEAD",
        "git push --set-upstream origin staging",
        "git add -A && git commit -m x && git push",
        "git status && git push",
        "cat .git/HEAD && git push",
        "echo x > a.txt && rm b.txt && git push",
        "git branch --show-current; git push",
        "git checkout -- a.txt && git push",
        "git stash && git push",
    ],
)
def test_the_branch_of_the_workspace_is_known(command):
    assert judged(command).targets == {"staging": "certain"}
    assert judged(command).tier in ("low", "medium")


@pytest.mark.parametrize(
    "command",
    [
        "git checkout main && git push",
        "git switch main; git push",
        "git branch -m main && git push",
        "git symbolic-ref HEAD refs/heads/main && git push",
        "bash -c 'git checkout main' && git push",
        "echo $(git checkout main) && git push",
        "for i in 1 2; do git push; git checkout main; done",
        "npm test && git push",
        "cd sub && git push",
        "git -C sub push",
        "GIT_DIR=/o/.git git push",
        "GIT_CONFIG_GLOBAL=x git push",
        "cp x .git/HEAD && git push",
        "mv .git .git2; git push",
        "gh pr checkout 3 && git push",
        "tar xf a.tar && git push",
        "git -c push.default=matching push",
    ],
)
def test_it_is_not_where_the_call_may_have_left_it(command):
    verdict = judged(command)
    assert (verdict.tier, verdict.targets) == ("critical", {"production": "possible", "staging": "possible"})


@pytest.mark.parametrize(
    "refs",
    [
        "--all origin",
        "--branches origin",
        "--mirror origin",
        "--prune origin staging",
        "--tags origin staging",
        "origin 'refs/heads/*:refs/heads/*'",
        "origin 'refs/heads/m*'",
        "origin :",
        "origin +:",
        "origin staging :",
        'origin "$B"',
    ],
)
def test_a_push_of_several_branches_may_be_to_any(refs):
    verdict = judged(f"git push {refs}")
    assert (verdict.tier, verdict.targets) == ("critical", {"production": "possible", "staging": "possible"})


@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "heads/main", "HEAD:heads/main", "@:refs/heads/main"])
def test_a_branch_is_the_same_in_each_spelling(ref):
    assert judged(f"git push origin {ref}").targets == {"production": "certain"}


def test_a_condition_about_the_branch_may_hold_where_the_call_may_have_left_it():
    assert judged("touch a").tier == "medium"
    assert judged("touch a", branch="main").tier == "high"
    assert judged("git checkout main && touch a").tier == "high"


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("git push --all origin", "Push all branches to origin"),
        ("git push --branches origin", "Push all branches to origin"),
        ("git push --mirror origin", "Replace all branches and tags on origin"),
        ("git push --prune origin", "Delete branches that are gone here on origin"),
        ("git push --tags", "Push all tags to its remote"),
        ("git push origin :", "Push to * on origin"),
        ("git push origin :old", "Delete old on origin"),
        ("git push -f", "Overwrite the current branch on its remote"),
    ],
)
def test_the_title_says_which_branches(command, title):
    assert judged(command).title == title
