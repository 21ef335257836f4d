"""Follow text and files from the network through a command, up to a program that runs them.

What is not certain counts as it may be: a filter passes on what it is given, and an archive may bring any file of the
folder that it is unpacked in. Only the place where something is run matters, so data that is only read stays data.
"""

import re
from dataclasses import dataclass, field

from . import fetchers
from .download_words import FETCHER, MOST, plainly
from .downloaded_runs import MAX_DEPTH, PROJECT, DownloadedRuns, base
from .fetchers import SOMEWHERE
from .rules import SHELLS
from .runners import AROUND, INLINE, MEASURES
from .shell import Unreadable, parse
from .shell_words import OPAQUE
from .step_budget import spend

PIPES = re.compile(r"[|;&\n]|\$\(|`|<\(")
# Programs that carry out text among their words as a shell does.
CARRIES = SHELLS | AROUND | {"eval", "at", "batch", "git", "make", "tar", "alias", "trap", "watch"}
NAMED_TEXT = re.compile(r"(?:[\w.-]{1,100}=)?!?")  # in front of the text: an alias's name, a setting of git
SAYS_SO = ("echo", "printf")
TO_FILE = (">", ">>", ">|", "&>", "&>>", ">&")


@dataclass
class Downloads(DownloadedRuns):
    """Follows downloads through the commands of a text, in order: `note` is called for each."""

    brought: bool = False  # this call downloads something
    reader: type = None  # script.Reader, which notes its commands here
    depth: int = 0
    aliases: dict = field(default_factory=dict)  # {name: host of what it prints}

    @classmethod
    def of(cls, world, reader):
        files = {path: host for path, host in world.downloaded.items() if not path.endswith("/")}
        folders = {path: host for path, host in world.downloaded.items() if path.endswith("/")}
        return cls(world, files, folders, noted=set(world.downloaded), reader=reader)

    def note(self, simple, around=()):
        """Set what a command prints and runs of what came from the network, and remember what it writes.

        `around`: the compound commands that it is part of, whose input it may read.
        """
        spend(10)
        words = simple.words
        given = self.given(simple, around)
        core = self.core(simple, words)
        name = base(core[0]) if core else ""
        rest = core[1:]
        own_text = fetchers.in_text(" ".join(word.text for word in rest)) if name in INLINE else None
        outer = base(words[0]) if words else ""  # ssh is a program around another one, and fetches what that prints
        brings = fetchers.fetched_by(name, rest) or own_text or fetchers.fetched_by(outer, words[1:])
        text = self._text(simple)
        ran = (self.runs(simple, core, given, text) if words else "") or self.carried(simple)
        built = self.builds(simple, core, given) if words and not ran else ""
        inside, inner_prints = self._nested(simple, core, text, given)
        simple.downloaded = ran or built or inside or simple.downloaded
        simple.brought_as = PROJECT if built else simple.brought_as
        self.brought = self.brought or brings is not None
        simple.of_earlier_call = bool(self.world.downloaded) and not self.brought
        passed = given or self.named(simple, rest) or inner_prints or self.aliases.get(outer, "")
        prints = (brings.host if brings and brings.prints else "") or passed
        if words and name in MEASURES:
            prints = ""
        if brings:
            self.remember(simple, brings)
        self._enter(simple, name, rest)
        self.written(simple, name, rest, given, passed)
        for filled in simple.fills:  # commands in `>(…)` read what this one writes
            for each in filled:
                if prints and self.runs(each, self.core(each, each.words), prints, ""):
                    simple.downloaded = prints
        self._redirected(simple, prints, text)
        self._tell(simple)

    def _enter(self, simple, name, words):
        """Follow the shell into a folder whose name is not known, and keep the descriptors that `exec` opens."""
        if name in ("cd", "pushd", "popd"):
            texts = [word.text for word in words if not word.text.startswith("-")]
            unknown = name == "pushd" or any(OPAQUE in text for text in texts)
            self.entered = self.of_folder(simple, texts[0]) if texts and unknown else ""
        if name == "exec" and not words:
            self.descriptors |= self._opened(simple)

    def _redirected(self, simple, prints, text):
        """Remember the files that a command's output goes to, and set what is left for the terminal or a pipe."""
        to_files = [r for r in simple.redirects if r.op in TO_FILE and r.fd in ("", "1")]
        simple.output = "" if to_files else prints
        words = [word for redirect in to_files for word in redirect.words]
        for word in words if prints else ():
            self.add(self.files, simple, word.text, prints)
        if simple.words and simple.words[0].text in SAYS_SO:
            text = " ".join(word.text for word in simple.words[1:])
        if simple.words and simple.words[0].text == "tee":
            words += [word for word in simple.words[1:] if not word.text.startswith("-")]
        if words and text and PIPES.search(text) and FETCHER.search(text[:MOST]):
            self._script(simple, words, text)

    def _script(self, simple, words, text):
        """Remember a file as one from the network if it gets shell text that downloads something and runs it."""
        before = set(self.files)
        ran, _ = self._read(simple, text.replace(OPAQUE, "x"), "") or ("", "")
        for word in words if ran else ():
            self.add(self.files, simple, word.text, ran)
            self.noted |= set(self.files) - before  # later calls look at the file itself

    def _tell(self, simple):
        """Write the files that it brought to the command's entry, for the calls after this one."""
        named = self.files | {folder.rstrip("/") + "/": host for folder, host in self.unpacked.items()}
        new = {path: host for path, host in named.items() if path not in self.noted and OPAQUE not in path}
        self.noted |= set(new)
        simple.brings |= new

    def close(self, compound, parts):
        """Set what a compound command prints, from its parts, and remember the file that it is redirected to."""
        compound.output = self.printed(parts)
        for redirect in compound.redirects:
            if redirect.op in (">", ">>", ">|", "&>", "&>>") and compound.output:
                for word in redirect.words:
                    self.add(self.files, compound, word.text, compound.output)

    def printed(self, commands):
        """Return the host whose text these commands print, apart from those whose output another one reads."""
        return next((each.output for each in commands if each.output and not each.piped), "")

    # Input

    def given(self, simple, around):
        """Return the host of what a command reads from its standard input; "" if that is not from the network."""
        for command in (simple, *reversed(around)):
            opened = self._opened(command) if command.redirects else {}
            if "0" in opened:
                return opened["0"]
            if command.fed_by is not None:
                return command.fed_by.output
        return self.descriptors.get("0", "")

    def _opened(self, command):
        """Return {descriptor: host of what is read from it} of a command's redirects, in their order."""
        opened = {}
        for redirect in command.redirects:
            number = redirect.fd or ("0" if redirect.op.startswith("<") else "1")
            for word in redirect.words:
                known = self.descriptors | opened
                if redirect.op in ("<&", ">&") and OPAQUE in word.text:
                    host = next(filter(None, known.values()), "")
                elif redirect.op in ("<&", ">&") and re.fullmatch(r"\d+-?", word.text):
                    host = known.get(word.text.rstrip("-"), "")
                else:
                    is_read = redirect.op in ("<", "<>") or word.text.startswith("/dev/")
                    host = word.fetched or (self.of_file(command, word) if is_read else "")
                opened[number] = host
        return opened

    def _text(self, simple):
        """Return the shell text or program text that the command's own words put on its standard input; "" if none."""
        for redirect in simple.redirects:
            if redirect.op in ("<<", "<<-", "<<<") and redirect.words and not redirect.words[0].opaque:
                return redirect.words[0].text
        feeding = simple.fed_by
        if feeding is not None and feeding.words[:1] and feeding.words[0].text in SAYS_SO:
            return " ".join(word.text for word in feeding.words[1:])
        if feeding is not None and feeding.words[:1] and feeding.words[0].text == "cat" and len(feeding.words) == 1:
            return self._text(feeding)
        return ""

    # Text that is run

    def _nested(self, simple, core, text, given):
        """Read shell text that a command starts: return (host of what it runs, host of what it prints)."""
        words = simple.words
        if self.depth >= MAX_DEPTH:
            return "", ""
        values = [value.text for name, value in simple.assigns if value is not None and self.is_loaded(name)]
        texts = [NAMED_TEXT.sub("", value, count=1) for value in values if PIPES.search(value)]
        starts = ({base(words[0]), base(core[0])} if core else {base(words[0])}) & CARRIES if words else set()
        if starts:
            plain = [word.text for word in words[1:] if word.literal and len(word.text) > 8]
            texts += [each[NAMED_TEXT.match(each).end() :] for each in plain if PIPES.search(each) or "alias" in starts]
        if core and base(core[0]) in SHELLS and any(re.fullmatch(r"-[A-Za-z]*c", w.text) for w in core[1:]):
            texts = [word.text for word in core[1:] if word.text[:1] != "-" and word.literal]
        if core and base(core[0]) == "eval":
            texts = [" ".join(word.text for word in core[1:])]
        if text and starts & (SHELLS | {"at", "batch"}):
            texts = [*texts, text]
        for each in texts[:3]:
            if found := self._read(simple, each.replace(OPAQUE, "x"), given):
                if "alias" not in starts:
                    return found
                self.aliases |= {word.text.partition("=")[0]: found[1] for word in words[1:] if "=" in word.text}
                return found[0], ""
        if core and base(core[0]) in INLINE:
            self._in_program_text(simple, " ".join([text, *(word.text for word in core[1:])]))
        return "", ""

    def _read(self, simple, text, given):
        """Return (host of what shell text runs, host of what it prints), or None if it does neither."""
        outer = self.descriptors
        self.descriptors = outer | {"0": given}
        self.depth += 1
        try:
            commands = self.reader(text, self.world, simple.cwds, downloads=self).read(parse(text))
        except (Unreadable, RecursionError):
            return (SOMEWHERE, "") if plainly(text) else None
        finally:
            self.depth -= 1
            self.descriptors = outer
        ran = next((each.downloaded for each in commands if each.downloaded), "")
        return (ran, self.printed(commands)) if ran or self.printed(commands) else None

    def _in_program_text(self, simple, text):
        if brings := fetchers.in_text(text):
            self.remember(simple, brings)
