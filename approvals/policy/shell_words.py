"""Shell words: the text of a word after quotes, braces, tildes and known variables are expanded."""

import itertools
from dataclasses import dataclass

from .step_budget import spend

HASH = "hash"  # in Word.inner: what is not known in it is a hash that git prints, or nothing
JOB = "job"  # in Word.inner: it is the number of a process that this shell has started
OPAQUE = "\ufffc"  # stands for text that is known only when the command runs
MAX_BRACES = 64
VALUE = "value"  # marks characters of an unquoted variable: wildcards count there, braces and tildes do not
BREAK = "break"  # marks a blank of an unquoted variable, which ends the word
BLANKS = " \t\n"


def names(text):
    """Split a text into a set of names, which reads better than a long list of quoted strings."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Word:
    """One argument. `opaque`: holds text not known yet. `foreign`: from an unknown variable. `pipe`: `<(…)`.

    `fetched`: the host whose answer is part of it (see downloads).
    """

    text: str
    opaque: bool = False
    foreign: bool = False
    splits: bool = False  # unquoted unknown text: may become several words, or none
    glob: bool = False
    plain: bool = True  # written without $'…' and the like, so it reads as bash reads it
    pipe: bool = False
    inner: tuple = ()  # what its unknown parts are certain to be
    fetched: str = ""

    @property
    def literal(self):
        return not (self.opaque or self.glob or self.pipe)


class Cells:
    """A word under construction: characters, each with how it was quoted: True, False, VALUE or BREAK."""

    def __init__(self):
        self.cells = []
        self.foreign = self.splits = self.pipe = False
        self.plain = True
        self.glob = False
        self.hashes = self.jobs = 0
        self.fetched = ""

    def add(self, text, *, quoted):
        spend(len(text))
        # An empty pair of quotes makes a word.
        self.cells.extend([(char, quoted) for char in text] or ([("", True)] if quoted else []))

    def add_value(self, text):
        """Add the value of a variable that is not quoted: the shell splits it at blanks."""
        spend(len(text))
        self.cells.extend([(char, BREAK if char in BLANKS else VALUE) for char in text] or [("", BREAK)])

    def add_opaque(self, *, quoted, foreign=False):
        self.cells.append((OPAQUE, True))
        self.foreign |= foreign
        self.splits |= not quoted

    def add_hash(self):
        """Add a hash that git prints, which is no option and no list of words; it may be empty."""
        self.cells.append((OPAQUE, True))
        self.hashes += 1

    def add_job(self, *, quoted):
        """Add the number of the job that this shell started last."""
        self.add_opaque(quoted=quoted)
        self.jobs += 1

    def inner(self, text):
        if self.jobs and text == OPAQUE * self.jobs:
            return (JOB,)
        return (HASH,) if self.hashes and text.count(OPAQUE) == self.hashes else ()

    def add_unquoted(self, raw):
        """Add literal text as written outside quotes: a backslash quotes the next character."""
        chars = iter(raw)
        for char in chars:
            if char == "\\":
                following = next(chars, "")
                if following not in ("", "\n"):
                    self.add(following, quoted=True)
            else:
                self.add(char, quoted=False)

    def add_double_quoted(self, raw):
        chars = iter(raw)
        for char in chars:
            if char != "\\":
                self.add(char, quoted=True)
                continue
            following = next(chars, "")
            if following in ("$", "`", '"', "\\"):
                self.add(following, quoted=True)
            elif following != "\n":
                self.add("\\" + following, quoted=True)

    def words(self, home):
        """Return the finished words; braces make several."""
        return [self._word(piece, home) for cells in expand_braces(self.cells) for piece in _fields(cells)]

    def _word(self, cells, home):
        spend(5 + len(cells))
        bare = [char for char, quoted in cells if quoted in (False, VALUE)]
        glob = self.glob or "*" in bare or "?" in bare or ("[" in bare and "]" in bare)
        text = "".join(char for char, _ in cells)
        if cells and cells[0] == ("~", False):
            end = next((i for i, cell in enumerate(cells) if cell[0] == "/"), len(cells))
            if end == 1:
                text = home + text[1:]
            elif not any(quoted is True for _, quoted in cells[:end]):
                return Word(text, True, True, self.splits, glob, fetched=self.fetched)
        return Word(
            text,
            opaque=OPAQUE in text,
            foreign=self.foreign,
            splits=self.splits,
            glob=glob,
            plain=self.plain,
            pipe=self.pipe,
            inner=self.inner(text),
            fetched=self.fetched,
        )


def _fields(cells):
    """Split at the blanks that variables brought in; nothing is left of one that is empty."""
    if not any(quoted == BREAK for _, quoted in cells):
        return [cells]
    groups = itertools.groupby(cells, key=lambda cell: cell[1] == BREAK)
    return [list(group) for is_break, group in groups if not is_break]


def expand_braces(cells):
    """Expand `{a,b}`; a range such as `{1..9}` becomes opaque text."""
    if ("{", False) not in cells:
        return [cells]
    pieces = _pieces(cells, _groups(cells), 0, len(cells))
    if _count(pieces) > MAX_BRACES:
        return [[(OPAQUE, True)]]
    return _products(pieces)


def _groups(cells):
    """Return {start: (end, [commas])} of brace expansions; braces without a comma or a range are text."""
    spend(len(cells))
    open_braces, groups = [], {}
    ranges = list(itertools.accumulate((a == b == "." for (a, _), (b, _) in itertools.pairwise(cells)), initial=0))
    for index, (char, quoted) in enumerate(cells):
        if quoted or char not in "{,}":
            continue
        if char == "{":
            open_braces.append((index, []))
        elif open_braces and char == ",":
            open_braces[-1][1].append(index)
        elif open_braces:
            start, commas = open_braces.pop()
            if commas or ranges[index - 1] > ranges[start]:
                groups[start] = index, commas
    return groups


def _pieces(cells, groups, start, end):
    """Return the text as a list of plain cells and groups; a group is a tuple with the pieces of each alternative."""
    pieces, plain, at = [], start, start
    while at < end:
        if at not in groups:
            at += 1
            continue
        close, commas = groups[at]
        pieces.append(cells[plain:at])
        edges = [at, *commas, close]
        inside = (_pieces(cells, groups, a + 1, b) for a, b in itertools.pairwise(edges))
        pieces.append(tuple(inside) if commas else ([[(OPAQUE, True)]],))
        plain = at = close + 1
    return [*pieces, cells[plain:end]]


def _count(pieces):
    """Return how many words the pieces make, at most MAX_BRACES + 1."""
    total = 1
    for piece in pieces:
        if isinstance(piece, tuple):
            total = min(total * sum(map(_count, piece)), MAX_BRACES + 1)
    return total


def _products(pieces):
    done = [[]]
    for piece in pieces:
        spend(len(done) * (1 + len(piece) // 8))
        endings = [word for part in piece for word in _products(part)] if isinstance(piece, tuple) else [piece]
        done = [begun + ending for begun in done for ending in endings]
    return done
