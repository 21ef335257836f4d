"""Calls that agents make themselves, after an approval: git push, gh, npm. What they left is taken back by Handrail."""

import json
import shlex
from datetime import UTC, datetime

import pytest

from approvals.evidence.host_effects import effect_of, with_numbers
from approvals.policy.shell_words import OPAQUE
from tests.support.git_source import git

OF_A_SCOPE = (
    '{"name": "@acme/cart", "version": "1.2.0", "publishConfig": {"@acme:registry": "https://npm.example.org"}}'
)
ELSEWHERE = '{"name": "cart", "version": "1.2.0", "publishConfig": {"registry": "https://npm.example.org"}}'


def asks(team, command: str) -> dict:
    """Submit a shell call in mode gate; return the action once its way back was looked for."""
    wish = {"tool": "Bash", "arguments": {"command": command}, "workspace": team.key}
    return team.found(team.agent.post("/actions", wish).json["id"])


def runs(team, action: dict, do, note: str = "", status: str = "succeeded") -> dict:
    """Approve the call, do as its agent would, and report; return the action once its way back is complete."""
    answer = {"verdict": "approve", "digest": action["digest"]}
    team.lead.post(f"/actions/{action['id']}/decision", answer, expect=200)
    team.agent.post(f"/actions/{action['id']}/consume", {"digest": action["digest"]}, expect=200)
    do()
    team.agent.post(f"/actions/{action['id']}/outcome", {"status": status, "note": note}, expect=200)
    return team.until(action["id"], lambda told: (told["compensation"] or {}).get("state") != "found")


def arrives(team, tmp_path, ref: str):
    """Let the workspace's HEAD arrive at the source, as its own git would push it."""
    bundle = tmp_path / "head.bundle"
    bundle.write_bytes(team.agent.get(f"/workspaces/{team.key}/bundle").body)
    git(team.source.bare, "fetch", "-q", "--no-tags", str(bundle), f"+HEAD:{ref}")


def taken_back(team, action: dict) -> dict:
    done = team.approve(team.compensate(action["id"]))
    assert done["status"] == "succeeded", done
    return done


def test_a_push_that_the_agent_makes_is_taken_back(team, tmp_path):
    before, after = team.source.at("main"), team.commits()
    action = asks(team, "git push origin main")
    assert (action["undo"], action["compensation"]["title"]) == (
        "outside", f"puts main back to {before[:7]} if nobody pushed meanwhile",
    )  # fmt: skip
    action = runs(team, action, lambda: arrives(team, tmp_path, "refs/heads/main"))
    assert action["compensation"]["call"]["arguments"]["steps"][0]["if_at"] == after
    taken_back(team, action)
    assert team.source.at("main") == before


def test_a_tag_is_deleted_again(team, tmp_path):
    sha = team.commits()
    team.agent.run(team.key, "git tag v1")
    action = asks(team, "git push origin v1")
    assert action["compensation"]["title"] == "deletes tag v1 if nobody pushed meanwhile"
    action = runs(team, action, lambda: arrives(team, tmp_path, "refs/tags/v1"))
    assert team.source.at("refs/tags/v1") == sha
    taken_back(team, action)
    assert team.source.at("refs/tags/v1") == ""


def test_a_branch_that_is_deleted_is_made_again_with_commits_that_nothing_else_has(team):
    theirs = team.source.somebody_pushes("main")
    git(team.source.bare, "branch", "old", "main")
    git(team.source.bare, "update-ref", "refs/heads/main", f"{theirs}~1")
    action = asks(team, "git push origin --delete old")
    assert action["compensation"]["title"] == f"makes old at {theirs[:7]} again if nobody made it meanwhile"

    def deletes():
        git(team.source.bare, "branch", "-D", "old")
        git(team.source.bare, "reflog", "expire", "--expire=now", "--all")
        git(team.source.bare, "prune", "--expire=now")

    action = runs(team, action, deletes)
    taken_back(team, action)
    assert team.source.at("old") == theirs


def test_somebody_elses_push_right_after_it_is_not_taken_for_its_own(team, tmp_path):
    team.commits()

    def both():
        arrives(team, tmp_path, "refs/heads/main")
        team.source.somebody_pushes("main")

    action = runs(team, asks(team, "git push origin main"), both)
    assert (action["compensation"], action["undo"]) == (None, "no")
    assert "somebody pushed meanwhile" in action["no_compensation_because"]


