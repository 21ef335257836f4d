"""Where a path leads: resolved against the workspace, its symlinks and case-insensitive file systems."""

import fnmatch
import itertools
import posixpath
import re
import unicodedata
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from workspaces.envelope.sensitive_names import (
    NOT_SECRET,
    OUTER,
    PROTECTED,
    PROTECTED_PAIRS,
    PROTECTED_PATTERNS,
    SECRET_FOLDERS,
    SECRET_NAMES,
    SECRET_PAIRS,
    any_takes_effect,
)

from .globs import globs_meet, shell_fits
from .hidden_characters import hidden_in
from .step_budget import spend

HARMLESS_DEVICES = {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty", "/dev/urandom"}
SYSTEM_READS = ("/usr/share/", "/usr/include/", "/usr/lib/", "/usr/local/lib/", "/usr/bin/", "/bin/", "/lib/")
TEMPORARY = ("/tmp/", "/private/tmp/")
SHORTENED = [re.sub(r"[^a-z0-9_]", "", name) for name in (*PROTECTED, ".github")]
SHORT_NAME = re.compile(r"([^~]{1,6})~\d+(?:\.[^.]{0,3})?")
IN_SECRET_FOLDERS = ("config", "token", "known_hosts", "authorized_keys", *(last for _, last in SECRET_PAIRS))
# A bracket with a class such as [[:alpha:]], which may stand for any letter.
# pattern: recheck does not end; a word of a command, in a judge that is ended when it is late
CLASSES = re.compile(r"\[[^\]\[/]{0,64}\[([:=.])[^\]/]{0,64}\1\][^\]/]{0,64}\]")
WILD_SIGN = re.compile(r"[*?\[]")
AIMING = 3  # letters of a name without a dot in front of a wildcard from which that may mean a protected one
ORDINARY = (".py", ".yml", ".yaml", ".toml", ".js", ".cjs", ".mjs", ".lua", ".el", ".ini", ".cfg", ".jar", ".exs")
MANIFEST = ".handrail/manifest.json"  # in the workspace, mounted there by Handrail
NOTES = "/workspace/.handrail/notes.md"  # agents write it as they work; that of a connected folder is a person's
ORDINARY += (".ts", ".sql", ".nix")
MAX_LINKS = 40
MAX_PATH = 4096
MAX_NAME = 512


@dataclass(frozen=True)
class Place:
    """One path: as written, normalized, after symlinks, and how it is classified."""

    shown: str
    lexical: str
    reals: tuple
    inside: bool
    protected: bool = False
    notes: bool = False  # the notes of the workspace
    secret: bool = False
    unclear: str = ""
    temporary: bool = False  # below /tmp
    trusted: str = ""  # the place that the policy trusts and that this is in

    @property
    def device(self):
        return self.lexical in HARMLESS_DEVICES

    @property
    def system(self):
        """Return True for files that every machine has and that hold no secret."""
        return not self.secret and all((end + "/").startswith(SYSTEM_READS) for end in (self.lexical, *self.reals))

    def label(self, root):
        """Return the path relative to the workspace if it is inside, else as written."""
        if self.unclear or not self.inside or not self.lexical.startswith(root):
            return self.shown
        return posixpath.relpath(self.lexical, root)


@dataclass
class World:
    """What is known about the file system on which the action will run.

    `root` is the workspace's folder, or None without a workspace: then every path is outside, since `cwd` is only the
    agent's claim.
    """

    root: str | None = "/workspace"
    home: str = "/home/agent"
    cwd: str = "/workspace"
    symlinks: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)
    texts: dict = field(default_factory=dict)  # {path: text} of scripts
    secrets: tuple = ()  # known files that hold secrets
    downloaded: dict = field(default_factory=dict)  # {path: host} of files that earlier calls brought
    installed: frozenset = frozenset()  # programs that the project's packages brought
    trusted_places: tuple = ()
    trusted_programs: frozenset = frozenset()  # as commands name them

    @classmethod
    def of(cls, root, home, cwd, context):
        """Build from a context: `symlinks` {path: target}, `files` {path: text}, `secrets` and `installed`, lists."""
        world = cls(root=_clean(root) if root else None, home=_clean(home))
        base = world.root or "/"
        world.cwd = world._absolute(cwd or base, base)
        links, files = context.get("symlinks") or {}, context.get("files") or {}
        spend(10 * (len(links) + len(files)))
        world.symlinks = {world._absolute(k, base): str(v) for k, v in dict(links).items()}
        names = files if isinstance(files, (dict, list, tuple)) else {}
        world.files = {world._absolute(str(name), base): None for name in names}
        scripts = context.get("scripts")
        known = scripts.items() if isinstance(scripts, dict) else ()
        world.texts = {world._absolute(str(k), base): v for k, v in known if isinstance(v, str)}
        brought = context.get("downloaded")
        known = brought.items() if isinstance(brought, dict) else ()
        end = {True: "/", False: ""}  # of folders and of files
        paths = ((world._absolute(str(path), base) + end[str(path).endswith("/")], host) for path, host in known)
        world.downloaded = {path: str(host)[:100] for path, host in paths}
        world.secrets = tuple(world._absolute(name, base) for name in _texts(context.get("secrets")))
        world.installed = frozenset(_texts(context.get("installed")))
        spend(10 * (len(world.secrets) + len(world.installed)))
        return world

    @property
    def outside(self):
        """Return how messages call a place that is not inside."""
        return "outside the workspace" if self.root else "outside any workspace"

    def place(self, path, cwd=None, *, shell=False):
        r"""Resolve one path. `shell`: the shell has expanded it already, so `$` and `\` are plain characters."""
        cwd = cwd or self.cwd
        unclear = self._unclear(path, shell)
        if unclear:
            return Place(path, path, (path,), inside=False, unclear=unclear)
        spend(60 + 2 * len(path) + 2 * len(cwd))
        lexical = self._absolute(path, cwd)
        # `..` after a symlink goes up from the link's target, so the walk takes the path as written.
        written = self._spelled_out(path, cwd)
        reals = {self._walk(written, from_root=end) for end in (False, True)} if self.symlinks else {lexical}
        if None in reals:
            return Place(path, lexical, (lexical,), inside=False, unclear="leads through too many symlinks")
        ends = {lexical, *reals}
        below = [[fold(name) for name in self._components(end)] for end in ends]
        outer = self._outer(ends) if self.root and not all(map(self._within, ends)) else {}
        return Place(
            path,
            lexical,
            tuple(sorted(reals)),
            inside=all(map(self._within, ends)),
            protected=ends != {NOTES} and any(map(_folded_protected, below)),
            notes=ends == {NOTES},
            secret=any(map(_folded_secret, below)) or any(_reveals_process(end) or end in self.secrets for end in ends),
            **outer,
        )

    def _outer(self, ends):
        """Return what is known of a place outside the workspace."""
        trusted = [place for place in self.trusted_places if all(f"{end}/".startswith(f"{place}/") for end in ends)]
        return {
            "temporary": all(f"{end}/".startswith(TEMPORARY) for end in ends),
            "trusted": max(trusted, key=len, default=""),
        }

    def _unclear(self, path, shell):
        if not path:
            return "is empty"
        spend(20)
        if len(path) > MAX_PATH:
            return "is longer than a path can be"
        if hidden_in(path) or "\0" in path or "\n" in path:
            return "holds hidden characters"
        if path.startswith("~") and not (path == "~" or path.startswith("~/")):
            return "names another user's home"
        if not shell and re.search(r"[$`%\\*?]|\{", path):
            return "holds a variable, a wildcard or a backslash"
        return ""

    def _spelled_out(self, path, cwd):
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        return path if path.startswith("/") else f"{cwd}/{path}"

    def _absolute(self, path, cwd):
        return _clean(self._spelled_out(path, cwd))

    def _walk(self, path, *, from_root):
        """Follow symlinks component by component; return None after MAX_LINKS.

        Contexts write relative targets relative to the link's folder or to the workspace, so `place` tries both.
        """
        todo, done, links = deque(p for p in path.split("/") if p not in ("", ".")), [""], 0
        while todo:
            name = todo.popleft()
            spend(1 + len(done[-1]) // 64)
            if name == "..":
                del done[max(len(done) - 1, 1) :]
                continue
            here = f"{done[-1]}/{name}"
            target = self.symlinks.get(here)
            if target is None:
                done.append(here)
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            if target.startswith("~/"):
                target = self.home + target[1:]
            if target.startswith("/"):
                done = [""]
            elif from_root and not target.startswith("."):
                names = filter(None, (self.root or "").split("/"))
                done = list(itertools.accumulate(names, "{}/{}".format, initial=""))
            todo.extendleft(reversed([p for p in target.split("/") if p not in ("", ".")]))
        return done[-1] or "/"

    def expanded(self, pattern, cwd):
        """Return paths that a wildcard may expand to: known secrets, folders of theirs, and those through a symlink."""
        parts = self._absolute(pattern, cwd).split("/")
        found = []
        for known in (*self.symlinks, *self.secrets):
            names = known.split("/")
            spend(len(names))
            if all(map(_expands, parts, names)):
                found.append("/".join([*names[: len(parts)], *parts[len(names) :]]))
        return found

    def _within(self, path):
        if self.root is None:
            return False
        return path == self.root or path.startswith(self.root.rstrip("/") + "/")

    def _components(self, path):
        """Return the components below the workspace, or all components of a path elsewhere."""
        if self._within(path):
            path = path[len(self.root) :]
        return [p for p in path.split("/") if p]

    def fresh(self, names):
        """Return a known new file with one of these names, or None."""
        spend(len(self.files) * len(names))
        return next((f for f in self.files for name in names if f.endswith("/" + name)), None)

    def holds_secret(self, folder, *, links=False, hidden=True):
        """Return a known secret file at or below `folder`, or None; with `links` also a link out or to a secret.

        `hidden`: files with a name that begins with a dot count, and those in such a folder.
        """
        prefix = folder.rstrip("/") + "/"
        below = self.secrets_below(folder)
        found = next((path for path in below if hidden or "/." not in "/" + path[len(prefix) :]), None)
        return found or (self.link_out(folder) if links else None)

    def secrets_below(self, folder):
        """Return the paths of the known secret files below `folder`."""
        spend(4 * (len(self.files) + len(self.secrets)))
        known = itertools.chain(self.secrets, (path for path in self.files if is_secret(self._components(path))))
        return (path for path in known if path.startswith(folder.rstrip("/") + "/"))

    def link_out(self, folder):
        """Return a known link below `folder` that leads outside or to a secret, or None."""
        prefix = folder.rstrip("/") + "/"
        ends = ((link, self.place(link, shell=True)) for link in self.symlinks if link.startswith(prefix))
        return next((link for link, end in ends if end.secret or not (end.inside or end.system)), None)


def _expands(pattern, name):
    """Return True if a part of a pattern expands to this name; a wildcard in front leaves out hidden names."""
    return shell_fits(pattern, name) and not (name.startswith(".") and pattern[:1] in ("*", "?", "["))


def _texts(value):
    return [text for text in value if isinstance(text, str)] if isinstance(value, (list, tuple)) else []


def _clean(path):
    return posixpath.normpath("/" + str(path).lstrip("/"))


def fold(name):
    """Return a name as the most lenient file system would compare it."""
    if name.isascii() or len(name) > MAX_NAME:
        return name.lower().split(":")[0].rstrip(". ")
    # Normalizing combining marks takes the square of their number, hence MAX_NAME.
    spend(8 * len(name))
    name = unicodedata.normalize("NFKC", name).casefold()
    name = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))
    return name.split(":")[0].rstrip(". ")


