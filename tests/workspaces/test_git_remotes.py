"""The remotes of a folder's repository: those that reads at the code host may use, as its configuration names them."""

import os
import subprocess

from workspaces.services.git_remotes import branch, configured, repository_of


def git(folder, *args):
    subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True)


def test_only_remotes_of_one_plain_address_without_credentials_are_known(tmp_path):
    git(tmp_path, "init", "-q")
    remotes = {
        "origin": "https://github.com/mia/shop.git",
        "ssh": "ssh://git@example.org:2222/mia/shop.git",
        "scp": "git@gitlab.com:group/sub/shop.git",
        "local": str(tmp_path.parent / "shop.git"),
        "token": "https://ghp_0123456789@github.com/mia/shop.git",
        "password": "https://mia:secret@github.com/mia/shop.git",
        "ext": "ext::sh -c id",
        "option": "-oProxyCommand=id",
        "plain": "http://github.com/mia/shop.git",
        "inside": str(tmp_path / "nested"),
    }
    for name, url in remotes.items():
        git(tmp_path, "config", f"remote.{name}.url", url)
    git(tmp_path, "remote", "add", "two", "https://github.com/mia/a")
    git(tmp_path, "remote", "set-url", "--add", "two", "https://github.com/mia/b")
    (tmp_path / "more").write_text('[remote "included"]\n\turl = https://github.com/evil/shop\n')
    git(tmp_path, "config", "include.path", "../more")
    assert configured(tmp_path) == {name: remotes[name] for name in ("origin", "ssh", "scp", "local")}
    assert configured(tmp_path / "nested") == {}


def test_a_repository_is_named_alike_whatever_its_address():
    for url in ("https://github.com/Mia/shop.git", "git@github.com:mia/shop", "ssh://git@github.com/mia/shop.git"):
        assert repository_of(url) == "github.com/mia/shop"
    assert repository_of("git@gitlab.com:group/sub/shop.git") == "gitlab.com/group/sub/shop"
    assert repository_of("/srv/shop.git") == ""


def test_the_branch_is_read_from_a_plain_file_alone(tmp_path):
    git(tmp_path, "init", "-q", "-b", "topic/x")
    assert branch(tmp_path) == "topic/x"
    head = tmp_path / ".git" / "HEAD"
    for text in ("0" * 40, "ref: refs/heads/--web\n", "ref: refs/tags/v1\n", "ref: refs/heads/" + "x" * 300):
        head.write_text(text)
        assert branch(tmp_path) == ""
    head.unlink()
    os.mkfifo(head)
    assert branch(tmp_path) == ""
    head.unlink()
    head.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("ref: refs/heads/main\n")
    assert branch(tmp_path) == ""
