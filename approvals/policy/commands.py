"""The effects of one simple command: redirects, variables, wrappers, then what the program does with its arguments."""

import re
from dataclasses import dataclass, field, replace

from . import impacts
from .environment import variable_effects
from .leaving import effects_of_name
from .opens import everything_below
from .paths import fits_secret
from .programs import program_effects
from .programs.find import FIND_TESTS, HIDDEN_FILES, WITHOUT_CONTENT
from .programs.find_names import met_below, safe_names, standing_for
from .programs.registry import HARMLESS_FLAGS, TEXT_ONLY
from .programs.tables import READS
from .script import Reader
from .shell import MAX_COMMAND, Unreadable, parse
from .shell_words import Word, names
from .step_budget import spend

STRIPPED = ("time", "nice", "nohup", "stdbuf", "command", "builtin", "timeout", "xargs")
FILTERS = ("grep", "egrep", "head", "tail", "sort", "uniq")
# Programs that read no file unless one is named.
WITHOUT_FOLDER = TEXT_ONLY | names(
    "cd pwd date whoami id uname hostname arch nproc uptime locale sleep seq basename dirname"
    " cat head tail wc stat file"
)
# What may stand behind >&: a descriptor or a plain name; bash closes the descriptor at a dash and reads on.
DUPLICATED = re.compile(r"-|[\w./][\w./-]*")
LISTED = Word("./*", glob=True)  # stands for a file name piped in from a listing
MAX_DEPTH = 6


@dataclass
class Found:
    """Effects of one simple command. `words`: what rules match; `also`: further forms that restricting rules match.

    `within`: effects of commands that a wrapper or an unknown program seems to start, which matter where that one
    itself does not ask. `of_scripts`: effects of scripts whose text is known, which only restricting rules match.
    """

    effects: list
    words: list
    also: list = field(default_factory=list)
    within: list = field(default_factory=list)
    of_scripts: list = field(default_factory=list)


class Judge(impacts.FileJudge):
    """Extends the judgement of files by commands inside commands, which need the whole engine."""

    def __init__(self, world, simple, depth=0):
        super().__init__(world, simple)
        self.depth = depth
        self.also = []
        self.within = []
        self.of_scripts = []

    def inner(self, words):
        """Return the effects of a command that another one starts."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            return [impacts.unknown("starts programs through too many others")]
        spend(20 + 4 * len(words))
        words, found = _unwrap(words, self.simple)
        return found + _started(words, self.simple, self)

    def nested(self, text):
        """Return the effects of shell text that a command passes to a shell."""
        self.depth += 1
        if self.depth > MAX_DEPTH or len(text) > MAX_COMMAND:
            return [impacts.unknown("starts shells through too many others")]
        try:
            commands = Reader(text, self.world, self.simple.cwds).read(parse(text))
        except Unreadable as error:
            return [impacts.unknown(f"runs text of which {error}")]
        found = []
        for simple in commands:
            inside = effects_of(simple, self.world, self.depth)
            found += inside.effects
            self.within += inside.within
            self.of_scripts += inside.of_scripts
            self.also += [[word.text for word in inside.words], *inside.also]
        return found


def effects_of(simple, world, depth=0):
    """Return what one simple command does, as Found."""
    spend(40 + 4 * len(simple.words))
    judge = Judge(world, simple, depth)
    found = [impacts.unclear(sentence) for sentence in simple.unclear]
    found += _whereabouts(simple, world)
    for redirect in simple.redirects:
        found += _around(_redirect(redirect, judge))
    if simple.downloaded:
        found.append(_runs_download(simple))
    if not simple.words:
        return Found(found, [])
    if simple.words[0].text != "[[":  # there they are patterns
        found += [effect for word in simple.words if word.glob for effect in judge.lists(word)]
    words, more = _unwrap(simple.words, simple)
    for name, value in simple.assigns:
        found += variable_effects(name, value, words[0].text)
    found += more
    if simple.form == "call":
        found += _started(words, simple, judge)
        found += effects_of_name(words, found)
    return Found(found, words, judge.also, judge.within, judge.of_scripts)


def _started(words, simple, judge):
    """Return the effects of a program; what xargs gives it names is what the list before it holds."""
    found = program_effects(words, simple, judge)
    if not any(word is stand_in for word in words for stand_in in (LISTED, HIDDEN_FILES)):
        return found
    return standing_for(found, _listed_paths(simple.fed_by, judge))


def _listed_paths(simple, judge):
    """Return the paths and patterns (see opens) of the files that a list holds: those of a plain `find`, else any."""
    words = _stripped(simple.words)[0] if simple and simple.words else []
    at = next((i for i, word in enumerate(words) if i and word.text.startswith(("-", "(", "!"))), len(words))
    if words and words[0].text == "find" and at > 1:
        return met_below(words[1:at], [word.text for word in words[at:]], judge)
    return everything_below(*judge.simple.cwds)


def _runs_download(simple):
    """Return the effect of running text or a file from the network: two people have to approve it."""
    host = simple.downloaded
    what = simple.brought_as
    says, title = f"downloads {what} from {host} and runs it", f"Download {what} from {host} and run it"
    if simple.of_earlier_call:
        says = f"runs what an earlier call downloaded from {host}"
        title = f"Run {what} that an earlier call downloaded from {host}"
    return impacts.harmful(says, "critical", title=title, source=host)


def _whereabouts(simple, world):
    """Return effects of the current folder, which most programs read: it must be known and in the workspace."""
    if not simple.words or world.place(world.cwd, shell=True).inside:
        return []
    if world.root is not None:
        return [impacts.unclear(f"runs in {world.cwd}, outside the workspace", held="asks")]
    globs = any(word.glob for word in simple.words)
    if simple.form != "call" or (simple.words[0].text in WITHOUT_FOLDER and not globs):
        return []
    return [impacts.unknown("may read the folder that it runs in, and the agent has no workspace")]


def _around(found):
    """Make reads by redirects "unclear": a rule covers a command's words, and redirects are not among them."""
    return [
        replace(e, kind="unclear", held=e.held or _refused_around(e))
        if e.kind in ("read", "network", "unknown") and e.tier != "low"
        else e
        for e in found
    ]


