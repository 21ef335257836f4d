"""Packages are recognised by what package managers leave; what an agent writes there breaks nothing."""

import pytest

from workspaces.provisioning.install_places import PLACES
from workspaces.runner.installed.home_scan import hidden_by, scan_home
from workspaces.store import LocalTree

FILES = {
    ".local/lib/python3.11/site-packages/a_b-1.0.dist-info/METADATA": "",
    ".local/share/pipx/venvs/ruff/lib/python3.11/site-packages/ruff-0.9.dist-info/METADATA": "",
    ".npm-global/lib/node_modules/@team/tool/package.json": '{"version": "2.1.0"}',
    ".npm-global/lib/node_modules/@team/tool/node_modules/inner/package.json": '{"version": "9"}',
    ".npm-global/lib/node_modules/odd/package.json": "[" * 100_000,
    ".npm-global/lib/node_modules/number/package.json": '{"version": 3}',
    ".npm-global/bin/tool": "",
    ".cargo/.crates.toml": '[v1]\n"ripgrep 14.1.0 (registry+x)" = ["rg"]\n',
    ".cargo/bin/rg": "12345",
    ".cargo/registry/big": "x" * 100,
    ".gem/ruby/3.1.0/gems/rake-13.0.6/Rakefile": "",
    ".nvm/versions/node/v22.1.0/LICENSE": "",
    ".rustup/toolchains/stable-x86_64/lib/a": "",
    ".pyenv/versions/3.12.1/lib/a": "",
    "go/bin/sh": "",
    ".claude/history.jsonl": "xx",
    ".bashrc": "",
}
FOUND = {
    ".local/lib": [("python", "a_b", "1.0")],
    ".local/share/pipx": [("python", "ruff", "0.9")],
    ".npm-global": [
        ("npm", "@team/tool", "2.1.0"),
        ("npm", "number", ""),
        ("npm", "odd", ""),
        ("program", "tool", ""),
    ],
    ".cargo/bin": [("crate", "ripgrep", "14.1.0"), ("program", "rg", "")],
    ".gem": [("gem", "rake", "13.0.6")],
    ".nvm": [("node", "node", "22.1.0")],
    ".rustup": [("rust toolchain", "stable-x86_64", "")],
    ".pyenv": [("python itself", "", "3.12.1")],
    "go/bin": [("program", "sh", "")],
}


@pytest.fixture
def home(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def looked(home):
    with LocalTree(home).files() as files:
        return scan_home(files)


def test_each_kind_is_found_with_its_version(home, tmp_path_factory):
    found = looked(home)
    told = {
        folder["path"]: [(each["kind"], each["name"], each["version"]) for each in folder["packages"]]
        for folder in found["folders"]
        if folder["can_be_kept"]
    }
    assert (told, found["complete"]) == (FOUND, True)
    assert set(told) <= set(PLACES)
    others = [(each["path"], each["files"], each["bytes"]) for each in found["folders"] if not each["can_be_kept"]]
    assert others == [(".bashrc", 1, 0), (".cargo/", 1, 100), (".claude/", 1, 2)]
    system = tmp_path_factory.mktemp("system")
    (system / "sh").touch()
    assert hidden_by(found["folders"], (str(system),)) == ["sh"]


def test_what_a_home_has_that_is_no_file_is_counted_and_not_read(home):
    (home / ".local/bin").mkdir()
    (home / ".local/bin/passwd").symlink_to("/etc/passwd")
    (home / ".npm-global/lib/node_modules/link").mkdir()
    (home / ".npm-global/lib/node_modules/link/package.json").symlink_to("/etc/passwd")
    (home / ".local/bin/\udcff\n").write_text("")
    found = {folder["path"]: folder for folder in looked(home)["folders"]}
    assert [each["name"] for each in found[".local/bin"]["packages"]] == ["\\xff\n", "passwd"]
    assert {"kind": "npm", "name": "link", "version": ""} in found[".npm-global"]["packages"]


def test_a_mark_changes_with_the_files_and_not_with_what_python_compiles(home):
    def mark():
        return next(folder["mark"] for folder in looked(home)["folders"] if folder["path"] == ".local/lib")

    before = mark()
    module = home / ".local/lib/python3.11/site-packages/a.py"
    module.parent.joinpath("__pycache__").mkdir()
    module.parent.joinpath("__pycache__/a.pyc").write_text("x")
    assert mark() == before
    module.write_text("x")
    assert mark() != before
