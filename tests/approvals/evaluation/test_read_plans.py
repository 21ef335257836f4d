"""Which words a read at the code host runs with, at which remote; the tests of held folders run them."""

import shlex

import pytest

from approvals.evaluation.context.read_plans import NotRead, Repository, plan
from approvals.policy.programs.code_host import read_in

ORIGIN, FORK = "git@github.com:mia/shop.git", "https://github.com/fork/shop"
HEADS = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic/x\n")
    (tmp_path / "src").mkdir()
    return Repository(tmp_path, {"origin": ORIGIN}, {"origin": ORIGIN})


def planned(repository, command, cwd=""):
    return plan(read_in(shlex.split(command)), str(repository.top / cwd), repository)


def with_remotes(repository, **remotes):
    return Repository(repository.top, remotes, remotes)


def test_gh_gets_the_repository_by_name_and_the_branch_as_a_word(repository):
    told = planned(repository, "gh pr checks", "src")
    assert (told["arguments"], told["at"]) == (
        ["pr", "checks", "topic/x", "--repo=github.com/mia/shop"], "github.com/mia/shop",
    )  # fmt: skip
    (repository.top / ".git" / "HEAD").write_text("0" * 40)
    with pytest.raises(NotRead, match="of which branch"):
        planned(repository, "gh pr checks")


def test_among_several_remotes_gh_means_upstream_and_git_means_origin(repository):
    both = with_remotes(repository, origin=FORK, upstream=ORIGIN)
    assert planned(both, "gh issue list")["at"] == "github.com/mia/shop"
    assert planned(both, "gh issue list -R fork/shop")["at"] == "github.com/fork/shop"
    assert planned(both, "git fetch")["urls"] == [FORK]
    assert planned(both, "git fetch --all")["urls"] == [FORK, ORIGIN]
    only = with_remotes(repository, fork=FORK)
    assert planned(only, "git ls-remote")["arguments"] == ["ls-remote", "--", FORK]


def test_git_fetches_branches_and_tags_and_what_is_named_besides(repository):
    assert planned(repository, "git fetch origin topic")["fetch"] == [[ORIGIN, HEADS]]
    told = planned(repository, "git fetch origin pull/7/head:pr-7 refs/notes/ci")
    assert told["fetch"][0][1] == [*HEADS, "+refs/pull/7/head:refs/pull/7/head", "+refs/notes/ci:refs/notes/ci"]


def test_git_lists_with_the_options_that_only_list(repository):
    told = planned(repository, "git ls-remote --heads --sort --upload-pack=x origin main")
    assert told["arguments"] == ["ls-remote", "--heads", "--sort=--upload-pack=x", "--", ORIGIN, "main"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("git fetch other", "nobody has confirmed where its remote other leads"),
        ("gh pr view 1 -R a/b", "a/b is not a repository that a person has confirmed"),
        ("gh pr list --search org:evil", "in other repositories, too"),
        ("gh api repos/mia/shop/../x", "more than one repository"),
        ("gh api 'repos/{owner}/{repo}/commits/{branch}'", "more than one repository"),
        ("gh auth status", "belongs to the account"),
        ("glab repo list", "more than one repository"),
        ("gh pr view -- 1", "its options end before"),
        ("gh pr list --author -R", "looks like an option"),
    ],
)
def test_what_is_not_of_a_seen_repository_is_not_run(repository, command, why):
    with pytest.raises(NotRead, match=why):
        planned(repository, command)


def test_a_remote_that_leads_elsewhere_now_is_not_read(repository):
    moved = Repository(repository.top, {"origin": ORIGIN}, {"origin": FORK})
    for command in ("gh pr view 1", "gh api repos/mia/shop", "git fetch", "glab mr list"):
        with pytest.raises(NotRead, match=r"leads to https://github\.com/fork/shop now; confirmed was git@"):
            planned(moved, command)


def test_a_nested_repository_and_a_link_out_of_the_folder_are_not_read(repository, tmp_path_factory):
    (repository.top / "src" / ".git").touch()
    (repository.top / "out").symlink_to(tmp_path_factory.mktemp("out"))
    for cwd in ("src", "out", ".."):
        with pytest.raises(NotRead, match="another repository"):
            planned(repository, "gh pr view 1", cwd)
    with pytest.raises(NotRead, match="another repository"):
        planned(repository, "git -C src fetch")