def _refused_around(effect):
    return "asks" if effect.kind != "unknown" and effect.tier != "medium" else ""


def _redirect(redirect, judge):
    op, words = redirect.op, redirect.words
    if op in ("<<", "<<-", "<<<"):
        foreign = any(word.foreign for word in words)
        return [impacts.unknown("holds a variable whose value is unknown until it runs")] if foreign else []
    if len(words) != 1:
        return [impacts.unknown("redirects to more than one file")]
    word = words[0]
    if op in (">&", "<&") and not (word.literal and DUPLICATED.fullmatch(word.text)):
        return [impacts.unclear(f"redirects with {op} to a word that bash expands a second time, quoted or not")]
    if op in (">&", "<&") and re.fullmatch(r"\d*-?", word.text) and word.literal:
        return []
    if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
        host = word.text.split("/")[3] if word.text.count("/") > 3 else ""
        return [impacts.contacts(host)]
    if word.glob:
        return [impacts.unknown("redirects to a name with a wildcard")]
    if word.text == "-":  # for programs standard input or output, but here a file
        word = replace(word, text="./-")
    if op == "<":
        return judge.reads(word)
    if op in (">", ">>", ">|", "&>", "&>>", "<>", ">&", "&>|"):
        return judge.writes(word)
    return [impacts.unknown(f"redirects with {op}")]


def _unwrap(words, simple):
    """Strip wrappers of a closed list that only start the command after them; return (words, effects)."""
    words, wrapper = _stripped(words)
    if wrapper == "xargs":
        lister, hidden = _lister(simple.fed_by, words[0].text in READS)
        if hidden and words[0].text not in WITHOUT_CONTENT:
            words = [*words[:-1], HIDDEN_FILES]
        return words, _fed(words, lister)
    return words, [impacts.unknown("starts programs through too many others")] if wrapper else []


def _stripped(words):
    """Return (words of the inner command, note): "xargs" if that passes it arguments, "too many" wrappers, or ""."""
    for _ in range(MAX_DEPTH):
        name = words[0].text
        if name not in STRIPPED or not words[0].literal:
            return words, ""
        rest = _after_wrapper(name, words[1:])
        if not rest:
            return words, ""
        if name == "xargs":
            return [*rest, LISTED], name
        words = rest
    return words, "too many"


