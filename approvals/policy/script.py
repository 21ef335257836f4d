"""From a syntax tree to every simple command in it, with its words, redirects, folder and what feeds it."""

from dataclasses import dataclass, field

from .shell import Unreadable
from .words import Cells, Word, names

MAX_COMMANDS = 200
SAFE_VARIABLES = names("NODE_ENV LANG TZ NO_COLOR CI LC_ALL FORCE_COLOR PYTHONUNBUFFERED RUST_BACKTRACE")
KNOWN_VARIABLES = names("? # $ ! @ * RANDOM SECONDS LINENO UID EUID USER LOGNAME HOSTNAME")
KNOWN_VARIABLES |= {"SHELL", "TERM", "PATH", "PWD", "COLUMNS", "LINES", "OSTYPE", "LANG", "OLDPWD"}
QUIET_EXPANSIONS = {":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "^", "^^", ",", ",,"}
ARITHMETIC_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}


@dataclass
class Redirect:
    op: str
    words: list


@dataclass
class Simple:
    """One simple command: words, assignments in front, redirects, and the folders it may run in."""

    text: str
    words: list = field(default_factory=list)
    assigns: list = field(default_factory=list)
    redirects: list = field(default_factory=list)
    cwds: tuple = ()
    fed_by: object = None
    form: str = "call"  # or "declaration", "arithmetic", "compound": shell forms that are no program
    moved: bool = False  # a `cd` came before it
    unclear: list = field(default_factory=list)


@dataclass
class Scope:
    cwds: tuple
    variables: dict
    maybe: tuple = ()
    moved: bool = False

    def copy(self):
        return Scope(self.cwds, dict(self.variables), self.maybe, self.moved)


