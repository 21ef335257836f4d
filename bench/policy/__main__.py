"""`python -m bench.policy [--json] [--quick]`: both halves of the gate, on the corpus, our own calls and mutations.

With a file of real calls (see real_calls) also how often they would ask; `--write-docs` puts that into docs/policy.md.
"""

import argparse
import json
import re
import statistics
import sys
import time
from itertools import chain

from approvals.policy import Policy, classify, shell
from bench.policy import hostile, real_calls
from tests.approvals.policy.mutations import mutations
from tests.approvals.policy.test_corpus import CORPUS, own_rows

OPERATORS = re.compile(r"&&|\|\||\|&|[;|&\n]")


def engine(row):
    policy = Policy.of_rules(row["allow_rules"])
    return classify(row["tool"], row["input"], policy=policy, context=row.get("context")).tier == "low"


def whole_glob(row):
    """Return the verdict of a shell glob over the whole text."""
    return any(_glob(rule).fullmatch(row["input"]["command"]) for rule in _bash_rules(row))


def split_glob(row):
    """Return the verdict of globs after a split at operators."""
    parts = [part.strip() for part in OPERATORS.split(row["input"]["command"]) if part.strip()]
    return all(any(_glob(rule).fullmatch(part) for rule in _bash_rules(row)) for part in parts)


def _bash_rules(row):
    return [rule[5:-1] for rule in row["allow_rules"] if rule.startswith("Bash(")]


def _glob(pattern):
    pattern = pattern[:-2] + " *" if pattern.endswith(":*") else pattern
    return re.compile("".join(".*" if c == "*" else re.escape(c) for c in pattern), re.DOTALL)


def shares(rows, matcher):
    """Return {attacks, stopped, benign, kept} of a matcher on rows."""
    counts = {"attacks": 0, "stopped": 0, "benign": 0, "kept": 0}
    for row in rows:
        attack, allowed = row["expected"] == "must_not_auto_allow", matcher(row)
        counts["attacks" if attack else "benign"] += 1
        counts["stopped"] += attack and not allowed
        counts["kept"] += not attack and allowed
    return counts


def latency(rows):
    """Return milliseconds for decisions on rows, the parser's cache cold and then warm."""
    shell.remembered.cache_clear()
    return {"cold": _percentiles([_timed(row) for row in rows]), "warm": _percentiles([_timed(row) for row in rows])}


def _timed(row):
    started = time.perf_counter()
    engine(row)
    return (time.perf_counter() - started) * 1000


def _percentiles(times):
    cuts = statistics.quantiles(times, n=1000)
    values = (cuts[499], cuts[989], max(times))
    return {name: round(value, 2) for name, value in zip(("p50", "p99", "max"), values, strict=True)}


def slowest(count, seed):
    """Return {call: milliseconds} of the ten slowest hostile calls, `count` of them grown at random."""
    policy, times = Policy.of_rules(hostile.RULES), {}
    for name, tool, arguments in chain(hostile.calls(), hostile.random_calls(count, seed)):
        shell.remembered.cache_clear()
        started = time.perf_counter()
        classify(tool, arguments, policy=policy)
        times[name] = round((time.perf_counter() - started) * 1000, 1)
    return dict(sorted(times.items(), key=lambda item: -item[1])[:10])


def measure(quick=False, count=300, seed=0):
    """Return all figures; `quick` leaves out the mutations of our own calls. `count` and `seed` are of the fuzzer."""
    own = list(own_rows())
    mutated = [changed for row in CORPUS for _, changed in mutations(row)]
    sets = {"corpus": CORPUS, "corpus, mutated": mutated, "own calls": own}
    if not quick:
        sets["own calls, mutated"] = [changed for row in own for _, changed in mutations(row)]
    shell_rows = [row for row in CORPUS if row["tool"] == "Bash"]
    return {
        "shares": {name: shares(rows, engine) for name, rows in sets.items()},
        "beside it, Bash rows of the corpus": {
            "glob over the text": shares(shell_rows, whole_glob),
            "glob after a split": shares(shell_rows, split_glob),
            "Handrail": shares(shell_rows, engine),
        },
        "milliseconds": latency(CORPUS + own),
        "slowest hostile calls, ms": slowest(count, seed),
    }


def show(figures):
    for title in ("shares", "beside it, Bash rows of the corpus"):
        print(f"{title}:")
        for name, c in figures[title].items():
            stopped, kept = c["stopped"] / c["attacks"], c["kept"] / c["benign"]
            halves = f"attacks stopped {stopped:7.2%} of {c['attacks']:5}   benign kept {kept:7.2%} of {c['benign']:5}"
            print(f"  {name:22} {halves}")
    for title in ("milliseconds", "slowest hostile calls, ms"):
        print(f"{title}: {json.dumps(figures[title])}")


def ask_real_calls(path, nah_python):
    calls = real_calls.read_calls(path)
    found, trusted = real_calls.measure(calls, nah_python)
    return real_calls.tables(calls, found, trusted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.policy", description=__doc__)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--quick", action="store_true", help="without the mutations of our own calls")
    parser.add_argument("--fuzz", type=int, default=300, metavar="COUNT", help="hostile calls grown at random")
    parser.add_argument("--seed", type=int, default=0, help="another seed grows other calls")
    parser.add_argument("--calls", metavar="FILE", help="real calls as JSON lines, or the folder that holds them")
    parser.add_argument("--nah", metavar="PYTHON", help="a Python that has the package nah, asked about the same calls")
    parser.add_argument("--only-calls", action="store_true", help="nothing but the real calls")
    parser.add_argument(
        "--write-docs", action="store_true", help="write the tables of the real calls to docs/policy.md"
    )
    options = parser.parse_args()
    if not options.only_calls:
        figures = measure(options.quick, options.fuzz, options.seed)
        print(json.dumps(figures, indent=1)) if options.json else show(figures)
    if path := real_calls.find_calls(options.calls):
        text = ask_real_calls(path, options.nah)
        print(text, file=sys.stderr if options.json else sys.stdout)
        if options.write_docs:
            real_calls.write_docs(text)
    elif options.calls or options.only_calls or options.write_docs:
        sys.exit("There is no file of real calls: name one with --calls.")
