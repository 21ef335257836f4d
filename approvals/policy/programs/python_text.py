"""Read program text for Python: which files it opens, if it can do nothing else.

The text is not followed step by step. It may only use names, attributes and modules of closed lists
(`python_names.py`), none of which leads to a process, a connection or other program text, and the files that it opens
must be certain from the text. Anything else is not read, and asks.
"""

import ast
import itertools
import posixpath
import re
import string
from dataclasses import dataclass

from ..shell_words import names
from ..step_budget import spend
from .python_names import ATTRIBUTES, BUILTINS, MODULES, OPENERS, TAKEN, TAKEN_BEFORE

MAX_TEXT = 60_000
MAX_PATHS = 32  # that one expression can stand for
MAX_DEPTH = 12
# Python looks in the first two lines for a comment that names another encoding.
CODING = re.compile(r"(?:[^\n]*\n)?[ \t]*#[^\n]*coding[:=]")
MODE = re.compile(r"[rwaxbtU+]{1,4}")
OPEN_OPTIONS = names("mode encoding errors newline buffering")
STREAMS = (0, 1, 2)
STATEMENTS = (
    ast.Module, ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.With, ast.Try,
    ast.Return, ast.Pass, ast.Break, ast.Continue, ast.Assert, ast.Raise, ast.Delete, ast.FunctionDef, ast.Import,
    ast.ImportFrom,
)  # fmt: skip
EXPRESSIONS = (
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.ListComp, ast.SetComp,
    ast.DictComp, ast.GeneratorExp, ast.Compare, ast.Call, ast.FormattedValue, ast.JoinedStr, ast.Constant,
    ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.NamedExpr, ast.Yield,
)  # fmt: skip
PARTS = (
    ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.comprehension, ast.ExceptHandler,
    ast.arguments, ast.arg, ast.keyword, ast.alias, ast.withitem,
)  # fmt: skip


class NotRead(Exception):
    """The text uses something that is not read; the message completes "runs program text that …"."""


@dataclass(frozen=True)
class Opened:
    """Files that the text opens, `paths` being all that one expression can stand for; none for its own streams."""

    paths: tuple
    reads: bool
    writes: bool


def opened_files(text, arguments=(), *, may_be_old=False):
    """Return what the program opens, as a list of Opened. Raise NotRead if it may do anything else.

    `arguments` are the words after the text (`sys.argv[1:]`), None for one that is not known. `may_be_old`: Python 2
    may run it.
    """
    if len(text) > MAX_TEXT or CODING.match(text) or any(sign in text for sign in "\0\r\f\ufeff\ufffc"):
        raise NotRead("is not plain text")
    spend(len(text))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotRead("cannot be read as Python 3") from error
    opened = _Program(tree, arguments, TAKEN | TAKEN_BEFORE if may_be_old else TAKEN).opened
    if not opened:
        raise NotRead("works on no file that it names, nor on its input")
    return opened


