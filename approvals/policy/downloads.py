"""Follow text and files from the network through a command, up to a program that runs them.

What is not certain counts as it may be: a filter passes on what it is given, and an archive may bring any file of the
folder that it is unpacked in. Only the place where something is run matters, so data that is only read stays data.
"""

import itertools
import re
from dataclasses import dataclass, field

from . import fetchers
from .fetchers import SOMEWHERE
from .rules import SHELLS
from .runners import (
    ARCHIVE,
    AROUND,
    AWKS,
    FILE_FLAGS,
    FOLDER_FLAGS,
    INLINE,
    INPUT,
    INSTALLERS,
    MAKES,
    MEASURES,
    RUNNERS,
    RUNS_NAMED,
    TAKERS,
    UNPACKERS,
    VALUES,
    applied_address,
    applies,
    from_address,
)
from .shell import Unreadable, parse
from .shell_words import OPAQUE, Word
from .step_budget import spend
from .web import is_loopback

MAX_DEPTH = 4
PIPES = re.compile(r"[|;&\n]|\$\(|`|<\(")
# What a command that cannot be read says, if it downloads something and runs it.
_FETCHER = r"(?<![\w.-])(?:curl|wget|wget2|aria2c|fetch|httpie|xh)(?![\w.-])"
_SHELL = r"(?:(?:ba|z|da|k|a|fi)?sh|python[23]?|node|perl|ruby|php|pwsh|eval|source)(?![\w.-])"
# pattern: recheck does not end; a command has at most MAX_COMMAND characters, and a late judge is ended
PLAINLY = re.compile(
    rf"{_FETCHER}[^;\n]{{0,500}}\|[^;\n]{{0,200}}(?<![\w.-]){_SHELL}"
    rf"|(?:(?<![\w.-]){_SHELL}|(?<![\w.])\.)[^;\n]{{0,200}}(?:\$\(|`|<\()[^;\n]{{0,200}}{_FETCHER}"
    rf"|{_FETCHER}[\s\S]{{0,500}}(?:-o|-O|--output|>)[\s=]*([\w./~-]+)[\s\S]{{0,500}}(?:{_SHELL}\s+|\.\s+|\./)\1"
)


