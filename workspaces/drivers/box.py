"""The box of a connected folder: bubblewrap's arguments for a Run that sees the host's programs and only this folder.

Every path is the host's own, so that absolute paths in files, errors and caches stay true. What is not listed here is
absent: other folders of the home, HANDRAIL_HOME, `/run` with its sockets, and the network but for its own loopback.
"""

import os
import re
from pathlib import Path

from workspaces.envelope.tree_scan import is_secret

from .base import DriverError

# A folder below one of these would be hidden by the program's own.
HIDDEN_TOPS = ("/tmp", "/var/tmp", "/proc", "/dev", "/run")
SYSTEM = ("/usr", "/etc", "/opt", "/nix", "/go", "/gnu")
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Below these: the hook's token of `connect --system`, and sockets of daemons that do more than their caller may.
EMPTIED = ("/etc/claude-code", "/nix/var/nix/daemon-socket", "/nix/var/nix/gc-socket")


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Of the home, read-only: programs.
HOME_PROGRAMS = _names(
    """
    .local/bin .local/lib .local/share/mise .local/share/uv/python .local/share/uv/tools .local/share/fnm .local/pipx
    .local/share/pnpm .cargo/bin .cargo/env .rustup .nvm .pyenv .rbenv .asdf .sdkman .volta .bun .deno go/bin
    .npm-global .jenv
    """
)
# Of the home, read-only, as long as no credential is written in them: settings of programs.
HOME_SETTINGS = _names(
    """
    .gitconfig .config/git/config .config/git/ignore .config/git/attributes .config/go/env .config/mise/config.toml
    .cargo/config.toml .tool-versions .inputrc
    """
)
# Of the home, writable: what known tools fetch or compute and can do again.
HOME_CACHES = _names(
    """
    .cache/pip .cache/uv .cache/go-build .cache/golangci-lint .cache/pre-commit .cache/pypoetry .cache/yarn
    .cache/pnpm .cache/node .cache/node-gyp .cache/ms-playwright .cache/ccache .cache/sccache .cache/bazel .cache/ruff
    .cache/mypy .cache/deno .cache/typescript .cache/turbo
    .npm/_cacache .pnpm-store .yarn/berry .cargo/registry .cargo/git go/pkg .m2/repository .gradle/caches
    .gradle/wrapper .nuget/packages .bun/install/cache .bundle/cache .ivy2/cache .cabal/packages .hex .ccache
    """
)
# Where the box shows the folder of its reads at the code host (`runner/code_host`): never one of the host.
CODE_HOST = "/run/handrail-code-host"
CREDENTIAL = re.compile(rb"//[^/\s@:]+:[^/\s@]+@|token|passw|secret|api[_-]?key", re.IGNORECASE)
MAX_SETTINGS = 64 << 10  # bytes of a settings file that is searched


def check(folder: Path, home: Path) -> None:
    """Raise DriverError for a folder that cannot have a box."""
    for top in HIDDEN_TOPS:
        if folder.is_relative_to(top):
            raise DriverError(f"Calls in a folder below {top} cannot be held: programs get a {top} of their own.")
    if home.is_relative_to(folder):
        raise DriverError(f"Calls in {folder} cannot be held: it contains the whole home {home}.")


def arguments(
    folder: Path, home: Path, *, files: Path, absent: tuple[Path, ...], code_host: Path | None = None
) -> list[str]:
    """Return bwrap's arguments for mounts and namespaces.

    `files` is what the box sees as `folder`: itself, or a copy. `absent` are folders of Handrail's own data,
    `code_host` is what the box sees as CODE_HOST.
    """
    made = ["--unshare-user", "--unshare-all", "--disable-userns", "--as-pid-1", "--clearenv"]
    # The init makes mount views with the first, and keeps both from its programs (`init/program.py`).
    made += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
    for top in ("/run", "/var", "/home"):
        made += ["--perms", "0755", "--dir", top]
    made += _system()
    made += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]
    made += ["--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run"]
    made += ["--perms", "0700", "--tmpfs", str(home), *_of_home(home)]
    for path in (*map(Path, EMPTIED), *absent):
        if path.is_dir() and any(path.is_relative_to(top) for top in SYSTEM):
            made += ["--tmpfs", str(path)]
    if code_host is not None:
        made += ["--ro-bind", str(code_host), CODE_HOST]
    if repository := main_repository(folder, absent):
        made += ["--ro-bind", str(repository), str(repository)]
    return [*made, "--bind", str(files), str(folder), "--remount-ro", "/", "--chdir", str(folder)]


def with_repository(envelope: dict, folder: Path) -> dict:
    """Return the envelope with the main repository of a worktree to read, as far as the box shows it."""
    found = main_repository(folder)
    return envelope | {"read": [*envelope["read"], str(found)]} if found else envelope


def main_repository(folder: Path, absent: tuple[Path, ...] = ()) -> Path | None:
    """Return the .git of which the folder is a worktree, if it lies elsewhere and its configuration is no secret.

    What the folder's own `.git` file says is not enough, since the agent may write it: the repository must name the
    folder as its worktree.
    """
    try:
        named = (folder / ".git").read_text("utf-8").removeprefix("gitdir: ").strip()
        own = Path(os.path.realpath(folder / named))
        if Path((own / "gitdir").read_text("utf-8").strip()) != folder / ".git" or own.parent.name != "worktrees":
            return None
    except (OSError, ValueError):
        return None
    found = own.parent.parent
    hidden = [*map(Path, HIDDEN_TOPS), *absent, folder]
    if any(found.is_relative_to(top) or top.is_relative_to(found) for top in hidden):
        return None
    is_git = all((found / name).exists() for name in ("HEAD", "objects", "refs"))
    return found if is_git and _is_plain_setting(found / "config") else None


def _system() -> list[str]:
    made = []
    for top in SYSTEM:
        if os.path.isdir(top):
            made += ["--ro-bind", top, top]
    for link in SYSTEM_LINKS:
        if os.path.islink(link):
            made += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            made += ["--ro-bind", link, link]
    return made


def _of_home(home: Path) -> list[str]:
    made = []
    for name in HOME_PROGRAMS:
        made += _bound(home, name, "--ro-bind")
    for name in HOME_SETTINGS:
        if _is_plain_setting(home / name):
            made += _bound(home, name, "--ro-bind")
    for name in HOME_CACHES:
        made += _bound(home, name, "--bind")
    return made


def _bound(home: Path, name: str, how: str) -> list[str]:
    """Bind what is really there: a symlink may lead to what must stay hidden."""
    path = home / name
    is_own = path.exists() and path.resolve() == home.resolve() / name
    return [how, str(path.resolve()), str(path)] if is_own else []


def _is_plain_setting(path: Path) -> bool:
    """Return whether it is a small file that neither by its name nor by its content holds a credential."""
    try:
        if is_secret(path.parent.name, path.name, False) or path.stat().st_size > MAX_SETTINGS:
            return False
        return CREDENTIAL.search(path.read_bytes()) is None
    except OSError:
        return False
