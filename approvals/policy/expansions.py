"""Expand the words of a syntax tree as bash would, as far as their text tells; other parts become opaque."""

from .environment import SAFE_VARIABLES
from .shell import Unreadable
from .shell_words import Cells, Word, names
from .step_budget import spend

KNOWN_VARIABLES = names("? # $ ! @ * RANDOM SECONDS LINENO UID EUID USER LOGNAME HOSTNAME")
KNOWN_VARIABLES |= {"SHELL", "TERM", "PATH", "PWD", "COLUMNS", "LINES", "OSTYPE", "LANG", "OLDPWD"}
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
        return Word(text, opaque="\ufffc" in text, foreign=cells.foreign, plain=cells.plain)

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
        self.scoped(part.get("Stmts", []))
        cells.add_opaque(quoted=quoted)

    def part_ProcSubst(self, part, cells, quoted):
        self.scoped(part.get("Stmts", []))
        cells.pipe = True
        cells.add_opaque(quoted=True)

    def part_ArithmExp(self, part, cells, quoted):
        if not _numbers_only(part.get("X")):
            self.current_problem("evaluates arithmetic, which can run commands")
        cells.add_opaque(quoted=True)

    def part_ParamExp(self, part, cells, quoted):
        name = part["Param"]["Value"]
        expansion = part.get("Exp") or {}
        odd = any(part.get(key) for key in ("Excl", "Index", "Slice", "Repl", "Names", "Width", "NestedParam", "Flags"))
        raw = self.raw(part)
        if odd or (expansion and expansion.get("Op") not in QUIET_EXPANSIONS) or "<(" in raw or ">(" in raw:
            self.current_problem(f"expands {raw[:60]}, which can run commands")
        nested = Cells()
        self.cells((expansion.get("Word") or {}).get("Parts", []), nested, quoted=True)
        known = self.scope.variables.get(name)
        if name == "PWD" and len(self.scope.cwds) == 1:
            known = Word(self.scope.cwds[0])
        simple = not expansion and not part.get("Length")
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


def _numbers_only(node):
    if node is None:
        return False
    if node["Type"] == "Word":
        parts = node.get("Parts", [])
        return all(p["Type"] == "Lit" and p.get("Value", "").isalnum() and p["Value"][0].isdigit() for p in parts)
    return all(_numbers_only(node[key]) for key in ("X", "Y") if node.get(key))


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