class Reader:
    """Walks a tree once; `commands` is the result, in the order of the text."""

    def __init__(self, source, world, cwds=()):
        self.source = source.encode()
        self.world = world
        self.commands = []
        self.current = None
        self.scope = Scope(tuple(cwds) or (world.cwd,), {"HOME": Word(world.home)})

    def read(self, tree):
        self.statements(tree.get("Stmts", []))
        return self.commands

    # Statements

    def statements(self, nodes):
        for node in nodes:
            self.statement(node)
            self.settle()

    def settle(self):
        """After `cd x;` the next command runs in x, or where it was if that failed."""
        if self.scope.maybe:
            self.scope.cwds = tuple(dict.fromkeys((*self.scope.cwds, *self.scope.maybe)))[:8]
            self.scope.maybe = ()

    def statement(self, node, fed_by=None):
        """Visit one statement; return the simple command it is, or None for anything larger."""
        if node.get("Coprocess") or node.get("Disown"):
            raise Unreadable("it starts a coprocess")
        simple = Simple(self.raw(node), cwds=self.scope.cwds, fed_by=fed_by, moved=self.scope.moved)
        outer, self.current = self.current, simple
        command = node.get("Cmd")
        own = command is None or command["Type"] in ("CallExpr", "TestClause", "DeclClause", "LetClause", "ArithmCmd")
        scope = self.scope.copy() if node.get("Background") else None
        for redirect in node.get("Redirs", []):
            self.redirect(redirect, simple)
        if own:
            if command is not None:
                getattr(self, "visit_" + command["Type"])(command)
            if simple.words or simple.redirects or simple.assigns or simple.unclear:
                self.keep(simple)
        else:
            simple.form = "compound"
            if simple.redirects or simple.unclear:
                self.keep(simple)
            self.compound(command, fed_by)
        if scope:
            self.scope = scope
        self.current = outer
        return simple if own else None

    def keep(self, simple):
        if len(self.commands) >= MAX_COMMANDS:
            raise Unreadable(f"it holds more than {MAX_COMMANDS} commands")
        self.commands.append(simple)

    def compound(self, node, fed_by):
        visit = getattr(self, "visit_" + node["Type"], None)
        if visit is None:
            raise Unreadable(f"it uses a form that is not judged by rules ({node['Type']})")
        return visit(node, fed_by)

    def scoped(self, nodes):
        outer, self.scope = self.scope, self.scope.copy()
        self.statements(nodes)
        self.scope = outer

    def visit_BinaryCmd(self, node, fed_by):
        if node["Op"] in ("|", "|&"):
            outer, self.scope = self.scope, self.scope.copy()
            left = self.statement(node["X"], fed_by)
            self.scope = outer.copy()
            self.statement(node["Y"], left or Simple("a compound command"))
            self.scope = outer
            return
        self.statement(node["X"], fed_by)
        if node["Op"] != "&&":
            self.settle()
        self.statement(node["Y"])

    def visit_Subshell(self, node, fed_by):
        self.scoped(node.get("Stmts", []))

    def visit_Block(self, node, fed_by):
        self.statements(node.get("Stmts", []))

    def visit_IfClause(self, node, fed_by):
        for part in ("Cond", "Then"):
            self.statements(node.get(part, []))
        if node.get("Else"):
            self.visit_IfClause(node["Else"], fed_by)

    def visit_WhileClause(self, node, fed_by):
        # Twice: what a first round does to the folder and to variables, the second one meets.
        for _ in range(2):
            self.statements(node.get("Cond", []))
            self.statements(node.get("Do", []))

    def visit_ForClause(self, node, fed_by):
        loop = node["Loop"]
        if loop["Type"] != "WordIter":
            raise Unreadable("it holds a loop with arithmetic")
        items = [word for item in loop.get("Items", []) for word in self.word(item)]
        name = loop["Name"]["Value"]
        self.assignable(name)
        if not items:
            items = [Word("\ufffc", opaque=True, splits=True)]
        for item in items if len(items) <= 20 else [Word("\ufffc", opaque=True, splits=True)]:
            self.scope.variables[name] = item
            self.statements(node.get("Do", []))

    def visit_CaseClause(self, node, fed_by):
        self.word(node["Word"])
        for item in node.get("Items", []):
            for pattern in item.get("Patterns", []):
                self.word(pattern)
            self.statements(item.get("Stmts", []))

    def visit_TimeClause(self, node, fed_by):
        if node.get("Stmt"):
            self.statement(node["Stmt"], fed_by)

    def visit_FuncDecl(self, node, fed_by):
        raise Unreadable(f"it defines a function ({node['Name']['Value']})")

    # Commands

    def visit_CallExpr(self, node):
        simple = self.current
        simple.words = [word for arg in node.get("Args", []) for word in self.word(arg)]
        for assign in node.get("Assigns", []):
            self.assignment(assign, simple, lasting=not node.get("Args"))
        first = simple.words[0].text if simple.words else ""
        if first == "cd":
            self.change_folder(simple)
        elif first == "read":
            for word in simple.words[1:]:
                if word.text.isidentifier():
                    self.assignable(word.text)
                    self.scope.variables[word.text] = Word("\ufffc", opaque=True, splits=True)

    def change_folder(self, simple):
        targets = [w for w in simple.words[1:] if w.text not in ("-L", "-P", "--")]
        self.scope.moved = True
        if len(targets) != 1 or not targets[0].literal or targets[0].text == "-":
            simple.unclear.append("goes to a folder that is not known before it runs")
            return
        self.scope.maybe = self.scope.cwds
        places = [self.world.place(targets[0].text, cwd, shell=True) for cwd in self.scope.cwds]
        self.scope.cwds = tuple(dict.fromkeys(end for place in places for end in place.reals))[:8]
        self.scope.moved = any(cwd != self.world.root for cwd in self.scope.cwds)

    def visit_TestClause(self, node):
        self.current.words = [Word("[["), *self.test_words(node["X"]), Word("]]")]

    def test_words(self, node):
        kind = node["Type"]
        if kind == "Word":
            return self.word(node)
        if kind == "ParenTest":
            return [Word("("), *self.test_words(node["X"]), Word(")")]
        if kind == "UnaryTest":
            if node["Op"] in ("-v", "-R"):
                self.current.unclear.append(f"tests with {node['Op']}, which evaluates what it is given")
            return [Word(node["Op"]), *self.test_words(node["X"])]
        left, right = self.test_words(node["X"]), self.test_words(node["Y"])
        if node["Op"] in ARITHMETIC_TESTS and not all(w.text.lstrip("-").isdecimal() for w in left + right):
            self.current.unclear.append("compares by arithmetic, which evaluates what it is given")
        return [*left, Word(node["Op"]), *right]

    def visit_DeclClause(self, node):
        self.current.words = [Word(node["Variant"]["Value"])]
        self.current.form = "declaration"
        if not node.get("Args"):
            self.current.unclear.append("prints the variables, where secrets may be")
        for arg in node.get("Args", []):
            if not arg.get("Name"):
                self.current.unclear.append("declares variables with options")
                continue
            self.assignment(arg, self.current, lasting=False)
            self.scope.variables[arg["Name"]["Value"]] = Word("\ufffc", opaque=True, foreign=True)
            self.current.words.append(Word(self.raw(arg)))

    def visit_LetClause(self, node):
        self.current.words, self.current.form = [Word("let"), Word(self.raw(node))], "arithmetic"
        self.current.unclear.append("evaluates arithmetic, which can run commands")

    def visit_ArithmCmd(self, node):
        self.current.words, self.current.form = [Word("(("), Word(self.raw(node))], "arithmetic"
        self.current.unclear.append("evaluates arithmetic, which can run commands")

    def assignment(self, node, simple, *, lasting):
        name = node["Name"]["Value"]
        value = None
        if node.get("Index") or node.get("Array") or node.get("Append"):
            simple.unclear.append(f"sets {name} in a way that is evaluated")
        elif node.get("Value"):
            value = self.joined(node["Value"])
        simple.assigns.append((name, value))
        if lasting:
            self.assignable(name)
            self.scope.variables[name] = value or Word("")

    def assignable(self, name):
        """Refuse to change variables that programs or the shell itself listen to."""
        if name in SAFE_VARIABLES or (name.islower() and "proxy" not in name):
            return
        if name.upper() == name and len(name) == 1:
            return
        self.current_problem(f"sets {name}, which can change what later commands do")

    def current_problem(self, sentence):
        if self.current is None:
            raise Unreadable(sentence)
        self.current.unclear.append(sentence)

    def redirect(self, node, simple):
        op = node["Op"]
        if op in ("<<", "<<-"):
            body = Cells()
            self.cells((node.get("Hdoc") or {}).get("Parts", []), body, quoted=True)
            if body.foreign:
                simple.unclear.append("holds a variable whose value is not known before it runs")
            simple.redirects.append(Redirect("<<", []))
            return
        simple.redirects.append(Redirect(op, self.word(node["Word"])))

    # Words

    def raw(self, node):
        return self.source[node["Pos"]["Offset"] : node["End"]["Offset"]].decode(errors="replace")

    def word(self, node):
        cells = Cells()
        self.cells(node.get("Parts", []), cells, quoted=False)
        return cells.words(self.world.home)

    def joined(self, node):
        """Return a word in a place where bash expands no braces and splits nothing."""
        cells = Cells()
        self.cells(node.get("Parts", []), cells, quoted=False)
        text = "".join(char for char, _ in cells.cells)
        if cells.cells[:1] == [("~", False)]:
            return cells.words(self.world.home)[0]
        return Word(text, opaque="\ufffc" in text, foreign=cells.foreign, plain=cells.plain)

    def cells(self, parts, cells, *, quoted):
        for part in parts:
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
        if simple and known is not None and not known.opaque and not (not quoted and "{" in known.text):
            cells.add(known.text, quoted=quoted)
            # A name from a wildcard may begin with a dash, also inside quotes.
            cells.glob |= known.glob
            cells.splits |= not quoted and any(c.isspace() for c in known.text)
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
    """Decode the plain escapes of $'…'; None for numeric ones, which exist to hide text."""
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