def test_a_push_that_did_not_arrive_has_no_way_back(team):
    team.commits()
    action = runs(team, asks(team, "git push origin main"), lambda: None, status="failed")
    assert (action["compensation"], action["undo"]) == (None, "no")
    assert team.lead.post(f"/actions/{action['id']}/compensate", {}, expect=409).json["code"] == "no_way_back"


def test_an_address_of_the_agents_choice_is_not_looked_at(team):
    team.commits()
    team.agent.run(team.key, "git remote add away https://example.org/secret-in-the-path/x.git")
    action = asks(team, "git push away main")
    assert (action["undo"], action["compensation"]) == ("no", None)
    assert "does not contact example.org before you decide" in action["no_compensation_because"]


@pytest.mark.parametrize(
    ("command", "before", "url", "words"),
    [
        ("gh pr create -t x -b y", "closes the pull request", "/pull/7", "closes pull request #7"),
        ("gh issue create -t x -b y", "closes the issue", "/issues/5", "closes issue #5"),
        ("glab issue note 5 -m hi", "deletes the comment", "/-/issues/5#note_77", "deletes the comment 77 on #5"),
        (
            "gh pr comment 5 --body hi", "deletes the comment", "/pull/5#issuecomment-77",
            "deletes the comment 77 on #5",
        ),
    ],
)  # fmt: skip
def test_what_is_opened_at_a_code_host_is_taken_back_by_the_number_in_its_output(team, command, before, url, words):
    host = team.source.host
    host.issues[5], host.comments[77] = {"state": "open", "labels": []}, "hi"
    action = asks(team, f"{command} -R {host.site}/team/shop" if command.startswith("gh") else command)
    assert (action["undo"], action["compensation"]["title"]) == ("outside", before), action
    action = runs(team, action, lambda: None, note=f"Created {host.url}/team/shop{url}")
    assert action["compensation"]["title"] == words
    taken_back(team, action)
    assert (host.closed == {7} or host.issues[5]["state"] == "closed" or 77 not in host.comments) is True


def test_a_comment_on_a_line_by_the_api_is_taken_back(team):
    host = team.source.host
    host.comments, host.line_comments = {77: "theirs"}, {77: "hi"}
    action = asks(team, f"gh api repos/team/shop/pulls/5/comments -f body=hi -F line=3 --hostname {host.site}")
    assert (action["undo"], action["compensation"]["title"]) == ("outside", "deletes the comment"), action
    said = json.dumps({"id": 77, "html_url": f"{host.url}/team/shop/pull/5#discussion_r77"})
    action = runs(team, action, lambda: None, note=f"{host.url}/team/shop/pull/5#issuecomment-9 {said}")
    assert action["compensation"]["title"] == "deletes the comment 77 on #5"
    taken_back(team, action)
    assert (host.comments, host.line_comments) == ({77: "theirs"}, {})


def test_no_comment_is_deleted_that_the_answer_names_beside_its_own(team):
    host = team.source.host
    host.line_comments = {9: "theirs", 77: "as I say in #discussion_r9"}
    action = asks(team, f"gh api repos/team/shop/pulls/5/comments -f body=hi --hostname {host.site}")
    here = f"{host.url}/team/shop/pull/5#discussion_r"
    action = runs(team, action, lambda: None, note=json.dumps({"body": f"see {here}9", "html_url": f"{here}77"}))
    assert (action["undo"], action["compensation"]) == ("no", None)
    assert "can't tell what to take back" in action["no_compensation_because"]


def comment(number: int | None = 5, on: str = "line") -> dict:
    where = "https://git.example.org/team/shop"
    return {"do": "delete_comment", "number": number, "comment": None, "on": on, "repository": where}


