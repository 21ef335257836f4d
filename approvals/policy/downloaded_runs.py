"""Find the downloaded text and files that a command runs."""

import itertools
import re

from . import fetchers
from .downloaded_files import DownloadedFiles
from .downloaded_projects import (
    BUILDERS,
    built_address,
    implied_files,
    named_files,
    named_places,
    runs_project,
)
from .fetchers import SOMEWHERE
from .rules import SHELLS, WRAPPERS
from .runners import (
    ARCHIVE,
    AROUND,
    AWKS,
    FILE_FLAGS,
    INLINE,
    INPUT,
    INSTALLERS,
    MAKES,
    RUNNERS,
    RUNS_NAMED,
    TAKERS,
    UNPACKERS,
    VALUES,
    applied_address,
    applied_words,
    applies,
    applies_input,
    from_address,
    opens_shell,
)
from .shell_words import OPAQUE, Word, names
from .web import host_of, is_loopback

MAX_DEPTH = 4
PROJECT, PACKAGE = "a project", "a package"
INTERPRETED = SHELLS | frozenset(INLINE)
VERSION = re.compile(r"-?\d[\d.]*$")
# Names that tell, among the words of a wrapper, where the command begins that it starts.
STARTED = INTERPRETED | AROUND | UNPACKERS | TAKERS | (fetchers.FETCHERS - {"host"})
OWN_VERBS = ("install", "env", "exec", ".", "source")  # words of package managers, which are no programs there
PASSES_WORDS = ("xargs", "parallel")  # with what they are given as arguments, not as input
OF_WRAPPER = re.compile(r"[A-Za-z_]\w*=.*|[\d.]+[smhd]?", re.DOTALL)  # a variable of env, the time of timeout
STARTED |= names("tee source . eval cat base64 sed dpkg rpm make")
# Variables whose value is a program, or code that programs load.
LOADED = names(
    """
    BASH_ENV ENV ZDOTDIR PROMPT_COMMAND PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES PYTHONSTARTUP
    PYTHONPATH NODE_OPTIONS NODE_PATH PERL5OPT PERL5LIB RUBYOPT RUBYLIB GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_PAGER
    GIT_EXTERNAL_DIFF GIT_ASKPASS EDITOR VISUAL PAGER MANPAGER BROWSER SHELL RUSTC_WRAPPER CC CXX JAVA_TOOL_OPTIONS
    """
)


