"""`python -m bench.policy.holding`: the wall time of hostile calls below 64 KiB; exit status 1 when one is over 200 ms.

Engine, evidence by text, titles and the marks of the card are measured together, each of a call's texts once. A call
over the limit is tried twice more and its best time counts. Run it on a quiet machine: it is wall time.
"""

import argparse
import random
import sys
import time
from itertools import chain

from approvals.policy import Policy, classify, shell
from approvals.policy.patches import BadPatch, read_patch
from bench.policy import hostile
from dashboard.text.visible_text import hidden_note, visible

LIMIT = 200.0  # milliseconds
SHOWN = 10
SIZES = (512, 4_096, 9_900, 32_768, hostile.SIZE)
POLICY = Policy.of_rules(hostile.RULES)


def grown(size):
    """Yield (name, tool, arguments) of one size: what nests, repeats and quotes, in each place that takes a text."""
    for name, (head, unit, tail) in SHAPES.items():
        body = head + unit * ((size - len(head) - len(tail)) // len(unit.encode())) + tail
        yield f"{name}, {size:,}", "Bash", {"command": body}
    for name, (unit, close) in {"lists": ("[", "]"), "objects": ('{"a":', "}")}.items():
        depth = min(400, size // (len(unit) + 1))
        yield f"nested {name}, {size:,}", "Bash", {"command": f"echo '{unit * depth}1{close * depth}' | jq ."}
    values = [[0] * 8] * (size // 32)
    yield f"a JSON of many lists, {size:,}", "mcp__db__query", {"sql": "SELECT 1", "rows": values}
    patch = "*** Begin Patch\n" + "*** Add File: a/../b\n+x\n" * (size // 24) + "*** End Patch"
    yield f"a patch of many files, {size:,}", "apply_patch", {"command": patch}
    patch = "*** Begin Patch\n*** Add File: a\n" + "+\u202e\n" * (size // 5) + "*** End Patch"
    yield f"a patch of hidden characters, {size:,}", "apply_patch", {"command": patch}
    edits = [{"old_string": "a", "new_string": "\u202eb"}] * (size // 40)
    yield f"many edits, {size:,}", "MultiEdit", {"file_path": "a.py", "edits": edits}


SHAPES = {
    "groups": ("", "( ", ""),
    "braced groups": ("", "{ ", ""),
    "open single quotes": ("echo ", "'a", ""),
    "open double quotes": ('echo "', '$(echo "', ""),
    "back quotes": ("echo ", "`\\", ""),
    "here-documents": ("", "cat <<E\n$a\nE\n", ""),
    "here-strings": ("cat ", "<<<a ", ""),
    "open here-documents": ("", "cat <<A ", "\n"),
    "sed addresses": ("sed '", "/[^]a]*/,/b/{", "' f"),
    "sed substitutions": ("sed -e '", "s/\\(a*\\)*/b/;", "' f"),
    "awk blocks": ("awk '", "{if(a){", "' f"),
    "awk strings": ("awk '", '"a" ~ /b/ {print} ', "' f"),
    "jq filters": ("jq '", ".[]|select(.a)|", ".' f"),
    "jq brackets": ("jq '", "[(", "' f"),
    "Python programs": ("python3 -c '", "((a for b in c) for d in e),", "'"),
    "Python strings": ('python3 -c "', "'''\\n", '"'),
    "globs": ("ls ", "**/[a-z]*?", ""),
    "extended globs": ("ls ", "@(a|!(b|*(c)))", ""),
    "brace lists": ("echo ", "{a,b,{c,d}}", ""),
    "brace ranges": ("echo ", "{1..99999..3}", ""),
    "arguments": ("ls", " a", ""),
    "options": ("git log", " --a=b -c", ""),
    "bidi": ("echo ", "\u202e\u2066a", ""),
    "combining marks": ("echo ", "e\u0301\u0315\u0327", ""),
    "look-alikes": ("echo ", "p\u0430", ""),
    "joiners": ("echo ", "\U0001f468\u200d", ""),
    "blank lines": ("echo a", "\n \n", ""),
    "line ends after backslashes": ("echo a", " \\\n", ""),
    "tests": ("", "[[ a =~ (b*)* ]] && ", "ls"),
    "functions": ("", "f() { f | f & }; ", "f"),
    "assignments": ("", "a=$a$a ", "ls"),
    "redirects": ("ls ", "2>&1 >a <b ", ""),
    "command names": ("", "./a/../", "x"),
}


def mixed(count, seed):
    """Yield `count` calls of up to 64 KiB grown from random pieces; the same seed makes the same calls."""
    chance = random.Random(seed)
    for number in range(count):
        unit = "".join(chance.choices(hostile.PIECES, k=chance.randrange(1, 8)))
        head, _, tail = SHAPES[chance.choice(list(SHAPES))]
        size = chance.choice(SIZES)
        yield f"mixed {seed}/{number}", "Bash", {"command": (head + unit * (size // len(unit)))[:size] + tail}


def judged(tool, arguments):
    """Return milliseconds for the verdict and for all that a card marks of a call."""
    shell.remembered.cache_clear()
    started = time.perf_counter()
    verdict = classify(tool, arguments, policy=POLICY)
    if tool == "apply_patch":
        try:
            read_patch(arguments)
        except BadPatch:
            pass
    for text in chain([verdict.title], verdict.reasons, filter(_is_text, arguments.values())):
        visible(text)
        hidden_note(text)
    return (time.perf_counter() - started) * 1000


def _is_text(value):
    return isinstance(value, str)


def slowest(calls):
    """Return [(milliseconds, name)] of the slowest calls, the worst first."""
    times = []
    for name, tool, arguments in calls:
        took = judged(tool, arguments)
        for _ in range(2):
            took = took if took <= LIMIT else min(took, judged(tool, arguments))
        times.append((took, name))
    return sorted(times, reverse=True)[:SHOWN]


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m bench.policy.holding", description=__doc__)
    parser.add_argument("--fuzz", type=int, default=300, metavar="COUNT", help="calls grown at random")
    parser.add_argument("--seed", type=int, default=0, help="another seed grows other calls")
    options = parser.parse_args(argv)
    shapes = chain.from_iterable(map(grown, SIZES))
    random_ones = chain(hostile.random_calls(options.fuzz, options.seed), mixed(options.fuzz, options.seed))
    found = slowest(chain(hostile.calls(), shapes, random_ones))
    for took, name in found:
        print(f"{took:8.1f} ms  {name}")
    return 1 if found[0][0] > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