@pytest.mark.parametrize(
    ("steps", "named", "comments"),
    [
        ([comment()], ["5#discussion_r77", "5#discussion_r77"], [77]),
        ([comment(), comment()], [*["5#discussion_r77"] * 2, *["5#discussion_r78"] * 2], [77, 78]),
        ([comment()], ["6#discussion_r9"], [None]),
        ([comment()], ["6#discussion_r9", "5#discussion_r77"], [77]),
        ([comment()], ["5#discussion_r9", "5#discussion_r77"], [None]),
        ([comment(), comment(on="issue")], ["5#issuecomment-77", "5#discussion_r77"], [77, 77]),
        ([comment(None, "issue"), comment(None, "issue")], ["5#issuecomment-7", "6#issuecomment-8"], [7, 8]),
        ([comment(None, "issue")], ["5#issuecomment-7", "6#issuecomment-8"], [None]),
    ],
)
def test_a_comment_is_taken_from_the_output_only_if_it_can_be_told(steps, named, comments):
    output = "\n".join(f'"https://git.example.org/team/shop/pull/{each}"' for each in named)
    assert [step["comment"] for step in with_numbers(steps, output)] == comments


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("gh pr close 12", 12),
        ("gh issue close '#12'", 12),
        ("gh pr close https://git.example.org/team/shop/pull/12 -R git.example.org/team/shop", 12),
        ("glab mr close '!12'", 12),
        ("glab mr close https://git.example.org/team/shop/-/merge_requests/12", 12),
        ("gh pr close fix/12 -R git.example.org/team/shop", None),
        ("gh pr close https://git.example.org/team/other/pull/12 -R git.example.org/team/shop", None),
        ("gh pr comment 12 --edit-last -b x", None),
    ],
)
def test_what_is_taken_back_has_the_number_that_the_call_named(command, number):
    effect = effect_of({"words": shlex.split(command)}, "https://git.example.org/team/shop")
    assert [step["number"] for step in effect.steps] == ([number] if number else [])
    assert bool(effect.why_not) == (number is None)


@pytest.mark.parametrize(
    "command",
    [
        "gh api repos/team/shop/pulls/5/comments",
        "gh api -X DELETE repos/team/shop/pulls/comments/77",
        "gh api -X PUT repos/team/shop/pulls/5/comments -f body=hi",
        "gh api repos/team/shop/pulls/5/merge -X PUT",
        "gh api repos/team/shop/pulls/$N/comments -f body=hi",
    ],
)
def test_other_calls_of_the_api_have_no_way_back(command):
    effect = effect_of({"words": shlex.split(command.replace("$N", OPAQUE))}, "https://git.example.org/team/shop")
    assert effect.steps == []
    assert effect.why_not


def test_a_merged_pull_request_is_left_alone(team):
    host = team.source.host
    action = asks(team, f"gh pr create -t x -b y -R {host.site}/team/shop")
    action = runs(team, action, lambda: host.merged.add(7), note=f"{host.url}/team/shop/pull/7")
    done = team.approve(team.compensate(action["id"]))
    assert (done["status"], host.closed) == ("failed", set())
    assert done["result"]["note"] == (f"Pull request #7 was merged at {host.site} meanwhile. Nothing was changed.")


def test_a_review_is_dismissed_if_it_is_the_only_one_since(team):
    host = team.source.host
    action = asks(team, f"gh pr review 5 --approve -R {host.site}/team/shop")
    assert action["compensation"]["title"] == "dismisses the review"
    now = datetime.now(UTC).isoformat(timespec="seconds")

    def reviews():
        host.reviews[9] = {"state": "APPROVED", "submitted_at": now[:10] + "T23:59:59Z"}

    action = runs(team, action, reviews)
    taken_back(team, action)
    assert host.reviews[9]["dismissed"]


def test_labels_go_back_and_a_release_goes_with_its_tag(team, tmp_path):
    host = team.source.host
    host.issues[5], host.labels, host.releases = {"state": "open", "labels": ["new"]}, {"new": 1, "old": 2}, {"v9": 3}
    where = f"-R {host.site}/team/shop"
    action = asks(team, f"gh issue edit 5 --add-label new --remove-label old {where}")
    taken_back(team, runs(team, action, lambda: None))
    assert host.issues[5]["labels"] == ["old"]
    action = asks(team, f"gh release create v9 --notes x {where}")
    assert action["compensation"]["title"] == "deletes the release v9 and deletes tag v9 if nobody pushed meanwhile"
    taken_back(team, runs(team, action, lambda: git(team.source.bare, "tag", "v9", "main")))
    assert (host.releases, team.source.at("refs/tags/v9")) == ({}, "")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("gh pr merge 5", "A merge can't be taken back by a call."),
        ("gh pr review 5 --comment -b hm", "A review that only comments can't be dismissed."),
        ("git push --all origin", "It pushes other branches or tags, unknown until it runs."),
        ("twine upload dist/x-1.0.tar.gz", "takes no yank by a call"),
    ],
)
def test_what_has_no_way_back_says_why(team, command, why):
    action = asks(team, command)
    assert (action["undo"], action["compensation"], why in action["no_compensation_because"]) == ("no", None, True)