def is_protected(names):
    """Return True if writing there could run something later, or widen what the agent may do."""
    return _folded_protected([fold(name) for name in names])


def _folded_protected(folded):
    if any_takes_effect(folded) or any(map(_short_name, folded)):
        return True
    # The parent of a protected folder: if it is moved or linked, the protected one gets another path.
    return bool(folded) and folded[-1] in OUTER


def _short_name(name):
    """Return True for a possible NTFS short name of a protected name, such as GIT~1 or GI7EBA~1."""
    match = SHORT_NAME.fullmatch(name) if "~" in name else None
    if not match:
        return False
    stem = match[1]
    return any(p.startswith(stem) or (len(stem) == 6 and p.startswith(stem[:2])) for p in SHORTENED)


def is_secret(names):
    """Return True for credential stores, keys and `.env` files."""
    return _folded_secret([fold(name) for name in names])


def _folded_secret(folded):
    if any(name in SECRET_FOLDERS for name in folded):
        return True
    if any(pair in SECRET_PAIRS for pair in itertools.pairwise(folded)):
        return True
    last = folded[-1] if folded else ""
    return secret_name(last)


def secret_name(name):
    spend(1 + len(name) // 4)
    return _SECRET.match(name) is not None and _NOT_SECRET.match(name) is None


def _any_of(patterns):
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))


