"""Collect every simple command of a syntax tree, with its words, redirects, folder and pipe input."""

from .downloads import Downloads
from .environment import OBEYED, SAFE_VARIABLES
from .expansions import Expansions
from .scope import MAX_FOLDERS, Scope, joined
from .shell import Unreadable
from .shell_words import OPAQUE, Cells, Word
from .simple import Redirect, Simple
from .step_budget import spend

MAX_COMMANDS = 200
MAX_ITEMS = 20  # of a loop, each of which is judged by itself
MAX_TEXT = 200_000  # characters of all commands together
ARITHMETIC_TESTS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}


class Reader(Expansions):
    """Walks a tree once; `commands` is the result, in the order of the text."""

    def __init__(self, source, world, cwds=(), downloads=None):
        self.source = source.encode()
        self.world = world
        self.commands = []
        self.downloads = downloads or Downloads.of(world, Reader)
        self.around = []  # the compound commands that are being read
        self.length = 0
        self.current = None
        self.assigned = set()  # variables that the loop being read sets
        self.jumps = []  # states at its `break` and `continue`
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
        """Forget whether the last command succeeded: after `cd x;` the next one runs in x or in the old folder."""
        if self.scope.maybe:
            self.scope = joined([self.scope, *self.scope.maybe])

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
                self.downloads.note(simple, self.around)
                self.keep(simple)
        else:
            simple.form = "compound"
            at = len(self.commands)
            self.around.append(simple)
            self.compound(command, fed_by)
            self.around.pop()
            self.downloads.close(simple, self.commands[at:])
            if simple.redirects or simple.unclear:
                self.keep(simple, at)
        if node.get("Negated"):
            self.settle()
        if scope:
            self.scope = scope
        self.current = outer
        return simple if own else None

    def keep(self, simple, at=None):
        """Add a command to the result, before number `at`. Raise Unreadable if the result becomes too large."""
        if len(self.commands) >= MAX_COMMANDS:
            raise Unreadable(f"it holds more than {MAX_COMMANDS} commands")
        # A loop repeats its body, so together the texts can be far longer than the command.
        self.length += len(simple.text)
        if self.length > MAX_TEXT:
            raise Unreadable("its loops repeat more text than can be judged")
        self.commands.insert(len(self.commands) if at is None else at, simple)

    def compound(self, node, fed_by):
        visit = getattr(self, "visit_" + node["Type"], None)
        if visit is None:
            raise Unreadable(f"it uses a form that is not judged by rules ({node['Type']})")
        failed, self.scope.maybe = self.scope.maybe, ()
        visit(node, fed_by)
        self.scope.maybe = (*failed, *self.scope.maybe)

    def scoped(self, nodes):
        """Visit statements of a subshell, whose changes of folder and variables do not last."""
        outer, self.scope = self.scope, self.scope.copy()
        self.statements(nodes)
        self.scope = outer

    def visit_BinaryCmd(self, node, fed_by):
        if node["Op"] in ("|", "|&"):
            self.pipe(node, fed_by)
            return
        self.statement(node["X"], fed_by)
        if node["Op"] == "&&":
            failed, before, self.scope.maybe = self.scope.maybe, self.scope.copy(), ()
            self.statement(node["Y"])
            kept = () if self.scope.same(before) else (before,)
            self.scope.maybe = (*failed, *kept, *self.scope.maybe)
            return
        succeeded = self.scope.copy()
        self.settle()
        self.statement(node["Y"])
        failed = self.scope.maybe
        self.scope = succeeded if _exits(node["Y"]) else joined([succeeded, self.scope])
        self.scope.maybe = failed

    def pipe(self, node, fed_by):
        outer, self.scope = self.scope, self.scope.copy()
        at = len(self.commands)
        left = self.statement(node["X"], fed_by)
        self.scope = outer.copy()
        feeding = left or Simple("a compound command", output=self.downloads.printed(self.commands[at:]))
        for each in (feeding, *self.commands[at:]):
            each.piped = True
        self.statement(node["Y"], feeding)
        self.scope = outer

    def visit_Subshell(self, node, fed_by):
        self.scoped(node.get("Stmts", []))

    def visit_Block(self, node, fed_by):
        self.statements(node.get("Stmts", []))

    def visit_IfClause(self, node, fed_by):
        if not node.get("Cond"):
            self.statements(node.get("Then", []))
            return
        failed = self.condition(node["Cond"])
        self.statements(node.get("Then", []))
        done, self.scope = self.scope, failed
        if node.get("Else"):
            self.visit_IfClause(node["Else"], fed_by)
        self.scope = joined([done, self.scope])

    def condition(self, nodes):
        """Visit the statements of a condition, leave the state if it holds, and return the state if not."""
        self.statements(nodes[:-1])
        self.statement(nodes[-1])
        failed = joined([self.scope, *self.scope.maybe])
        self.scope.maybe = ()
        return failed

    def visit_WhileClause(self, node, fed_by):
        self.loop(lambda: self.statements([*node.get("Cond", []), *node.get("Do", [])]))

    def loop(self, body):
        """Visit a body that runs any number of times: a second time with all that a round may have changed unknown."""
        outer, self.assigned, self.jumps = (self.assigned, self.jumps), set(), []
        head = self.scope.copy()
        body()
        self.scope = joined([head, self.scope, *self.jumps])
        if self.assigned or self.scope.cwds != head.cwds:
            self.scope.forget(self.assigned)
            head = self.scope.copy()
            body()
            self.scope = joined([head, self.scope, *self.jumps])
            self.scope.forget(self.assigned)
            if set(self.scope.cwds) != set(head.cwds):
                raise Unreadable("its loop goes to another folder in each round")
        self.assigned, self.jumps = outer[0] | self.assigned, [*outer[1], *self.jumps]

    def visit_ForClause(self, node, fed_by):
        loop = node["Loop"]
        if loop["Type"] != "WordIter" or node.get("Select"):
            raise Unreadable("it holds a loop with arithmetic or a menu")
        items = [word for item in loop.get("Items", []) for word in self.word(item)]
        name = loop["Name"]["Value"]
        self.assignable(name)
        self.assigned.add(name)
        if any(item.glob for item in items):  # the shell reads folders for them, also if the body leaves them alone
            words = [Word("for"), *items]
            self.keep(Simple(self.raw(loop), words, cwds=self.scope.cwds, form="compound", moved=self.scope.moved))
        if not items or len(items) > MAX_ITEMS:
            items = [Word(OPAQUE, opaque=True, splits=True, foreign=any(item.foreign for item in items))]

        def each():
            for item in items:
                self.scope.variables[name] = item
                self.statements(node.get("Do", []))
                if self.jumps:
                    self.scope = joined([self.scope, *self.jumps])

        if not all(item.literal for item in items):
            self.loop(each)
            return
        outer, self.jumps = self.jumps, []
        each()
        self.jumps = [*outer, *self.jumps]

    def visit_CaseClause(self, node, fed_by):
        self.word(node["Word"])
        entry = self.scope.copy()
        ends, falls = [entry], False
        for item in node.get("Items", []):
            self.scope = joined(ends) if falls else entry.copy()
            for pattern in item.get("Patterns", []):
                self.word(pattern)
            self.statements(item.get("Stmts", []))
            ends.append(self.scope)
            falls = falls or item.get("Op") != ";;"
        self.scope = joined(ends)

    def visit_TimeClause(self, node, fed_by):
        if node.get("Stmt"):
            self.statement(node["Stmt"], fed_by)

    def visit_FuncDecl(self, node, fed_by):
        raise Unreadable(f"it defines a function ({(node.get('Name') or {}).get('Value', 'without a name')})")

    # Commands

    def visit_CallExpr(self, node):
        simple = self.current
        simple.words = [word for arg in node.get("Args", []) for word in self.word(arg)]
        for assign in node.get("Assigns", []):
            self.assignment(assign, simple, lasting=not node.get("Args"))
        words = _bare(simple.words)
        first = words[0].text if words else ""
        if first == "cd":
            self.change_folder(simple, words[1:])
        elif first in ("break", "continue"):
            self.jumps.append(self.scope.copy())
        elif first == "read":
            for word in words[1:]:
                if word.text.isidentifier():
                    self.assignable(word.text)
                    given = self.downloads.given(simple, self.around)
                    self.set(word.text, Word(OPAQUE, opaque=True, splits=True, fetched=given))

    def change_folder(self, simple, words):
        targets = [w for w in words if w.text not in ("-L", "-P", "--")]
        self.scope.moved = True
        # An option alone leads home.
        if len(targets) != 1 or not targets[0].literal or targets[0].text.startswith("-"):
            simple.unclear.append("goes to a folder that is unknown until it runs")
            return
        before = self.scope.copy()
        before.moved = self.has_moved(before.cwds)
        places = [self.world.place(targets[0].text, cwd, shell=True) for cwd in self.scope.cwds]
        self.scope.cwds = tuple(dict.fromkeys(end for place in places for end in place.reals))
        if len(self.scope.cwds) > MAX_FOLDERS:
            raise Unreadable("it may run in more folders than can be judged")
        self.scope.maybe = (*self.scope.maybe, before)
        self.scope.moved = self.has_moved(self.scope.cwds)

    def set(self, name, value):
        """Record the value of a variable that lasts."""
        self.assigned.add(name)
        self.scope.variables[name] = value

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
            self.set(arg["Name"]["Value"], Word(OPAQUE, opaque=True, foreign=True))
            self.current.words.append(Word(self.raw(arg)))

    def visit_LetClause(self, node):
        self.current.words, self.current.form = [Word("let"), Word(self.raw(node))], "arithmetic"
        self.current.unclear.append("evaluates arithmetic, which can run commands")

    def visit_ArithmCmd(self, node):
        self.current.words, self.current.form = [Word("(("), Word(self.raw(node))], "arithmetic"
        if not self.only_numbers(node.get("X")):
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
            self.set(name, value or Word(""))

    def assignable(self, name):
        """Mark assignments to variables that programs or the shell itself interpret as unclear."""
        if name in SAFE_VARIABLES or (name.islower() and "proxy" not in name):
            return
        if name.isidentifier() and name.isascii() and not OBEYED.fullmatch(name.upper()):
            return
        self.current_problem(f"sets {name}, which can change what later commands do")

    def current_problem(self, sentence):
        """Mark the current command as unclear. Raise Unreadable if there is none."""
        if self.current is None:
            raise Unreadable(sentence)
        self.current.unclear.append(sentence)

    def redirect(self, node, simple):
        op, fd = node["Op"], (node.get("N") or {}).get("Value", "")
        if op in ("<<", "<<-"):
            body = Cells()
            parts = (node.get("Hdoc") or {}).get("Parts", [])
            self.cells(parts, body, quoted=True)
            if body.foreign:
                simple.unclear.append("holds a variable whose value is unknown until it runs")
            simple.redirects.append(Redirect("<<", [_here_document(node, parts, body)], fd))
            return
        simple.redirects.append(Redirect(op, self.word(node["Word"]), fd))


