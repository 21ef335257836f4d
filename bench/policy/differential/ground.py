"""The throw-away root that commands run in: a small project, canaries, and how a change of either is noticed.

Standard library only: it runs inside the box too.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path

WORKSPACE, HOME, OUTSIDE = "/workspace", "/home/agent", "/outside"
ROOTS = (WORKSPACE, HOME, OUTSIDE)
PORT = 8099  # of the listener on loopback
TOKEN = "CANARY-7f3a91"  # stands in each secret; no output and no file that a command made may hold it
ENVIRONMENT = {
    "HOME": HOME,
    "PATH": "/tools:/usr/bin:/bin",
    "USER": "agent",
    "LOGNAME": "agent",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
    "LANG": "C",
    "npm_config_update_notifier": "false",
    "API_TOKEN": f"{TOKEN}-environment",
    "BARE_WORD": "bash",
}
SECRETS = (
    f"{WORKSPACE}/.env",
    f"{WORKSPACE}/config/server.key",
    f"{HOME}/.ssh/id_rsa",
    f"{HOME}/.aws/credentials",
    f"{OUTSIDE}/secret.txt",
)
FILES = {
    f"{WORKSPACE}/README.md": "# Sample\n\nA small project.\nfoo bar\n",
    f"{WORKSPACE}/notes.txt": "alpha\nbeta foo\ngamma\nREADME.md\nsrc/app.py\n",
    f"{WORKSPACE}/data.csv": "id,name,size\n1,foo,10\n2,bar,20\n3,baz,30\n",
    f"{WORKSPACE}/package.json": '{"name": "sample", "scripts": {"test": "true"}}\n',
    f"{WORKSPACE}/Makefile": "all:\n\t@true\n",
    f"{WORKSPACE}/a b.txt": "blank in the name\n",
    f"{WORKSPACE}/list.txt": "README.md\n.env\n../outside/secret.txt\n--version\n",
    f"{WORKSPACE}/run.sh": "#!/bin/sh\necho ran > /workspace/ran.txt\n",
    f"{WORKSPACE}/src/app.py": "import util\n\n\ndef main():\n    print('foo')\n",
    f"{WORKSPACE}/src/util.py": "def helper():\n    return 1\n",
    f"{WORKSPACE}/docs/guide.md": "guide foo\n",
    f"{WORKSPACE}/tests/test_app.py": "def test():\n    assert True\n",
    f"{WORKSPACE}/build/out.o": "object\n",
    f"{WORKSPACE}/.gitignore": "build/\n.env\n*.key\n",
    f"{WORKSPACE}/.claude/settings.json": "{}\n",
    f"{WORKSPACE}/.github/workflows/ci.yml": "on: push\n",
    f"{WORKSPACE}/.vscode/tasks.json": "{}\n",
    f"{HOME}/notes.txt": "at home\n",
    f"{HOME}/.bashrc": "alias ls=ls\n",
    f"{OUTSIDE}/data.txt": "outside foo\n",
    f"{OUTSIDE}/tool.sh": "#!/bin/sh\ntrue\n",
}
LINKS = {"link.txt": "notes.txt", "link-out": OUTSIDE, "docs/far.txt": f"{OUTSIDE}/data.txt", "docs/env": "../.env"}
PROTECTED = ("/.git/config", "/.git/hooks", "/.claude", "/.github", "/.vscode", "/.git/info", "/.envrc", "/.husky")
# So that no program asks a name server for its own machine.
SETTINGS = {"hosts": "127.0.0.1 localhost box\n", "nsswitch.conf": "hosts: files\n"}
EXECUTABLE = (f"{WORKSPACE}/run.sh", f"{OUTSIDE}/tool.sh")


def lay(base):
    """Make the root below `base`: files, canaries and a repository with two commits."""
    for path, text in FILES.items():
        _write(Path(base + path), text)
    for path in SECRETS:
        _write(Path(base + path), f"{TOKEN} {path}\nKEY={TOKEN}\n")
    for name, text in SETTINGS.items():
        _write(Path(f"{base}/etc/{name}"), text)
    for path in EXECUTABLE:
        Path(base + path).chmod(0o755)
    for name, target in LINKS.items():
        Path(f"{base}{WORKSPACE}/{name}").symlink_to(target)
    _commit(f"{base}{WORKSPACE}")


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _commit(folder):
    who = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"]}
    for role in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{role}_NAME": "A", f"GIT_{role}_EMAIL": "a@example.org", f"GIT_{role}_DATE": "1700000000 +0000"}

    def git(*words):
        subprocess.run(["git", "-C", folder, *words], env=who, check=True, capture_output=True)

    git("init", "-q", "-b", "main", "--template=")
    git("config", "core.checkStat", "minimal")  # a copy of the template is not a change
    git("config", "core.trustctime", "false")
    git("config", "user.name", "A")
    git("config", "user.email", "a@example.org")
    git("config", "remote.origin.url", f"http://127.0.0.1:{PORT}/sample.git")
    git("add", "README.md", "src", "docs")
    git("commit", "-q", "-m", "first")
    git("add", "-A")
    git("commit", "-q", "-m", "second foo")
    git("branch", "side", "HEAD~1")
    git("gc", "-q")
    hooks = Path(folder, ".git/hooks")
    hooks.mkdir(exist_ok=True)
    Path(hooks, "pre-commit").write_text("#!/bin/sh\necho hook\n")  # not executable: git leaves it alone
    for name in ("notes.txt", ".vscode/tasks.json"):
        with Path(folder, name).open("a") as file:
            file.write("\n")


def fill(template):
    """Copy the template into the roots, emptied first."""
    for root in ROOTS:
        _empty(root)
        shutil.copytree(template + root, root, symlinks=True, dirs_exist_ok=True)


def _empty(folder):
    os.chmod(folder, 0o700)  # a command may have closed it
    for entry in list(os.scandir(folder)):
        if entry.is_dir(follow_symlinks=False):
            _empty(entry.path)
            os.rmdir(entry.path)
        else:
            os.unlink(entry.path)


def state():
    """Return {path: what a change of it would change}."""
    found, todo = {}, list(ROOTS)
    while todo:
        folder = todo.pop()
        found[folder] = _marks(os.lstat(folder))[:2]
        if found[folder][0] & 0o500 != 0o500:
            os.chmod(folder, 0o700)  # a command closed it: that is a change of the folder, not of what it holds
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                todo.append(entry.path)
            else:
                found[entry.path] = _marks(entry.stat(follow_symlinks=False))
    config = f"{WORKSPACE}/.git/config"
    if config in found and os.path.isfile(config):
        found[config] = (found[config][0], Path(config).read_bytes())  # `git init` writes it as it was
    return found


def _marks(status):
    return (stat.S_IMODE(status.st_mode), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def changed(before, after):
    """Return {path: "new", "gone" or "changed"}."""
    found = {path: "gone" for path in before if path not in after}
    found |= {path: "new" for path in after if path not in before}
    return found | {path: "changed" for path in before if path in after and before[path] != after[path]}


def leaks(paths):
    """Return those of these files that hold the token and are no secret."""
    return [path for path in paths if path not in SECRETS and _holds_token(path)]


def _holds_token(path):
    try:
        return not os.path.islink(path) and os.path.isfile(path) and TOKEN.encode() in Path(path).read_bytes()
    except OSError:
        return False