_SECRET, _NOT_SECRET = _any_of(SECRET_NAMES), _any_of(NOT_SECRET)


GLOB_PROBES = (".env", ".env.local", ".netrc", ".npmrc", ".pgpass", ".pypirc", ".boto", ".s3cfg", ".dockercfg")
GLOB_PROBES += (".my.cnf", ".bash_history", "id_rsa", "id_ed25519", "server.pem", "server.key")


def glob_may_hit_secret(pattern):
    """Return True if a shell wildcard could expand to a secret name that a plain `*` would not."""
    pattern = CLASSES.sub("?", pattern)
    last = fold(pattern.rsplit("/", 1)[-1])
    if last.startswith(("*", "?")):
        # A leading wildcard never matches a dot, and one without any letters does not aim at keys.
        literal = last.strip("*?")
        return bool(literal) and any(shell_fits(last, p) for p in GLOB_PROBES if not p.startswith("."))
    folders = [fold(part) for part in pattern.split("/")[:-1]]
    if any(
        re.search(r"[*?\[]", f) and any(shell_fits(f, s) for s in SECRET_FOLDERS) for f in folders if f.startswith(".")
    ):
        return True
    return any(shell_fits(last, probe) for probe in GLOB_PROBES)


@lru_cache(maxsize=1024)
def fits_secret(pattern):
    """Return True if a pattern of `find`, where a wildcard matches a leading dot too, fits the name of a secret."""
    pattern = fold(CLASSES.sub("?", pattern))
    if any(shell_fits(pattern, name) for name in IN_SECRET_FOLDERS):
        return True
    # With an ending of its own, such as *.py, a pattern looks for other files than .env.* does.
    open_end = pattern.endswith(("*", "?", "]"))
    return any(
        globs_meet(pattern, secret if open_end or not secret.endswith("*") else secret.rstrip("*."))
        for secret in (*SECRET_NAMES, *SECRET_FOLDERS, ".env.local", ".env.prod*n")
    )


