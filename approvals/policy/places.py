"""Where a path leads: resolved against the workspace, its symlinks and its kind of file system."""

import fnmatch
import itertools
import posixpath
import re
import unicodedata
from dataclasses import dataclass, field

from .hidden import hidden_in
from .words import names

PROTECTED = names(
    """
    .git .claude .mcp.json .vscode .idea .devcontainer .husky .envrc .bashrc .bash_profile .bash_login
    .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv .zlogin .zlogout .kshrc .cshrc .tcshrc .login
    .inputrc .gitconfig .ssh .gnupg .pam_environment .xprofile .xsession .xinitrc .handrail
    """
)
PROTECTED_PAIRS = {(".github", "workflows"), (".config", "fish"), (".config", "git"), (".config", "autostart")}
SECRET_FOLDERS = {".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store"}
SECRET_PAIRS = {(".docker", "config.json"), (".config", "gh"), (".config", "gcloud"), (".config", "hub")}
SECRET_NAMES = names(
    """
    .env .env.* *.env .netrc _netrc .pgpass .npmrc .pypirc .git-credentials .vault-token .envrc id_rsa* id_dsa*
    id_ecdsa* id_ed25519* *.pem *.key *.p12 *.pfx *.kdbx *.jks *.keystore credentials credentials.json
    credentials.yml secrets.json secrets.yml secrets.yaml secrets.toml .htpasswd kubeconfig
    service-account*.json *.tfstate .credentials.json
    """
)
NOT_SECRET = (".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub", "example.env", "sample.env")
HARMLESS_DEVICES = {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty", "/dev/urandom"}
SYSTEM_READS = ("/usr/share/", "/usr/include/", "/usr/lib/", "/usr/local/lib/", "/usr/bin/", "/bin/", "/lib/")
SHORT_NAME = re.compile(r"([^~]{1,6})~\d+(?:\.[^.]{0,3})?")
MAX_LINKS = 40


@dataclass(frozen=True)
class Place:
    """One path: as written, by text, after symlinks, and what is special about it."""

    shown: str
    lexical: str
    reals: tuple
    inside: bool
    protected: bool = False
    secret: bool = False
    unclear: str = ""

    @property
    def device(self):
        return self.lexical in HARMLESS_DEVICES

    @property
    def system(self):
        """True for what every machine has and no secret lives in."""
        return not self.secret and all((end + "/").startswith(SYSTEM_READS) for end in (self.lexical, *self.reals))

    def label(self, root):
        """Return the path as a person in the workspace would write it."""
        if self.unclear or not self.inside or not self.lexical.startswith(root):
            return self.shown
        return posixpath.relpath(self.lexical, root)


@dataclass
class World:
    """What is known about the file system that the action will meet."""

    root: str = "/workspace"
    home: str = "/home/agent"
    cwd: str = "/workspace"
    symlinks: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)

    @classmethod
    def of(cls, root, home, cwd, context):
        """Build from a context: `symlinks` {path: target} and `files` {path: text}, relative to the workspace."""
        world = cls(root=_clean(root), home=_clean(home))
        world.cwd = world._absolute(cwd or root, world.root)
        links, files = context.get("symlinks") or {}, context.get("files") or {}
        world.symlinks = {world._absolute(k, world.root): str(v) for k, v in dict(links).items()}
        names = files if isinstance(files, (dict, list, tuple)) else {}
        world.files = {world._absolute(str(name), world.root): None for name in names}
        return world

    def place(self, path, cwd=None, *, shell=False):
        """Resolve one path. `shell`: its words were expanded already, so `$` and `\\` are plain characters."""
        cwd = cwd or self.cwd
        unclear = self._unclear(path, shell)
        if unclear:
            return Place(path, path, (path,), inside=False, unclear=unclear)
        lexical = self._absolute(path, cwd)
        # `..` after a symlink goes up from where the link leads, so the walk takes the path as written.
        written = self._spelled_out(path, cwd)
        reals = {self._walk(written, from_root=False), self._walk(written, from_root=True)}
        if None in reals:
            return Place(path, lexical, (lexical,), inside=False, unclear="leads through too many symlinks")
        ends = (lexical, *sorted(reals))
        inside = all(self._within(end) for end in ends)
        return Place(
            path,
            lexical,
            tuple(sorted(reals)),
            inside=inside,
            protected=any(is_protected(self._below(end)) for end in ends),
            secret=any(is_secret(self._below(end)) or _reveals_process(end) for end in ends),
        )

    def _unclear(self, path, shell):
        if not path:
            return "is empty"
        if hidden_in(path) or "\0" in path or "\n" in path:
            return "holds hidden characters"
        if path.startswith("~") and not (path == "~" or path.startswith("~/")):
            return "names another user's home"
        if not shell and re.search(r"[$`%\\*?]|\{", path):
            return "holds a variable, a wildcard or a backslash"
        if len(path) > 4096:
            return "is longer than a path can be"
        return ""

    def _spelled_out(self, path, cwd):
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return path if path.startswith("/") else f"{cwd}/{path}"

    def _absolute(self, path, cwd):
        return _clean(self._spelled_out(path, cwd))

    def _walk(self, path, *, from_root):
        """Follow symlinks component by component; None for one that never ends.

        Contexts write relative targets from the link's folder or from the workspace, so both readings are walked.
        """
        todo, done, links = [p for p in path.split("/") if p not in ("", ".")], [], 0
        while todo:
            name = todo.pop(0)
            if name == "..":
                done = done[:-1]
                continue
            target = self.symlinks.get("/" + "/".join([*done, name]))
            if target is None:
                done.append(name)
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            if target.startswith("~/"):
                target = self.home + target[1:]
            if target.startswith("/"):
                done = []
            elif from_root and not target.startswith("."):
                done = [p for p in self.root.split("/") if p]
            todo = [p for p in target.split("/") if p not in ("", ".")] + todo
        return "/" + "/".join(done)

    def _within(self, path):
        return path == self.root or path.startswith(self.root.rstrip("/") + "/")

    def _below(self, path):
        """Return the components below the workspace, or all of them for a path elsewhere."""
        if self._within(path):
            path = path[len(self.root) :]
        return [p for p in path.split("/") if p]

    def fresh(self, names):
        """Return a file of one of these names that is known to have been put there, or None."""
        return next((f for f in self.files for name in names if f.endswith("/" + name)), None)

    def holds_secret(self, folder):
        """Return a secret file known to lie at or below `folder`, or None."""
        prefix = folder.rstrip("/") + "/"
        return next((f for f in self.files if f.startswith(prefix) and is_secret(self._below(f))), None)


