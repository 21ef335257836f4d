"""Collect every simple command of a syntax tree, with its words, redirects, folder and pipe input."""

from dataclasses import dataclass, field

from .expansions import SAFE_VARIABLES, Expansions
from .shell import Unreadable
from .shell_words import Cells, Word
from .step_budget import spend

MAX_COMMANDS = 200
MAX_TEXT = 200_000  # characters of all commands together
ARITHMETIC_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}


@dataclass
class Redirect:
    op: str
    words: list


@dataclass
class Simple:
    """One simple command: words, leading assignments, redirects, and the folders it may run in."""

    text: str
    words: list = field(default_factory=list)
    assigns: list = field(default_factory=list)
    redirects: list = field(default_factory=list)
    cwds: tuple = ()
    fed_by: object = None
    form: str = "call"  # or "declaration", "arithmetic", "compound": shell forms that are not programs
    moved: bool = False  # it runs in another folder than the workspace's root
    unclear: list = field(default_factory=list)


@dataclass
class Scope:
    """The shell's state: possible folders, variables, and `maybe`: the folders it stays in if the last `cd` fails."""

    cwds: tuple
    variables: dict
    maybe: tuple = ()
    moved: bool = False

    def copy(self):
        spend(1 + len(self.variables) // 4)
        return Scope(self.cwds, dict(self.variables), self.maybe, self.moved)


class Reader(Expansions):
    """Walks a tree once; `commands` is the result, in the order of the text."""

    def __init__(self, source, world, cwds=()):
        self.source = source.encode()
        self.world = world
        self.commands = []
        self.length = 0
        self.current = None
        cwds = tuple(cwds) or (world.cwd,)
        self.scope = Scope(cwds, {"HOME": Word(world.home)}, moved=self.has_moved(cwds))

    def read(self, tree):
        self.statements(tree.get("Stmts", []))
        return self.commands

    # Statements

    def statements(self, nodes):
        for node in nodes:
            self.statement(node)
            self.settle()

    def settle(self):
        """After `cd x;` the next command runs in x, or in the old folder if that failed."""
        if self.scope.maybe:
            self.scope.cwds = tuple(dict.fromkeys((*self.scope.cwds, *self.scope.maybe)))[:8]
            self.scope.maybe = ()

    def statement(self, node, fed_by=None):
        """Visit one statement; return its simple command, or None for a compound one."""
        spend(30)
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
        """Add a simple command to the result. Raise Unreadable if the result becomes too large."""
        if len(self.commands) >= MAX_COMMANDS:
            raise Unreadable(f"it holds more than {MAX_COMMANDS} commands")
        # A loop repeats its body, so together the texts can be far longer than the command.
        self.length += len(simple.text)
        if self.length > MAX_TEXT:
            raise Unreadable("its loops repeat more text than can be judged")
        self.commands.append(simple)

    def compound(self, node, fed_by):
        visit = getattr(self, "visit_" + node["Type"], None)
        if visit is None:
            raise Unreadable(f"it uses a form that is not judged by rules ({node['Type']})")
        return visit(node, fed_by)

    def scoped(self, nodes):
        """Visit statements of a subshell, whose changes of folder and variables do not last."""
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
        # Twice, since the second round meets the folder and variables that the first one left.
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
            simple.unclear.append("goes to a folder that is unknown until it runs")
            return
        self.scope.maybe = self.scope.cwds
        places = [self.world.place(targets[0].text, cwd, shell=True) for cwd in self.scope.cwds]
        self.scope.cwds = tuple(dict.fromkeys(end for place in places for end in place.reals))[:8]
        self.scope.moved = self.has_moved(self.scope.cwds)

    def has_moved(self, cwds):
        """Return True if a command may run in another folder than the root, by `cd` or by the cwd the agent sent."""
        return any(cwd != self.world.root for cwd in cwds)

    def visit_TestClause(self, node):
        self.current.words = [Word("[["), *self.test_words(node["X"]), Word("]]")]

    def test_words(self, node):
        spend(5)
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
        spend(len(left) + len(right))
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
        """Record an assignment of a command; `lasting`: the shell keeps the value."""
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
        """Mark assignments to variables that programs or the shell itself interpret as unclear."""
        if name in SAFE_VARIABLES or (name.islower() and "proxy" not in name):
            return
        if name.upper() == name and len(name) == 1:
            return
        self.current_problem(f"sets {name}, which can change what later commands do")

    def current_problem(self, sentence):
        """Mark the current command as unclear. Raise Unreadable if there is none."""
        if self.current is None:
            raise Unreadable(sentence)
        self.current.unclear.append(sentence)

    def redirect(self, node, simple):
        op = node["Op"]
        if op in ("<<", "<<-"):
            body = Cells()
            self.cells((node.get("Hdoc") or {}).get("Parts", []), body, quoted=True)
            if body.foreign:
                simple.unclear.append("holds a variable whose value is unknown until it runs")
            simple.redirects.append(Redirect("<<", []))
            return
        simple.redirects.append(Redirect(op, self.word(node["Word"])))