def _fed(words, lister):
    """Return effects of arguments added by xargs: they come from a pipe and must be file names in the workspace."""
    if lister is None:
        return [impacts.unclear("takes its arguments from text that is not a list of files")]
    if lister != "find" and words[0].text not in HARMLESS_FLAGS:
        return [impacts.unclear(f"passes {words[0].text[:40]} names that may turn into options")]
    return []


def _lister(simple, only_reads):
    """Return (the program whose file names come through the pipe or None, whether secrets may be among them)."""
    for _ in range(MAX_DEPTH):
        texts = [word.text for word in _stripped(simple.words)[0]] if simple and simple.words else []
        spend(len(texts))
        if not texts:
            break
        if texts[0] == "find":
            return _found_names(texts[1:])
        options = [text for text in texts[1:] if text.startswith("-")]
        operands = [text for text in texts[1:] if not text.startswith("-")]
        lists = {"-l", "--files-with-matches", "-rl", "-lr", "--files", "--name-only"} & set(options)
        if texts[:2] == ["git", "ls-files"]:
            others = any(re.fullmatch(r"-[a-z]*[oi][a-z]*|--others|--ignored", text) for text in options)
            secret = any(map(fits_secret, operands[1:]))
            return "git", others or secret or not (only_reads or len(operands) > 1)
        if texts[0] in ("git", "rg", "grep") and lists and "--format" not in " ".join(texts):
            return "git", _searches_hidden(texts[0], options, operands)
        if texts[0] in ("fd", "fdfind", "ls"):
            shown = r"-[A-Za-z0-9]*[aAfHuI][A-Za-z0-9]*|--hidden|--no-ignore|--unrestricted|--all|--almost-all"
            return "ls", any(re.fullmatch(shown, text) for text in options)
        if texts[0] not in FILTERS or any(not t.startswith("-") for t in texts[2:]):
            break
        simple = simple.fed_by
    return None, True


def _found_names(texts):
    """Return the answer of `_lister` for a `find` with these words."""
    at = next((i for i, text in enumerate(texts) if text.startswith(("-", "(", "!"))), len(texts))
    if "-printf" in texts:
        return None, True
    lister = "find" if at and texts[0].startswith((".", "/")) else "ls"
    return lister, not safe_names(texts[at:], FIND_TESTS)


def _searches_hidden(name, options, operands):
    """Return True if a search that lists files looks at hidden ones of the workspace's top folder."""
    if name == "git":
        return False
    if name == "rg":
        return any(re.fullmatch(r"-[A-Za-z]*[u.][A-Za-z]*|--hidden|--no-ignore\S*|--unrestricted", o) for o in options)
    included = [option.partition("=")[2] for option in options if option.startswith("--include=")]
    if included and not any(map(fits_secret, included)):
        return False
    folders = [text.strip("./") for text in operands[1:]]
    return not folders or not all(folders) or any(text.startswith((".", "/", "~")) for text in folders)


def _after_wrapper(name, rest):
    """Return the words of the command that the wrapper starts, or None for another use of the wrapper."""
    texts = [word.text for word in rest]
    if name == "timeout":
        while len(texts) > 1 and texts[0] in ("-k", "-s", "--kill-after", "--signal"):
            texts, rest = texts[2:], rest[2:]
        while texts and re.fullmatch(r"--preserve-status|--foreground|-v|(?:--kill-after|--signal)=\w+", texts[0]):
            texts, rest = texts[1:], rest[1:]
        return rest[1:] if texts and re.fullmatch(r"[0-9.]+[smhd]?", texts[0]) else None
    if name == "nice":
        if len(texts) > 1 and texts[0] == "-n" and re.fullmatch(r"-?\d+", texts[1]):
            return rest[2:]
        if texts and re.fullmatch(r"-n?-?\d+|--adjustment=-?\d+", texts[0]):
            return rest[1:]
    if name == "stdbuf":
        while texts and re.fullmatch(r"-[ioe][0L]|--(?:input|output|error)=[0L]", texts[0]):
            texts, rest = texts[1:], rest[1:]
    if name == "xargs":
        while texts and re.fullmatch(r"-0|-r|-0r|-r0|--null|--no-run-if-empty|-[nP]\d*", texts[0]):
            taken = 2 if texts[0] in ("-n", "-P") else 1
            texts, rest = texts[taken:], rest[taken:]
    if name == "time" and texts[:1] == ["-p"]:
        return rest[1:]
    return None if texts and texts[0].startswith("-") else rest
