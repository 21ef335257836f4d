"""Shell words: what a word's text is once quotes, braces, tildes and known variables are gone."""

import itertools
from dataclasses import dataclass

OPAQUE = "\ufffc"  # stands for text that is only known when the command runs
MAX_BRACES = 64


def names(text):
    """Return the names in a text, as a set: long lists read better as words than as quoted strings."""
    return frozenset(text.split())


@dataclass(frozen=True)
class Word:
    """One argument. `opaque`: holds text not known yet. `foreign`: from a variable nobody named. `pipe`: `<(…)`."""

    text: str
    opaque: bool = False
    foreign: bool = False
    splits: bool = False  # unknown text outside quotes: may become several words, or none
    glob: bool = False
    plain: bool = True  # written without $'…' and the like, so a person reads what bash reads
    pipe: bool = False
    inner: tuple = ()  # names of programs whose output it is

    @property
    def literal(self):
        return not (self.opaque or self.glob or self.pipe)


class Cells:
    """A word under construction: characters, each with whether it was quoted."""

    def __init__(self):
        self.cells = []
        self.foreign = self.splits = self.pipe = False
        self.plain = True
        self.glob = False

    def add(self, text, *, quoted):
        self.cells.extend((char, quoted) for char in text)

    def add_opaque(self, *, quoted, foreign=False):
        self.cells.append((OPAQUE, True))
        self.foreign |= foreign
        self.splits |= not quoted

    def add_unquoted(self, raw):
        """Take literal text as written outside quotes: a backslash quotes the next character."""
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
        """Return the words this becomes (braces make several)."""
        return [self._word(cells, home) for cells in expand_braces(self.cells)]

    def _word(self, cells, home):
        bare = [char for char, quoted in cells if not quoted]
        glob = self.glob or "*" in bare or "?" in bare or ("[" in bare and "]" in bare)
        text = "".join(char for char, _ in cells)
        if cells and cells[0] == ("~", False):
            end = next((i for i, cell in enumerate(cells) if cell[0] == "/"), len(cells))
            if end == 1:
                text = home + text[1:]
            elif not any(quoted for _, quoted in cells[:end]):
                return Word(text, opaque=True, foreign=True, splits=self.splits, glob=glob)
        return Word(
            text,
            opaque=OPAQUE in text,
            foreign=self.foreign,
            splits=self.splits,
            glob=glob,
            plain=self.plain,
            pipe=self.pipe,
        )


def expand_braces(cells):
    """Expand `{a,b}`; an unknown form such as `{1..9}` keeps its range as opaque text."""
    done, todo = [], [cells]
    while todo:
        current = todo.pop(0)
        found = _first_braces(current)
        if found is None:
            done.append(current)
            continue
        start, end, commas = found
        edges = [start, *commas, end]
        parts = [current[a + 1 : b] for a, b in itertools.pairwise(edges)]
        if not commas:
            parts = [[(OPAQUE, True)]]
        todo = [current[:start] + part + current[end + 1 :] for part in parts] + todo
        if len(todo) + len(done) > MAX_BRACES:
            return [[(OPAQUE, True)]]
    return done


def _first_braces(cells):
    """Return (start, end, positions of commas) of the first brace expansion, or None."""
    for start, cell in enumerate(cells):
        if cell != ("{", False):
            continue
        depth, commas = 0, []
        for index in range(start, len(cells)):
            char, quoted = cells[index]
            if quoted:
                continue
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 1:
                commas.append(index)
            if depth == 0:
                inside = "".join(c for c, _ in cells[start:index])
                if commas or ".." in inside:
                    return start, index, commas
                break
    return None