@dataclass
class Downloads:
    """What earlier calls and the commands so far brought: {file: host} and {folder: host}."""

    world: object
    files: dict = field(default_factory=dict)
    folders: dict = field(default_factory=dict)
    unpacked: dict = field(default_factory=dict)  # those folders that stay suspect in later calls
    told: set = field(default_factory=set)  # paths that are written to the entry of an earlier command
    brought: bool = False  # this call downloads something
    reader: type = None  # script.Reader, which notes its commands here
    depth: int = 0

    @classmethod
    def of(cls, world, reader):
        files = {path: host for path, host in world.downloaded.items() if not path.endswith("/")}
        folders = {path: host for path, host in world.downloaded.items() if path.endswith("/")}
        return cls(world, files, folders, told=set(world.downloaded), reader=reader)

    def note(self, simple, around=()):
        """Set what a command prints and runs of what came from the network, and remember what it writes.

        `around`: the compound commands that it is part of, whose input it may read.
        """
        spend(10)
        words = simple.words
        given = self.given(simple, around)
        core = self._core(words)
        name = _base(core[0]) if core else ""
        rest = core[1:]
        own_text = fetchers.in_text(" ".join(word.text for word in rest)) if name in INLINE else None
        outer = _base(words[0]) if words else ""  # ssh is a program around another one, and fetches what that prints
        brings = fetchers.fetched_by(name, rest) or own_text or fetchers.fetched_by(outer, words[1:])
        text = self._text(simple, around)
        ran = self._runs(simple, core, given, text) if words else ""
        inside, inner_prints = self._nested(simple, core, words, text)
        simple.downloaded = ran or inside or simple.downloaded
        self.brought = self.brought or brings is not None
        simple.of_earlier_call = bool(self.world.downloaded) and not self.brought
        passed = given or self._named(simple, rest) or inner_prints
        prints = (brings.host if brings and brings.prints else "") or passed
        if words and name in MEASURES:
            prints = ""
        if brings:
            self._remember(simple, brings)
        self._written(simple, name, rest, given, passed)
        for filled in simple.fills:  # commands in `>(…)` read what this one writes
            for each in filled:
                if prints and self._runs(each, self._core(each.words), prints, ""):
                    simple.downloaded = prints
        self._redirected(simple, prints)
        self._tell(simple)

    def _redirected(self, simple, prints):
        """Remember the files that a command's output goes to, and set what is left for the terminal or a pipe."""
        to_files = [r for r in simple.redirects if r.op in (">", ">>", ">|", "&>", "&>>", ">&") and r.fd in ("", "1")]
        for redirect in to_files:
            for word in redirect.words if prints else ():
                self._add(self.files, simple, word.text, prints)
        simple.output = "" if to_files else prints

    def _tell(self, simple):
        """Write the files that it brought to the command's entry, for the calls after this one."""
        named = self.files | {folder.rstrip("/") + "/": host for folder, host in self.unpacked.items()}
        new = {path: host for path, host in named.items() if path not in self.told and OPAQUE not in path}
        self.told |= set(new)
        simple.brings |= new

    def close(self, compound, parts):
        """Set what a compound command prints, from its parts, and remember the file that it is redirected to."""
        compound.output = self.printed(parts)
        for redirect in compound.redirects:
            if redirect.op in (">", ">>", ">|", "&>", "&>>") and compound.output:
                for word in redirect.words:
                    self._add(self.files, compound, word.text, compound.output)

    def printed(self, commands):
        """Return the host whose text these commands print, apart from those whose output another one reads."""
        return next((each.output for each in commands if each.output and not each.piped), "")

    # Input

    def given(self, simple, around):
        """Return the host of what a command reads from its standard input; "" if that is not from the network."""
        for command in (simple, *reversed(around)):
            inputs = [r for r in command.redirects if r.op in ("<", "<<", "<<-", "<<<", "<>") and r.fd in ("", "0")]
            for redirect in inputs:
                for word in redirect.words:
                    if host := word.fetched or (self._of_file(command, word) if redirect.op in ("<", "<>") else ""):
                        return host
            if inputs:
                return ""
            if command.fed_by is not None:
                return command.fed_by.output
        return ""

    def _text(self, simple, around):
        """Return the shell text or program text that the command's own words put on its standard input; "" if none."""
        for redirect in simple.redirects:
            if redirect.op in ("<<", "<<-", "<<<") and redirect.words and not redirect.words[0].opaque:
                return redirect.words[0].text
        feeding = simple.fed_by
        if feeding is not None and feeding.words[:1] and feeding.words[0].text in ("echo", "printf"):
            return " ".join(word.text for word in feeding.words[1:])
        if feeding is not None and feeding.words[:1] and feeding.words[0].text == "cat" and len(feeding.words) == 1:
            return self._text(feeding, ())
        return ""

    def _named(self, simple, words):
        return next((host for word in words if (host := word.fetched or self._of_file(simple, word))), "")

    def _of_file(self, simple, word):
        """Return the host that a file comes from, by its own name or that of a folder above it."""
        if not (self.files or self.folders) or word.text.startswith("-"):
            return ""
        for key in self._keys(simple, word.text):
            if key in self.files:
                return self.files[key]
            for folder, host in self.folders.items():
                if key.startswith(folder.rstrip("/") + "/"):
                    return host
        return ""

    def _keys(self, simple, text):
        if OPAQUE in text:  # a name that is unknown, but the same one
            return [text]
        places = (self.world.place(text, cwd, shell=True) for cwd in simple.cwds)
        return list(dict.fromkeys(end for place in places for end in (place.lexical, *place.reals)))

    def _add(self, table, simple, text, host):
        if text and not text.startswith("/dev/"):
            for key in self._keys(simple, text):
                table[key] = host

    # Running

    def _core(self, words):
        """Return the words from the program on that wrappers such as sudo, env or docker start."""
        words = list(words)
        for _ in range(MAX_DEPTH):
            if not words or _base(words[0]) not in AROUND:
                return words
            at = next((at for at, word in enumerate(words[1:], 1) if self._starts(word)), None)
            if at is None:
                return words
            words = words[at:]
        return words

    def _starts(self, word):
        name = _base(word)
        known = (
            name in SHELLS
            or name in INLINE
            or name in fetchers.FETCHERS - {"host"}
            or name in AROUND
            or name in UNPACKERS
        )
        known = known or name in ("tee", "source", ".", "eval", "cat", "base64", "sed", "dpkg", "rpm", "make", *TAKERS)
        path = "/" in word.text and not word.text.startswith("-") and word.text in self._paths
        return known or path

    @property
    def _paths(self):
        found = set()
        for path in (*self.files, *self.folders):
            found |= {path, "./" + path.rpartition("/")[2], path.rpartition("/")[2]}
        return found

    def _runs(self, simple, core, given, text):
        """Return the host of what the program runs; "" if it runs nothing from the network."""
        if not core:
            return ""
        name, rest = _base(core[0]), core[1:]
        by_path = self._of_file(simple, core[0]) if "/" in core[0].text or OPAQUE in core[0].text else ""
        if host := core[0].fetched or by_path or self._on_path(core[0].text):
            return host
        if name == "eval":
            return next((word.fetched for word in rest if word.fetched), "")
        if name in ("source", "."):
            return self._operand(simple, rest[:1], given)
        if name in SHELLS and name not in INLINE:
            return self._shell(simple, rest, given)
        if host := from_address(name, [word.text for word in rest]) if name in RUNNERS else "":
            return host
        if name in INLINE:
            return self._interpreter(simple, name, rest, given, text)
        if name == "parallel":
            return given
        if applies(name, [word.text for word in rest]):
            return given or self._named(simple, rest) or applied_address(name, [word.text for word in rest])
        if name in RUNS_NAMED:
            return self._run_by_option(simple, name, rest, given)
        if name in INSTALLERS or name in RUNNERS:
            files = [word for word in rest if "/" in word.text or ARCHIVE.search(word.text)]
            return self._named(simple, files) or from_address(name, [word.text for word in rest])
        if name in ("tar", "bsdtar", "gtar") and any(_starts_program(word.text) for word in rest):
            return given or self._named(simple, rest)
        return ""

    def _run_by_option(self, simple, name, words, given):
        """Return the host of a makefile, a list of jobs or an archive of classes that is named, or read from a pipe."""
        if given and (name in ("crontab", "at", "batch") or any(word.text in INPUT for word in words)):
            return given
        after = [word for flag, word in itertools.pairwise(words) if flag.text in FILE_FLAGS or flag.text == "-jar"]
        return self._named(simple, after if name in MAKES else words)

    def _on_path(self, name):
        if "/" in name or OPAQUE in name:
            return ""
        return next((host for path, host in self.files.items() if path.endswith(f"bin/{name}")), "")

    def _operand(self, simple, words, given):
        """Return the host of a script that is run by its name, which may be the standard input."""
        for word in words:
            if word.text in INPUT:
                return given
            return word.fetched or self._of_file(simple, word)
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

    def _program_text(self, text, words, given):
        """Return the host if a program's own text fetches what it runs, or runs what it is given."""
        if host := next((word.fetched for word in words if word.fetched), ""):
            return host
        if not fetchers.RUNS.search(text):
            return ""
        brings = fetchers.in_text(text)
        return given if brings is None else "" if is_loopback(brings.host) else brings.host

    def _nested(self, simple, core, words, text):
        """Read shell text that a command starts: return (host of what it runs, host of what it prints)."""
        if self.depth >= MAX_DEPTH or not words:
            return "", ""
        texts = [word.text for word in words[1:] if word.literal and PIPES.search(word.text) and len(word.text) > 8]
        names_of = {_base(words[0]), _base(core[0])} if core else {_base(words[0])}
        starts = names_of & (SHELLS | AROUND | {"eval", "at", "batch", "git", "make", "tar"})
        texts = texts if starts else []
        shell_c = core and _base(core[0]) in SHELLS and any(re.fullmatch(r"-[A-Za-z]*c", w.text) for w in core[1:])
        if shell_c:
            texts = [word.text for word in core[1:] if word.literal and " " in word.text]
        if core and _base(core[0]) == "eval":
            texts = [" ".join(word.text for word in core[1:])]
        if text and starts & (SHELLS | {"at", "batch"}):
            texts = [*texts, text]
        for each in texts[:3]:
            if OPAQUE in each:
                each = each.replace(OPAQUE, "x")
            if found := self._read(simple, each):
                return found
        if core and _base(core[0]) in INLINE:
            self._in_program_text(simple, " ".join([text, *(word.text for word in core[1:])]))
        return "", ""

    def _read(self, simple, text):
        self.depth += 1
        try:
            commands = self.reader(text, self.world, simple.cwds, downloads=self).read(parse(text))
        except (Unreadable, RecursionError):
            return (SOMEWHERE, "") if plainly(text) else None
        finally:
            self.depth -= 1
        ran = next((each.downloaded for each in commands if each.downloaded), "")
        return (ran, self.printed(commands)) if ran or self.printed(commands) else None

    def _in_program_text(self, simple, text):
        if brings := fetchers.in_text(text):
            self._remember(simple, brings)

    # Writing

    def _remember(self, simple, brings):
        for name in brings.files:
            self._add(self.files, simple, name, brings.host)
        for name in brings.folders:
            self._add(self.folders, simple, name, brings.host)

    def _written(self, simple, name, words, given, passed):
        """Remember the files that a program writes with what it is given or reads."""
        if not passed:
            return
        texts = [word.text for word in words]
        operands = [text for text in texts if not text.startswith("-")]
        if name == "tee" and given:
            for text in operands:
                self._add(self.files, simple, text, given)
        elif name in TAKERS and operands:
            target = operands[-1].removeprefix("of=")
            for text in (target, *(f"{target}/{source.rpartition('/')[2]}" for source in operands[:-1])):
                self._add(self.files, simple, text, passed)
        elif name in UNPACKERS:
            self._unpacked(simple, name, texts, passed)
        for flag, value in itertools.pairwise(texts):
            if flag in ("-o", "--output", "-out", "--out") and name not in UNPACKERS:
                self._add(self.files, simple, value, passed)

    def _unpacked(self, simple, name, texts, host):
        """Remember what an archive leaves: the folder it is unpacked in, or the file without its ending."""
        for text in texts:
            if match := re.fullmatch(r"(.+)\.(?:gz|xz|bz2|zst)", text):
                self._add(self.files, simple, match[1], host)
        if name in ("gunzip", "gzip", "unxz", "xz", "bunzip2", "bzip2", "unzstd", "zstd"):
            return
        named = [value for flag, value in itertools.pairwise(texts) if flag in FOLDER_FLAGS]
        named += [text.partition("=")[2] for text in texts if text.startswith("--directory=")]
        named += [text[2:] for text in texts if text.startswith(("-C", "-d", "-o")) and len(text) > 2]
        for folder in named or ["."]:
            self._add(self.folders, simple, folder, host)
            if named:  # later calls need not mistrust everything beside an archive
                self._add(self.unpacked, simple, folder, host)


def _base(word):
    name = word.text if isinstance(word, Word) else word
    return name.rsplit("/", 1)[-1]


def _starts_program(text):
    return text.startswith(("--to-command", "--checkpoint-action", "--use-compress-program", "-I"))


def plainly(text):
    """Return True if text that cannot be read downloads something and runs it, as far as its words tell."""
    return PLAINLY.search(text[:20_000]) is not None
