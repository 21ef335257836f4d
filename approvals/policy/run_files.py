"""Which files decide what a command does: scripts, programs, makefiles and manifests that its words name.

Only the words are read here; the runner finds out which of the paths are files, and what they contain.
"""

import itertools
import posixpath
import re
from dataclasses import dataclass

from .rules import INTERPRETERS, SHELLS, WRAPPERS
from .shell_words import OPAQUE, names

MAX_FILES = 200
MAX_DEPTH = 4
SCRIPT, PROGRAM, MANIFEST = "script", "program", "manifest"
FOLDER_OPTIONS = ("-C", "--directory", "--prefix", "--cwd", "--dir", "--chdir", "--project", "--working-dir")
# Files that a program reads from its folder by default; the first that exists is used, so a new one counts as well.
IMPLIED = {
    "make": "GNUmakefile makefile Makefile",
    "gmake": "GNUmakefile makefile Makefile",
    "just": "justfile .justfile Justfile",
    "task": "Taskfile.yml taskfile.yml Taskfile.yaml taskfile.yaml Taskfile.dist.yml",
    "rake": "rakefile Rakefile rakefile.rb Rakefile.rb",
    "cargo": "Cargo.toml build.rs",
    "docker": "Dockerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml",
    "podman": "Dockerfile Containerfile compose.yaml compose.yml docker-compose.yml docker-compose.yaml",
    "docker-compose": "compose.yaml compose.yml docker-compose.yml docker-compose.yaml",
    "gradle": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "gradlew": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "mvn": "pom.xml",
    "mvnw": "pom.xml",
    "ant": "build.xml",
    "cmake": "CMakeLists.txt CMakePresets.json",
    "meson": "meson.build",
    "scons": "SConstruct",
    "tox": "tox.ini pyproject.toml setup.cfg",
    "nox": "noxfile.py",
    "invoke": "tasks.py",
    "inv": "tasks.py",
    "fab": "fabfile.py",
    "pip": "setup.py pyproject.toml",
    "pip3": "setup.py pyproject.toml",
    "uv": "pyproject.toml setup.py",
    "poetry": "pyproject.toml",
    "composer": "composer.json",
    "bundle": "Gemfile",
    "vagrant": "Vagrantfile",
    "pre-commit": ".pre-commit-config.yaml",
    "cap": "Capfile",
    "grunt": "Gruntfile.js",
    "gulp": "gulpfile.js",
}
PACKAGE_JSON = names("npm pnpm yarn bun npx bunx pnpx")  # package.json is also read from each parent folder
STARTERS = SHELLS | INTERPRETERS | WRAPPERS | PACKAGE_JSON | set(IMPLIED)
SPLIT = re.compile(r"[;&|\n(){}`]+")
WORD = re.compile(r"[^\s'\"]+")
BARE = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True)
class RunFile:
    """A candidate. `path` is absolute and as written, `..` included; for a program without a slash, just its name."""

    path: str
    kind: str


def run_files(commands, cwd, root):
    """Return (candidates of a verdict's entries in order, whether they are complete)."""
    found = _Found(root)
    folders = [cwd]
    for step in commands:
        words = step.get("words") or []
        if words[:1] in (["cd"], ["pushd"]) and len(words) > 1 and OPAQUE not in words[1]:
            folders.append(posixpath.join(folders[-1], words[1]))
        if step.get("runs", True):
            found.step(words, [step["cwd"]] if step.get("cwd") else folders)
    files = list(found.files)
    return files[:MAX_FILES], len(files) <= MAX_FILES


class _Found:
    def __init__(self, root):
        self.root, self.files = root, {}

    def step(self, words, folders, depth=0):
        """Add every word that may name a file, and what the programs among them read by default."""
        folders = [*folders, *self._entered(words, folders)]
        is_first = True
        for at, word in enumerate(words):
            if not word or OPAQUE in word or "\0" in word:
                is_first = False
                continue
            name = word.rsplit("/", 1)[-1]
            if is_first or name in STARTERS:
                self._program(word, name, words[at + 1 :], folders)
            elif depth < MAX_DEPTH and re.search(r"\s", word):
                self.text(word, folders, depth + 1)
            else:
                self._operand(word, folders)
            is_first = False

    def text(self, text, folders, depth):
        """Add the files of shell text inside a word, split roughly, since a file too many does no harm."""
        for part in SPLIT.split(text):
            words = WORD.findall(part)
            if words[:1] == ["cd"] and len(words) > 1:
                folders = [*folders, posixpath.join(folders[-1], words[1])]
            self.step(words, folders, depth)

    def _entered(self, words, folders):
        """Return the folders named by options such as `make -C`."""
        named = [after for before, after in itertools.pairwise(words) if before in FOLDER_OPTIONS]
        named += [word.partition("=")[2] for word in words if word.startswith(FOLDER_OPTIONS) and "=" in word]
        named += [word[2:] for word in words if word.startswith("-C") and len(word) > 2]
        return [posixpath.join(folder, name) for name in named if name and OPAQUE not in name for folder in folders]

    def _program(self, word, name, rest, folders):
        if "/" in word:
            self._add(word, PROGRAM, folders)
        elif BARE.fullmatch(word):
            self.files.setdefault(RunFile(word, PROGRAM))
        for implied in IMPLIED.get(name, "").split():
            self._add(implied, MANIFEST, folders)
        if name in PACKAGE_JSON:
            for folder in folders:
                self._upwards("package.json", folder)
            for word in rest:
                if BARE.fullmatch(word):
                    self._add(f"node_modules/.bin/{word}", PROGRAM, folders)
        if "-m" in rest[:-1] and name.startswith("python"):
            module = rest[rest.index("-m") + 1].replace(".", "/")
            for path in (f"{module}.py", f"{module}/__main__.py"):
                self._add(path, SCRIPT, folders)

    def _operand(self, word, folders):
        if not word.startswith("-"):
            self._add(word, SCRIPT, folders)
        elif "=" not in word and len(word) > 2 and word[1] != "-":
            self._add(word[2:], SCRIPT, folders)
        if "=" in word:
            self._add(word.partition("=")[2], SCRIPT, folders)

    def _upwards(self, name, folder):
        folder = posixpath.normpath(folder)
        while True:
            self._add(name, MANIFEST, [folder])
            if folder in (self.root, "/", "") or not folder.startswith(self.root):
                return
            folder = posixpath.dirname(folder)

    def _add(self, word, kind, folders):
        word = word.removeprefix("@")
        if not word or len(word) > 4096 or "://" in word:
            return
        if word.startswith("~/"):
            self.files.setdefault(RunFile(word, kind))
            return
        for folder in folders:
            path = re.sub(r"/(?:\.?/)+", "/", posixpath.join(folder, word))
            self.files.setdefault(RunFile(path, kind))
