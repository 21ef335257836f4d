"""Names that an envelope opens: each verb is possible at each, and nothing beside it changes."""

from dataclasses import replace

import pytest

from tests.workspaces.envelope.held import Held
from workspaces.drivers.init_client import InitClient, InitRefused
from workspaces.envelope.envelope import MEDIUM
from workspaces.envelope.ring import is_held

PREPARE = """
cd /workspace && git init -q . && git config user.name A &&
mkdir -p .github/workflows dist/deep .husky ~/near/deep ~/.ssh &&
for folder in . .github/workflows .husky ~ ~/near
do echo one > $folder/one; echo beside > $folder/beside; mkdir -p $folder/tree/deep; echo x > $folder/tree/deep/x; done
echo canary > ~/.ssh/id; echo canary > dist/.env; echo x > dist/x; mkdir -p dist/.vscode
"""
# Makes what a verb changed in its folder as PREPARE made it, with few processes: in an emulated guest each takes long.
RESTORE = "rm -rf one two new a tree && mkdir -p tree/deep && echo one > one && echo x > tree/deep/x"
WORKSPACE = "/workspace"
HOME = "/home/agent"
FOLDERS = (WORKSPACE, f"{WORKSPACE}/.github/workflows", f"{WORKSPACE}/.husky", HOME, f"{HOME}/near")
# verb: (what is opened, as the policy would; the command; what must be so afterwards)
VERBS = {
    "unlink": ({"removes": ["one"]}, "rm one", "! test -e one"),
    "remove a tree": ({"removes": ["tree"]}, "rm -r tree", "! test -e tree"),
    "rmdir": ({"removes": ["tree/deep/x", "tree/deep"]}, "rm tree/deep/x && rmdir tree/deep", "! test -e tree/deep"),
    "rename": (
        {"removes": ["one"], "replaces": ["two"]},
        'python3 -c \'import os; os.rename("one", "two")\'',
        "! test -e one && grep -q one two",
    ),
    "rename a tree": (
        {"removes": ["tree"], "replaces": ["two"]},
        "mv tree two",
        "! test -e tree && grep -q x two/deep/x",
    ),
    "rename over": ({"removes": ["tree/deep/x"], "replaces": ["one"]}, "mv tree/deep/x one", "grep -q x one"),
    "replace": ({"replaces": ["one"]}, "sed -i s/one/two/ one && grep two one", "grep -q two one"),
    "create": ({"replaces": ["new"]}, "echo new > new && cat new", "grep -q new new"),
    "create below": ({"replaces": ["a/b/new"]}, "mkdir -p a/b && echo new > a/b/new", "grep -q new a/b/new"),
    "append": ({"replaces": ["one"]}, "echo two >> one", 'test "$(cat one)" = "$(printf "one\\ntwo")"'),
    "chmod": ({"replaces": ["one"]}, "chmod 700 one", 'test "$(stat -c %a one)" = 700'),
    "link": ({"replaces": ["one", "two"]}, "ln one two", 'test "$(stat -c %h one)" = 2'),
    "symlink": ({"replaces": ["two"]}, "ln -s one two", 'test "$(readlink two)" = one'),
    "truncate": ({"replaces": ["one"]}, "truncate -s 0 one", "test ! -s one"),
    "wildcard": ({"removes": ["on*", "tree/*"]}, "rm -r on* tree/*", "! test -e one && ! test -e tree/deep"),
}


@pytest.fixture(params=["sandbox", "microvm"])
def held(request, begin, require):
    run = begin(request.param)
    held = Held(run)
    if not is_held(held.abilities):
        require("mount views", f"{request.param} has {held.abilities}")
    return held


def prepared(held):
    assert held.run.sh("rm -rf /workspace/* /workspace/.[!.]* ~/* ~/.ssh")[1] == 0
    assert held.run.sh(PREPARE) == ("", 0)