@lru_cache(maxsize=1024)
def fits_protected(pattern, *, hidden=False):
    """Return True if a wildcard fits a protected name; `hidden`: it matches a leading dot as well."""
    pattern = fold(CLASSES.sub("?", pattern))
    dotted = hidden or not pattern.startswith(("*", "?", "["))
    names = (*PROTECTED, *OUTER)
    if pattern.startswith("*.") and pattern.endswith(ORDINARY):
        names = ()  # with an ending that many files have, it looks for those
    if any(shell_fits(pattern, name) for name in names if dotted or not name.startswith(".")):
        return True
    return any(pattern.endswith(each.lstrip("*")) for each in PROTECTED_PATTERNS if each.startswith("*"))


def glob_may_hit_protected(pattern):
    """Return True if a part of a shell wildcard fits a protected name; one that begins with a wildcard aims at none."""
    parts = [fold(part) for part in CLASSES.sub("?", pattern).split("/")]
    wild = [part for part in parts if WILD_SIGN.search(part) and not WILD_SIGN.match(part)]
    wild = [part for part in wild if part.startswith(".") or len(WILD_SIGN.split(part)[0]) >= AIMING]
    if any(map(fits_protected, wild)):
        return True
    return any(
        shell_fits(outer, pair[0]) and shell_fits(inner, pair[1])
        for outer, inner in itertools.pairwise(parts)
        for pair in PROTECTED_PAIRS
    )


def _reveals_process(path):
    """Return True for /proc (environments, memory, descriptors) and its equivalents."""
    return path == "/proc" or path.startswith(("/proc/", "/dev/fd/", "/sys/"))