class _Program:
    def __init__(self, tree, arguments, taken):
        self.arguments, self.taken = arguments, taken
        self.modules, self.functions = {}, {}  # {name in the text: module}, {name in the text: "module.name"}
        self.values = {}  # {variable: expressions that it may hold}, None where they are not known
        self.opened = []
        self.allowed = set()  # ids of nodes that a node around them has judged
        nodes = list(ast.walk(tree))
        spend(3 * len(nodes))
        for node in nodes:
            self._binds(node)
        for name in (*self.modules, *self.functions):
            if name in self.values or (name in self.modules and name in self.functions):
                raise NotRead(f"gives {name[:40]} another meaning")
        taken_from = {id(node.value) for node in nodes if isinstance(node, ast.Subscript) and _is_read(node)}
        if "len" not in self.values:
            counted = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
            taken_from |= {id(node.args[0]) for node in counted if node.func.id == "len" and len(node.args) == 1}
        if any(self._function(node) == "sys.argv" and id(node) not in taken_from for node in nodes):
            self.arguments = ()  # the text may change the list
        for node in nodes:
            self._judge(node)

    # What the text binds

    def _binds(self, node):
        if isinstance(node, ast.Import):
            for alias in node.names:
                self._imports(alias)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self._imports_from(node, alias)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assigns(target, node.value)
        elif isinstance(node, ast.For):
            self._assigns(node.target, None, among=node.iter)
        elif isinstance(node, (ast.FunctionDef, ast.ExceptHandler)):
            self._unknown(node.name)
        elif isinstance(node, ast.arg):
            self._unknown(node.arg)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and id(node) not in self.allowed:
            self._unknown(node.id)

    def _imports(self, alias):
        module, name = alias.name, alias.asname or alias.name.partition(".")[0]
        if module not in MODULES:
            raise NotRead(f"imports {module[:40]}")
        self._names(name)
        bound = module if alias.asname else name
        if self.modules.setdefault(name, bound) != bound:
            raise NotRead(f"gives {name[:40]} two meanings")

    def _imports_from(self, node, alias):
        whole = f"{node.module}.{alias.name}"
        name = alias.asname or alias.name
        self._names(name)
        if not node.level and whole in MODULES:
            if self.modules.setdefault(name, whole) != whole:
                raise NotRead(f"gives {name[:40]} two meanings")
            return
        if node.level or alias.name not in MODULES.get(node.module, ()):
            raise NotRead(f"imports {whole[:60]}")
        if self.functions.setdefault(name, whole) != whole:
            raise NotRead(f"gives {name[:40]} two meanings")

    def _names(self, name):
        if name in self.taken or name.startswith("__"):
            raise NotRead(f"gives {name[:40]} another meaning")

    def _assigns(self, target, value, among=None):
        """Note what a plain variable may hold: `value`, or one of the items of `among`."""
        if not isinstance(target, ast.Name):
            return
        self.allowed.add(id(target))
        self._names(target.id)
        items = [value]
        if among is not None:
            if not isinstance(among, (ast.List, ast.Tuple)) or any(isinstance(e, ast.Starred) for e in among.elts):
                self._unknown(target.id)
                return
            items = among.elts
        if self.values.setdefault(target.id, []) is not None:
            self.values[target.id] += items

    def _unknown(self, name):
        if name is not None:
            self._names(name)
            self.values[name] = None

    # What the text uses

    def _judge(self, node):
        if not isinstance(node, (*STATEMENTS, *EXPRESSIONS, *PARTS)):
            raise NotRead(f"uses a form that is not read ({type(node).__name__})")
        check = getattr(self, f"_judge_{type(node).__name__}", None)
        if check:
            check(node)

    def _judge_FunctionDef(self, node):
        if node.decorator_list:
            raise NotRead("decorates a function")

    def _judge_Name(self, node):
        known = id(node) in self.allowed or node.id in self.values or node.id in self.functions
        if not known and node.id not in BUILTINS and node.id != "__name__":
            raise NotRead(f"uses {node.id[:40]}")
        if self.functions.get(node.id) == "sys.stdin":
            self.opened.append(Opened((), reads=True, writes=False))

    def _judge_Attribute(self, node):
        if id(node) in self.allowed:
            return
        if not isinstance(node.ctx, ast.Load):
            raise NotRead(f"sets the attribute {node.attr[:40]}")
        module = self._module(node.value)
        if module is not None:
            if node.attr not in MODULES[module]:
                raise NotRead(f"uses {module}.{node.attr[:40]}")
            self._allow(node.value)
            if (module, node.attr) == ("sys", "stdin"):
                self.opened.append(Opened((), reads=True, writes=False))
        elif node.attr == "__name__" and self._is_type_of(node.value):
            self.allowed.add(id(node.value.func))
        elif node.attr not in ATTRIBUTES:
            raise NotRead(f"uses the attribute {node.attr[:40]}")

    def _judge_Call(self, node):
        name = self._function(node.func)
        if name in OPENERS:
            self._allow(node.func)
            self.opened.append(self._open(node))
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            self._plain_format(node.func)

    def _plain_format(self, function):
        """Allow `format` on a text without fields that look into their value."""
        text = function.value.value if isinstance(function.value, ast.Constant) else None
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(text)] if isinstance(text, str) else ["."]
        except ValueError as error:
            raise NotRead("formats a text that cannot be read") from error
        nested = any("{" in (spec or "") for _, _, spec, _ in string.Formatter().parse(text or ""))
        if nested or not all(re.fullmatch(r"\w*", field) for field in fields if field is not None):
            raise NotRead("formats a text with attributes of its values")
        self.allowed.add(id(function))

    def _allow(self, node):
        self.allowed |= {id(each) for each in ast.walk(node)}

    def _module(self, node):
        """Return the module that an expression names, or None."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            return f"{outer}.{node.attr}" if outer and f"{outer}.{node.attr}" in MODULES else None
        return None

    def _function(self, node):
        """Return the whole name of the function that an expression names, such as "os.path.join", or ""."""
        if isinstance(node, ast.Name):
            return self.functions.get(node.id, node.id if node.id == "open" else "")
        if isinstance(node, ast.Attribute) and (module := self._module(node.value)):
            return f"{module}.{node.attr}"
        return ""

    def _is_type_of(self, node):
        plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "type"
        return plain and len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)

    # Which files

    def _open(self, node):
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        if not node.args or len(node.args) > 2 or set(given) - OPEN_OPTIONS or isinstance(node.args[0], ast.Starred):
            raise NotRead("opens a file in a way that is not read")
        mode = node.args[1] if len(node.args) > 1 else given.get("mode", ast.Constant("r"))
        modes = self._texts(mode)
        if not all(map(MODE.fullmatch, modes)):
            raise NotRead("opens a file in a way that is not read")
        writes = any(set(each) & set("wax+") for each in modes)
        reads = any(set(each) & set("r+U") or not set(each) & set("wax") for each in modes)
        first = node.args[0]
        if isinstance(first, ast.Constant) and type(first.value) is int and first.value in STREAMS:
            return Opened((), reads=False, writes=False)
        return Opened(tuple(self._texts(first)), reads=reads, writes=writes)

    def _texts(self, node, depth=0):
        """Return the texts that an expression can stand for. Raise NotRead if they are not certain."""
        spend(5)
        found = self._possible(node, depth) if depth < MAX_DEPTH else None
        if not found or len(found) > MAX_PATHS:
            raise NotRead("opens a file that is unknown until it runs")
        return list(dict.fromkeys(found))

    def _possible(self, node, depth):
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else None
        if isinstance(node, ast.Name):
            expressions = self.values.get(node.id)
            return [text for each in expressions or () for text in self._texts(each, depth + 1)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._products([node.left, node.right], "".join, depth)
        if isinstance(node, ast.JoinedStr):
            return self._products(node.values, "".join, depth)
        if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
            return self._texts(node.value, depth + 1)
        if isinstance(node, ast.Call) and self._function(node.func) == "os.path.join" and not node.keywords:
            return self._products(node.args, lambda parts: posixpath.join(*parts), depth)
        if isinstance(node, ast.Subscript):
            return self._argument(node)
        return None

    def _products(self, nodes, join, depth):
        choices = [self._texts(node, depth + 1) for node in nodes]
        total = 1
        for each in choices:
            total *= len(each)
        if total > MAX_PATHS:
            return None
        return [join(parts) for parts in itertools.product(*choices)]

    def _argument(self, node):
        """Return the word that `sys.argv[number]` stands for."""
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if self._function(node.value) != "sys.argv" or type(place) is not int or not 0 < place <= len(self.arguments):
            return None
        word = self.arguments[place - 1]
        return None if word is None else [word]


def _is_read(node):
    return isinstance(node.ctx, ast.Load)