def _here_document(node, parts, body):
    """Return the text of a here-document as a Word, which is opaque if it is not certain."""
    plain = [part.get("Value", "") for part in parts if part["Type"] == "Lit"]
    quoted = any(part["Type"] != "Lit" or "\\" in part["Value"] for part in node["Word"].get("Parts", []))
    text = "".join(plain) if quoted else "".join(char for char, _ in body.cells)
    certain = node["Op"] == "<<" and (quoted or not any("\\" in value for value in plain))
    return Word(text if certain else OPAQUE, opaque=not certain or OPAQUE in text, fetched=body.fetched)


def _bare(words):
    """Return the words without `command` and `builtin` in front, which run a builtin of the shell as it is."""
    words = list(words)
    while len(words) > 1 and words[0].text in ("command", "builtin"):
        del words[0]
        while words and words[0].text in ("-p", "--"):
            del words[0]
    return words


def _exits(node):
    """Return True for a plain `exit`, after which nothing runs."""
    command = node.get("Cmd") or {}
    if command.get("Type") != "CallExpr" or command.get("Assigns") or len(command.get("Args", [])) > 2:
        return False
    if node.get("Background") or node.get("Negated") or node.get("Redirs"):
        return False
    parts = [arg["Parts"] for arg in command.get("Args", [])]
    plain = all(len(part) == 1 and part[0]["Type"] == "Lit" for part in parts)
    texts = [part[0]["Value"] for part in parts] if plain else []
    return texts[:1] == ["exit"] and all(text.isdecimal() for text in texts[1:])
