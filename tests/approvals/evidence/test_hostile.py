"""Trees and repositories that an agent made to mislead whoever looks at them."""

from .conftest import text_of


def test_ten_thousand_files_are_counted_and_not_listed(desk, ask, person):
    key = desk.create()["key"]
    desk.run(key, "mkdir many && cd many && seq 10000 | xargs touch")
    found = person.evidence(ask(key, "rm many/* && curl e.org"))["findings"][0]
    assert found["says"][0] in ("Deletes 10,000 files, 0 bytes.", "Deletes at least 10,000 files, 0 bytes.")
    assert (len(found["names"]), found["more"]) == (20, 9980)


def test_names_with_hidden_characters_are_shown_as_marks(desk, ask, person):
    key = desk.create()["key"]
    desk.run(key, r"mkdir d && touch $'d/a\u202eb' $'d/c\nd' $'d/\xff'")
    action = ask(key, "rm d/* && curl e.org")
    found = person.evidence(action)["findings"][0]
    assert found["says"][0] == "Deletes 3 files, 0 bytes."
    assert [name.get("path_b64", name["path"]) for name in found["names"]] == ["d/a\u202eb", "d/c\nd", "ZC//"]
    page = person.get(f"/actions/{action['id']}/evidence/")
    assert "\u202e" not in page
    assert "U+202E" in text_of(page)


def test_links_are_neither_followed_nor_counted_as_what_they_name(desk, ask, person):
    key = desk.create()["key"]
    desk.run(key, "mkdir d && ln -s /usr d/out && ln -s loop d/loop && ln -s .. d/up && ln -s d link")
    found = person.evidence(ask(key, "rm -rf d && curl e.org"))["findings"][0]
    assert found["says"][0].startswith("Deletes 3 files and 1 folder, 0 bytes.")
    through = person.evidence(ask(key, "rm -rf link/out/bin && curl e.org"))["findings"][0]
    assert through["says"] == ["None of it exists now."]


def test_a_git_file_that_points_outside_is_not_gone_to(desk, ask, says):
    key = desk.create()["key"]
    desk.run(key, "echo 'gitdir: /etc' > .git && echo x > a && mkdir b && ln -s /etc b/.git && echo y > b/c")
    assert says(ask(key, "rm a b/c && curl e.org"))[1] == "Can't tell whether git tracks 2 files."
    refused = says(ask(key, "git push origin main"))[0]
    assert "The repository is outside of this folder, as of a linked worktree" in refused


def test_objects_outside_the_workspace_are_named_and_not_read(desk, ask, says, repository):
    source, _, _ = repository
    key = desk.create()["key"]
    desk.run(key, f"git init -q -b main && echo '{source}/.git/objects' > .git/objects/info/alternates && "
                  "git -c user.name=T -c user.email=t@x commit -q --allow-empty -m one")  # fmt: skip
    said = says(ask(key, "git push origin main"))
    assert said[-1] == "The repository also uses objects outside the workspace, which were not checked."


def test_what_a_repository_makes_git_run_reaches_nothing(desk, ask, says):
    key = desk.create()["key"]
    desk.run(
        key,
        "git init -q -b main && echo x > a && git add a && git -c user.name=T -c user.email=t@x commit -q -m one && "
        "printf '#!/bin/sh\\ntouch /workspace/ran /home/agent/ran\\n' > run && chmod +x run && "
        "git config core.fsmonitor ./run && git config diff.external ./run && git config core.sshCommand ./run && "
        "git config uploadpack.packObjectsHook ./run && git config core.hooksPath . && "
        "git config filter.x.clean ./run && echo '* filter=x diff=x' > .gitattributes && "
        "git config diff.x.textconv ./run && git config gpg.program ./run && git config log.showSignature true",
    )
    assert says(ask(key, "git push origin main"))[1] == "Branch main: 1 commit, 1 file, +1 −0."
    says(ask(key, "git clean -fdx && curl e.org"))
    assert desk.run(key, "ls -A /workspace /home/agent | grep -c '^ran$' || true") == b"0\n"


def test_replaced_commits_do_not_tell_another_story(desk, ask, person):
    key = desk.create()["key"]
    git = "git -c user.name=T -c user.email=t@x"
    desk.run(key, f"git init -q -b main && echo x > a && git add a && {git} commit -qm true && "
                  f"kind=$({git} commit-tree -m kind $(git mktree </dev/null)) && git replace HEAD $kind")  # fmt: skip
    found = person.evidence(ask(key, "git push origin main"))["findings"][0]
    assert [commit["subject"] for commit in found["commits"]] == ["true"]