def test_a_publish_is_deprecated_by_a_shell_call_that_the_policy_judges(team):
    package = json.dumps({"name": "@team/cart", "version": "1.2.0"})
    team.agent.run(team.key, f"echo '{package}' > package.json")
    action = asks(team, "npm publish --registry https://registry.example.org")
    assert (action["undo"], action["compensation"]["title"]) == (
        "outside", "marks @team/cart@1.2.0 as deprecated; it stays there",
    )  # fmt: skip
    action = runs(team, action, lambda: None)
    asked = team.compensate(action["id"])
    assert (asked["tool"], asked["mode"], asked["status"], asked["compensates"]) == (
        "Bash", "broker", "pending", action["id"],
    )  # fmt: skip
    assert asked["arguments"]["command"] == (
        "npm deprecate @team/cart@1.2.0 'Taken back with Handrail: published by mistake' --registry"
        " https://registry.example.org"
    )


@pytest.mark.parametrize(
    ("file", "content", "publish", "taken_back"),
    [
        (
            "package.json", ELSEWHERE,
            "npm publish", "npm deprecate cart@1.2.0 'Taken back with Handrail: published by mistake'"
            " --registry https://npm.example.org",
        ),
        (
            "package.json", ELSEWHERE,
            "npm publish --registry https://other.example.org", "npm deprecate cart@1.2.0"
            " 'Taken back with Handrail: published by mistake' --registry https://other.example.org",
        ),
        (
            "package.json", OF_A_SCOPE,
            "npm publish", "npm deprecate @acme/cart@1.2.0 'Taken back with Handrail: published by mistake'"
            " --@acme:registry=https://npm.example.org",
        ),
        (
            "package.json", '{"name": "@acme/cart", "version": "1.2.0"}',
            "npm publish --@acme:registry=https://npm.example.org", "npm deprecate @acme/cart@1.2.0"
            " 'Taken back with Handrail: published by mistake' --@acme:registry=https://npm.example.org",
        ),
        (
            "Cargo.toml", '[package]\nname = "cart"\nversion = "1.2.0"\n',
            "CARGO_REGISTRY_TOKEN=x cargo publish", "cargo yank --version 1.2.0 cart",
        ),
        (
            "Cargo.toml", '[package]\nname = "cart"\nversion = "1.2.0"\npublish = ["acme"]\n',
            "cargo publish", "cargo yank --version 1.2.0 cart --registry acme",
        ),
        (
            "Cargo.toml", '[package]\nname = "cart"\nversion = "1.2.0"\n',
            "cargo publish --registry acme", "cargo yank --version 1.2.0 cart --registry acme",
        ),
        (
            "cart.gem", "", "gem push cart-1.2.0.gem --host https://gems.example.org -k acme",
            "gem yank cart -v 1.2.0 --host https://gems.example.org -k acme",
        ),
    ],
)  # fmt: skip
def test_a_publish_is_taken_back_at_the_registry_that_it_went_to(team, file, content, publish, taken_back):
    team.agent.run(team.key, f"cat > {file} <<'E'\n{content}\nE")
    call = asks(team, publish)["compensation"]["call"]
    assert call["arguments"]["command"] == taken_back


@pytest.mark.parametrize(
    ("content", "publish"),
    [
        ('{"name": "cart", "version": "1.2.0", "publishConfig": {"registry": "; rm -rf ~"}}', "npm publish"),
        (ELSEWHERE, "npm publish --registry $REGISTRY"),
        (ELSEWHERE, "NPM_CONFIG_REGISTRY=https://other.example.org npm publish"),
        (ELSEWHERE, "export NPM_CONFIG_REGISTRY=https://other.example.org && npm publish"),
        ('[package]\nname = "cart"\nversion = "1.2.0"\npublish.workspace = true', "cargo publish"),
        ('[package]\nname = "cart"\nversion = "1.2.0"', "CARGO_REGISTRY_DEFAULT=acme cargo publish"),
        ("", "RUBYGEMS_HOST=https://gems.example.org gem push cart-1.2.0.gem"),
    ],
)
def test_a_publish_to_a_registry_that_is_not_known_has_no_way_back(team, content, publish):
    file = "Cargo.toml" if "cargo" in publish else "package.json"
    team.agent.run(team.key, f"cat > {file} <<'E'\n{content}\nE")
    action = asks(team, publish)
    assert (action["undo"], action["compensation"]) == ("no", None)
    assert "which registry this publishes to" in action["no_compensation_because"]