def opened(folder, names):
    return replace(MEDIUM, **{field: tuple(f"{folder}/{name}" for name in found) for field, found in names.items()})


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_each_verb_is_possible_at_each_place_and_changes_nothing_beside_it(held, folder):
    prepared(held)
    for verb, (names, command, after) in VERBS.items():
        output, status, blocked = held.told(f"cd {folder} && {command}", opened(folder, names))
        assert (status, blocked) == (0, []), (verb, output)
        checked = held.run.sh(f"cd {folder} && {after} && cat beside && {RESTORE}")
        assert checked == ("beside\n", 0), verb


@pytest.mark.parametrize("field", ["removes", "replaces"])
def test_what_lies_beside_an_opened_name_stays(held, field):
    prepared(held)
    for folder in FOLDERS[1:]:
        envelope = opened(folder, {field: ["one"]})
        for command in (
            "rm beside",
            "rm -r tree",
            "mv beside two",
            "echo x >> beside",
            "rm tree/deep/x",
            "chmod 0 beside",
        ):
            output, status = held.sh(f"cd {folder} && {command}", envelope)
            assert status != 0, (folder, command, output)
        assert held.run.sh(f"cd {folder} && cat beside tree/deep/x") == ("beside\nx\n", 0)


def test_a_name_that_may_only_be_removed_opens_no_other_in_the_home(held):
    prepared(held)
    envelope = opened(HOME, {"removes": ["one"]})
    for command in ("echo x > ~/new", "mkdir ~/new", "mv ~/one ~/new && cat ~/new", "ln -s x ~/new", "cat ~/beside"):
        assert held.sh(command, envelope)[1] != 0, command
    assert held.run.sh("test -e ~/new")[1] == 1


def test_a_name_that_may_be_replaced_shows_nothing_beside_it(held):
    prepared(held)
    envelope = opened(HOME, {"replaces": ["one"]})
    for command in ("cat ~/.ssh/id", "ls ~/.ssh", "cat ~/near/one"):
        assert held.sh(command, envelope)[1] != 0, command
    assert "one" not in held.sh("cat ~/beside", envelope)[0]
    assert held.sh("cat ~/one", envelope) == ("one\n", 0)


def test_a_removed_folder_goes_with_its_secrets_and_protected_paths(held):
    prepared(held)
    for tree in ("dist", ".git", ".github"):
        assert held.sh(f"rm -rf {tree} && ! test -e {tree}", opened(WORKSPACE, {"removes": [tree]})) == ("", 0)


def test_other_names_made_in_an_opened_protected_folder_are_told(held):
    prepared(held)
    command = "rm .github/workflows/one && echo on: > .github/workflows/other"
    held.sh(command, opened(WORKSPACE, {"removes": [".github/workflows/one"]}))
    with InitClient(held.run.owner.address.socket) as init:
        assert init.request("created", taken=[])["created"] == [".github/workflows/other"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"removes": ("/workspace",)}, "/workspace itself cannot be removed"),
        ({"removes": ("/home/agent",)}, "/home/agent itself cannot be removed"),
        ({"removes": ("/usr/bin/env",)}, "/usr/bin cannot be written here, so /usr/bin/env cannot be changed"),
        ({"replaces": ("/usr/new",)}, "/usr cannot be written here, so /usr/new cannot be changed"),
        ({"replaces": ("/new",)}, "/ cannot be opened, so /new cannot be changed"),
        ({"removes": ("/workspace/link/one",)}, "leads through a symlink to /home/agent/near/one"),
    ],
)
def test_what_cannot_be_done_in_full_is_refused_before_it_begins(held, names, why):
    prepared(held)
    held.run.sh("ln -s ~/near /workspace/link")
    with pytest.raises(InitRefused, match=why):
        held.sh("touch /workspace/began", replace(MEDIUM, **names))
    assert held.run.sh("test -e /workspace/began; cat ~/near/one") == ("one\n", 0)