def _clean(path):
    return posixpath.normpath("/" + str(path).lstrip("/"))


def fold(name):
    """Return a name as the most forgiving file system would compare it."""
    if name.isascii():
        return name.lower().split(":")[0].rstrip(". ")
    name = unicodedata.normalize("NFKC", name).casefold()
    name = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))
    return name.split(":")[0].rstrip(". ")


def is_protected(names):
    """True when writing there could run something later, or widen what the agent may do."""
    folded = [fold(name) for name in names]
    if any(name in PROTECTED or _short_name(name) for name in folded):
        return True
    # A folder around a protected one: once it is moved or linked, the inner one has another path.
    if folded and folded[-1] in {outer for outer, _ in PROTECTED_PAIRS}:
        return True
    return any(pair in PROTECTED_PAIRS for pair in itertools.pairwise(folded))


def _short_name(name):
    """True for what NTFS may call a protected name, such as GIT~1 or GI7EBA~1."""
    match = SHORT_NAME.fullmatch(name)
    if not match:
        return False
    stem = match[1]
    plain = [re.sub(r"[^a-z0-9_]", "", protected) for protected in (*PROTECTED, ".github")]
    return any(p.startswith(stem) or (len(stem) == 6 and p.startswith(stem[:2])) for p in plain)


def is_secret(names):
    """True for credential stores, keys and `.env` files."""
    folded = [fold(name) for name in names]
    if any(name in SECRET_FOLDERS for name in folded):
        return True
    if any(pair in SECRET_PAIRS for pair in itertools.pairwise(folded)):
        return True
    last = folded[-1] if folded else ""
    return secret_name(last)


def secret_name(name):
    return _SECRET.match(name) is not None and _NOT_SECRET.match(name) is None


def _any_of(patterns):
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


_SECRET, _NOT_SECRET = _any_of(SECRET_NAMES), _any_of(NOT_SECRET)


def glob_may_hit_secret(pattern):
    """True when a shell wildcard could expand to a secret name that a plain `*` would not show."""
    last = fold(pattern.rsplit("/", 1)[-1])
    probes = (".env", ".env.local", ".netrc", ".npmrc", ".pgpass", "id_rsa", "id_ed25519", "server.pem", "server.key")
    if last.startswith(("*", "?")):
        # A leading wildcard never matches a dot, and a bare one says nothing about keys.
        literal = last.strip("*?")
        return bool(literal) and any(fnmatch.fnmatchcase(p, last) for p in probes if not p.startswith("."))
    folders = [fold(part) for part in pattern.split("/")[:-1]]
    if any(
        re.search(r"[*?\[]", f) and any(fnmatch.fnmatchcase(s, f) for s in SECRET_FOLDERS)
        for f in folders
        if f.startswith(".")
    ):
        return True
    return any(fnmatch.fnmatchcase(probe, last) for probe in probes)


def _reveals_process(path):
    """True for /proc (environments, memory, descriptors) and what stands for it."""
    return path == "/proc" or path.startswith(("/proc/", "/dev/fd/", "/sys/"))
