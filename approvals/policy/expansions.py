"""Expand the words of a syntax tree as bash would, as far as their text tells; other parts become opaque."""

import re

from .environment import SAFE_VARIABLES
from .shell import Unreadable
from .shell_words import HASH, JOB, OPAQUE, Cells, Word, names
from .step_budget import spend

KNOWN_VARIABLES = names("? # $ ! @ * RANDOM SECONDS LINENO UID EUID USER LOGNAME HOSTNAME")
KNOWN_VARIABLES |= {"SHELL", "TERM", "PATH", "PWD", "COLUMNS", "LINES", "OSTYPE", "LANG", "OLDPWD"}
REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@{}^~-]*")
# {subcommand: its options with which it prints hashes and nothing else}; `rev-list --boundary` puts a dash before them.
PRINTS_HASHES = {
    "merge-base": r"--octopus",
    "rev-parse": r"--short(?:=\d+)?|--verify",
    "rev-list": r"--(?:reverse|all|branches|no-merges|merges|first-parent|topo-order|date-order|ancestry-path)|-n\d+"
    r"|-\d+|--max-count=\d+",
}
CHOOSES_LINES = re.compile(r"(?:head|tail)(?: -n ?\d+| -\d+)?|sed -n \d+p|tac|sort|uniq|cat")
PLAIN_SUM = re.compile(r"\$?\(\([\w\s+*/%<>=!-]*\)\)")
REPLACING = {":-", "-", ":+", "+"}
QUIET_EXPANSIONS = {":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "^", "^^", ",", ",,"}


class Expansions:
    """The part of script.Reader that reads words; it has `source`, `world`, `scope`, and the methods for statements."""

    def raw(self, node):
        """Return the source text of a node."""
        start, end = node["Pos"]["Offset"], node["End"]["Offset"]
        spend(1 + (end - start) // 16)
        return self.source[start:end].decode(errors="replace")

    def word(self, node):
        """Return the Words that a word of the source expands to."""
        cells = Cells()
        self.cells(node.get("Parts", []), cells, quoted=False)
        return cells.words(self.world.home)

    def joined(self, node):
        """Return a word in a position where bash expands no braces and does not split."""
        cells = Cells()
        self.cells(node.get("Parts", []), cells, quoted=False)
        text = "".join(char for char, _ in cells.cells)
        if cells.cells[:1] == [("~", False)]:
            return cells.words(self.world.home)[0]
        known = {"plain": cells.plain, "inner": cells.inner(text), "fetched": cells.fetched}
        return Word(text, opaque=OPAQUE in text, foreign=cells.foreign, **known)

    def cells(self, parts, cells, *, quoted):
        for part in parts:
            spend(5)
            getattr(self, "part_" + part["Type"], self.part_unknown)(part, cells, quoted)

    def part_unknown(self, part, cells, quoted):
        raise Unreadable(f"it holds a word that is not judged by rules ({part['Type']})")

    def part_Lit(self, part, cells, quoted):
        value = part.get("Value", "")
        if quoted:
            cells.add_double_quoted(value)
            return
        # The parser leaves some process substitutions and backquotes as plain text.
        bare = value.replace("\\\\", "").replace("\\`", "").replace("\\$", "").replace("\\<", "").replace("\\>", "")
        if any(mark in bare for mark in ("<(", ">(", "`", "$(")):
            raise Unreadable("it holds a substitution that the parser did not take apart")
        cells.add_unquoted(value)

    def part_SglQuoted(self, part, cells, quoted):
        value = part.get("Value", "")
        if part.get("Dollar"):
            cells.plain = False
            value = _ansi_c(value)
            if value is None:
                cells.add_opaque(quoted=True, foreign=True)
                return
        cells.add(value, quoted=True)

    def part_DblQuoted(self, part, cells, quoted):
        if part.get("Dollar"):
            cells.plain = False
        self.cells(part.get("Parts", []), cells, quoted=True)
        if not part.get("Parts"):
            cells.add("", quoted=True)

    def part_ExtGlob(self, part, cells, quoted):
        # The parser leaves the pattern as plain text.
        if any(mark in part["Pattern"]["Value"] for mark in ("$", "`", "<(", ">(")):
            raise Unreadable("it holds a substitution that the parser did not take apart")
        cells.glob = True
        cells.add_opaque(quoted=False)

    def part_CmdSubst(self, part, cells, quoted):
        if part.get("TempFile") or part.get("ReplyVar"):
            raise Unreadable("it holds a substitution that other shells use")
        at, statements = len(self.commands), part.get("Stmts", [])
        outer = [self.current] if self.current is not None else []  # whose input the commands inside may read
        self.around += outer
        self.scoped(statements)
        del self.around[len(self.around) - len(outer) :]
        cells.fetched = cells.fetched or self.downloads.printed(self.commands[at:])
        if len(statements) == 1 and _is_pipe(statements[0]) and prints_hashes(self.commands[at:]):
            cells.add_hash()
        else:
            cells.add_opaque(quoted=quoted)

    def part_ProcSubst(self, part, cells, quoted):
        at = len(self.commands)
        self.scoped(part.get("Stmts", []))
        inside = self.commands[at:]
        if part.get("Op") == ">(" and self.current is not None:
            self.current.fills.append(inside)
        else:
            cells.fetched = cells.fetched or self.downloads.printed(inside)
        cells.pipe = True
        cells.add_opaque(quoted=True)

    def part_ArithmExp(self, part, cells, quoted):
        if not self.only_numbers(part.get("X")):
            self.current_problem("evaluates arithmetic, which can run commands")
        cells.add_opaque(quoted=True)

    def only_numbers(self, node):
        """Return True for arithmetic on numbers, and on variables that hold nothing else in the whole text."""
        if node is None or node["Type"] not in ("Word", "BinaryArithm", "UnaryArithm", "ParenArithm"):
            return False
        if node["Type"] != "Word":
            return all(self.only_numbers(node[key]) for key in ("X", "Y") if node.get(key))
        parts = node.get("Parts", [])
        texts = [self._number_in(part) for part in parts]
        return len(parts) == 1 and texts[0] is not None

    def _number_in(self, part):
        """Return the number or the name of a counter that is this part of an arithmetic expression, or None."""
        text = part.get("Value", "") if part["Type"] == "Lit" else ""
        if part["Type"] == "ParamExp" and not any(part.get(key) for key in ("Exp", "Index", "Length", "Excl", "Slice")):
            text = part["Param"]["Value"]
        if text[:1].isdigit():
            return text if text.isalnum() else None
        return text if text in self.scope.variables and self._counts(text) else None

    def _counts(self, name):
        """Return True if the text gives this variable only numbers and results of plain arithmetic."""
        source = self.source.decode(errors="replace")
        spend(len(source))
        plain = PLAIN_SUM.sub("0", source)
        rest = re.sub(rf"\b{name}=\d+(?![^\s;&|)])|\${name}\b|\$\{{{name}\}}", " ", plain)
        return re.search(rf"\b{name}\b", rest) is None

    def part_ParamExp(self, part, cells, quoted):
        name = part["Param"]["Value"]
        expansion = part.get("Exp") or {}
        odd = any(part.get(key) for key in ("Excl", "Index", "Slice", "Repl", "Names", "Width", "NestedParam", "Flags"))
        raw = self.raw(part)
        if odd or (expansion and expansion.get("Op") not in QUIET_EXPANSIONS) or "<(" in raw or ">(" in raw:
            self.current_problem(f"expands {raw[:60]}, which can run commands")
        nested = Cells()
        self.cells((expansion.get("Word") or {}).get("Parts", []), nested, quoted=True)
        if not quoted and expansion.get("Op") in REPLACING and {"*", "?", "["} & {char for char, _ in nested.cells}:
            self.current_problem(f"expands {raw[:60]} to the names of files")
        known = self.scope.variables.get(name)
        cells.fetched = cells.fetched or nested.fetched or (known.fetched if known is not None else "")
        if name == "PWD" and known is None and len(self.scope.cwds) == 1:
            known = Word(self.scope.cwds[0])
        simple = not expansion and not part.get("Length")
        if simple and known is not None and HASH in known.inner:
            cells.add_hash()
            return
        if simple and (name == "!" or (known is not None and JOB in known.inner)):
            cells.add_job(quoted=quoted)
            return
        if simple and known is not None and not known.opaque:
            if quoted:
                cells.add(known.text, quoted=True)
            else:
                cells.add_value(known.text)
            # A name from a wildcard may begin with a dash, even inside quotes.
            cells.glob |= known.glob
        else:
            named = known is not None or name in KNOWN_VARIABLES or name in SAFE_VARIABLES or name.isdecimal()
            foreign = nested.foreign or not named or bool(getattr(known, "foreign", False))
            cells.add_opaque(quoted=quoted, foreign=foreign and not part.get("Length"))


def _is_pipe(node):
    """Return True for a simple command, and for some joined by pipes."""
    command = node.get("Cmd") or {}
    if node.get("Background") or node.get("Negated"):
        return False
    if command.get("Type") == "BinaryCmd" and command["Op"] == "|":
        return _is_pipe(command["X"]) and _is_pipe(command["Y"])
    return command.get("Type") == "CallExpr"


def prints_hashes(commands):
    """Return True if a pipe, the last of these commands, prints hashes from git and nothing given to it as text."""
    last = commands[-1] if commands else None
    while last is not None and CHOOSES_LINES.fullmatch(" ".join(word.text for word in last.words)) and _plain(last):
        last = last.fed_by
    if last is None or not _plain(last) or not last.words or last.fed_by is not None:
        return False
    words = last.words[:1] + last.words[3:] if _in_folder(last.words) else last.words
    texts = [word.text for word in words]
    if texts[:1] != ["git"] or len(texts) < 3 or texts[1] not in PRINTS_HASHES:
        return False
    rest = [word for word in words[2:] if not re.fullmatch(PRINTS_HASHES[texts[1]], word.text)]
    named = all(REVISION.fullmatch(word.text) for word in rest if word.literal)
    found = all(
        HASH in word.inner and REVISION.fullmatch("x" + word.text.replace(OPAQUE, "")) for word in rest if word.opaque
    )
    plain = not any(word.glob or word.pipe or word.text.startswith("-") for word in rest)
    return bool(rest) and named and found and plain


def _in_folder(words):
    return len(words) > 4 and words[1].text == "-C" and words[2].literal


def _plain(simple):
    return not simple.unclear and not simple.assigns and all(r.op in (">", "2>", "&>", ">&") for r in simple.redirects)


def _ansi_c(value):
    """Decode the plain escapes of $'…'; return None for numeric ones, which serve to hide text."""
    out, chars = [], iter(value)
    for char in chars:
        if char != "\\":
            out.append(char)
            continue
        following = next(chars, "")
        if following not in "nt\\'\"":
            return None
        out.append({"n": "\n", "t": "\t"}.get(following, following))
    return "".join(out)