class DownloadedRuns(DownloadedFiles):
    """Tells what a program runs, of files and folders that came from the network and of what it is given."""

    def core(self, simple, words):
        """Return the words from the program on that wrappers such as sudo, env or docker start."""
        words = list(words)
        for _ in range(MAX_DEPTH):
            if not words or not (base(words[0]) in AROUND or is_unknown(words[0])):
                return words
            at = self._start(simple, words)
            if not at:
                return words
            words = words[at:]
        return words

    def _start(self, simple, words):
        """Return the number of the word that is the program which a wrapper starts; 0 if none is known to be."""
        outer = base(words[0])
        wraps = outer in WRAPPERS - INSTALLERS - RUNNERS or is_unknown(words[0])
        first = True  # so far the words were options of the wrapper, and values of theirs
        unknown = 0
        for at, word in enumerate(words[1:], 1):
            name = base(word)
            if (name in STARTED and (wraps or name not in OWN_VERBS)) or (wraps and name in BUILDERS):
                return at
            if first and "/" in word.text and word.text[:1] != "-" and self.of_file(simple, word):
                return at
            if first and wraps and outer not in PASSES_WORDS and is_unknown(word) and not is_unknown(words[0]):
                unknown = at
            own = word.text.startswith("-") or words[at - 1].text.startswith("-") or OF_WRAPPER.fullmatch(word.text)
            first = first and bool(own) and wraps
        return unknown

    def runs(self, simple, core, given, text):
        """Return the host of what the program runs; "" if it runs nothing from the network."""
        if not core:
            return ""
        name, rest = base(core[0]), core[1:]
        by_path = self.of_file(simple, core[0]) if "/" in core[0].text or OPAQUE in core[0].text else ""
        if host := core[0].fetched or by_path or self._on_path(core[0].text):
            return host
        if name == "eval":
            return next((word.fetched for word in rest if word.fetched), "")
        if name in ("source", "."):
            return self._operand(simple, rest[:1], given)
        if (name in SHELLS and name not in INLINE) or is_unknown(core[0]):
            return self._shell(simple, rest, given)
        texts = [word.text for word in rest]
        if host := from_address(name, texts) if name in RUNNERS | INSTALLERS else "":
            simple.brought_as = PACKAGE
            return host
        if name in INLINE:
            return self._interpreter(simple, name, rest, given, text) or self._imported(name, " ".join([text, *texts]))
        if opens_shell(name, texts):
            return given
        return self._by_table(simple, name, rest, given)

    def _by_table(self, simple, name, rest, given):
        """Return the host of what a program of the tables runs: it is no shell and no interpreter."""
        texts = [word.text for word in rest]
        if name == "parallel":
            return given
        if applies(name, texts):
            statements = self.named(simple, applied_words(name, rest))
            return (given if applies_input(name, texts) else "") or statements or applied_address(name, texts)
        if name in RUNS_NAMED:
            return self._run_by_option(simple, name, rest, given)
        if name in INSTALLERS | RUNNERS:
            files = [word for word in rest if "/" in word.text or ARCHIVE.search(word.text)]
            return self.named(simple, files)
        if name in ("tar", "bsdtar", "gtar") and any(_starts_program(word.text) for word in rest):
            return given or self.named(simple, rest)
        return ""

    def builds(self, simple, core, given):
        """Return the host of the project that a program builds, installs or runs; "" if it is none of the network."""
        if not core:
            return ""
        name, texts = base(core[0]), [word.text for word in core[1:]]
        if address := built_address(name, texts):
            return host_of(re.sub(r"^[a-z+]+://|^git@", "", address).partition(":")[0]) or SOMEWHERE
        if not runs_project(name, texts):
            return ""
        if given and INPUT & set(texts):
            return given
        places = list(named_places([word.text for word in simple.words[1:]]))
        inside = (host for place in (*simple.cwds, *places) if (host := self.of_folder(simple, place)))
        own = (self.files[path] for path in implied_files(name, simple.cwds) if path in self.files)
        return self.entered or next(inside, "") or next(own, "") or self.named(simple, named_files(core[1:]))

    def is_loaded(self, name):
        return name in LOADED

    def carried(self, simple):
        """Return the host of what a variable makes other programs load or run."""
        for name, value in simple.assigns:
            if value is None or not self.is_loaded(name):
                continue
            parts = [Word(part) for part in re.split(r"[:,= ]", value.text)]
            folder = next((host for part in parts if (host := self.of_folder(simple, part.text))), "")
            if host := value.fetched or self.named(simple, parts) or folder:
                return host
        return ""

    def _run_by_option(self, simple, name, words, given):
        """Return the host of a makefile, a list of jobs or an archive of classes that is named, or read from a pipe."""
        if given and (name in ("crontab", "at", "batch") or any(word.text in INPUT for word in words)):
            return given
        after = [word for flag, word in itertools.pairwise(words) if flag.text in FILE_FLAGS or flag.text == "-jar"]
        return self.named(simple, after if name in MAKES else words)

    def _on_path(self, name):
        if "/" in name or OPAQUE in name:
            return ""
        return next((host for path, host in self.files.items() if path.endswith(f"bin/{name}")), "")

    def _operand(self, simple, words, given):
        """Return the host of a script that is run by its name, which may be the standard input."""
        for word in words:
            if word.text in INPUT:
                return given
            return word.fetched or self.of_file(simple, word) or self.of_folder(simple, word.text)
        return ""

    def _shell(self, simple, words, given):
        rest = list(words)
        while rest:
            word = rest.pop(0)
            text = word.text
            if re.fullmatch(r"-[A-Za-z]*c", text) or text in ("-Command", "--command"):
                # `xargs sh -c` puts what it is given into the text's arguments.
                by_xargs = given if simple.words[0].text in ("xargs", "parallel") else ""
                return next((each.fetched for each in rest if each.fetched), "") or by_xargs
            if re.fullmatch(r"-[A-Za-z]*s[A-Za-z]*", text):
                return given
            if text in ("--rcfile", "--init-file") and rest:
                return self._operand(simple, rest[:1], given)
            if text in ("-o", "-O", "+o", "+O"):
                rest = rest[1:]
            elif text == "--":
                return self._operand(simple, rest[:1], given) if rest else given
            elif not text.startswith(("-", "+")) or text == "-":
                if simple.words[0].text == "busybox" and text in SHELLS:
                    continue
                return self._operand(simple, [word], given)
        return given

    def _interpreter(self, simple, name, words, given, text):
        inline, rest = INLINE[name], list(words)
        everything = " ".join(word.text for word in words)
        if name in AWKS and rest and not any(word.text in ("-f", "--file") for word in rest):
            return self._program_text(everything, words, given)
        while rest:
            word = rest.pop(0)
            flag, equals, value = word.text.partition("=")
            bundled = name in ("perl", "ruby") and re.fullmatch(r"-[A-Za-z0-9]*[eE]", word.text)
            if word.text in inline or (equals and flag in inline) or bundled:
                if not equals and rest and rest[0].text in INPUT:
                    return given
                code = [value] if equals else [each.text for each in rest[:1]]
                here = [word] if equals else rest[:1]
                return self._program_text(" ".join([everything, *code]), here, given)
            if word.text == "-m" or (word.text == "run" and name in ("deno", "bun", "dart", "swift")):
                if word.text == "run":
                    continue
                return ""
            if word.text in FILE_FLAGS and rest and (host := self._operand(simple, rest[:1], given)):
                return host
            if word.text in VALUES:
                rest = rest[1:]
            elif not word.text.startswith("-") or word.text in INPUT:
                return self._operand(simple, [word], given) or (
                    self._program_text(text, [], "") if word.text in INPUT else ""
                )
        return given or self._program_text(text, [], "")

    def _imported(self, name, text):
        """Return the host of a module that Python text imports, or that is run as a module."""
        if not name.startswith("python") or not self.files:
            return ""
        found = set(re.findall(r"(?:\b(?:import|from)|-m)\s+(\w+)", text))
        return next((host for path, host in self.files.items() if path[-3:] == ".py" and _stem(path) in found), "")

    def _program_text(self, text, words, given):
        """Return the host if a program's own text fetches what it runs, or runs what it is given."""
        if host := next((word.fetched for word in words if word.fetched), ""):
            return host
        if not fetchers.runs(text):
            return ""
        brings = fetchers.in_text(text)
        return given if brings is None else "" if is_loopback(brings.host) else brings.host


def base(word):
    """Return a program's name without its folder, and that of an interpreter without its version."""
    name = (word.text if isinstance(word, Word) else word).rsplit("/", 1)[-1]
    if name in INTERPRETED:
        return name
    stem = VERSION.sub("", name)
    return stem if stem in INTERPRETED else name


def _stem(path):
    return path.rpartition("/")[2].partition(".")[0]


def is_unknown(word):
    """Return True if which program a command starts is not known before it runs."""
    return word.opaque or word.glob or word.splits or not word.plain or word.text.startswith("/proc/")


def _starts_program(text):
    return text.startswith(("--to-command", "--checkpoint-action", "--use-compress-program", "-I"))
