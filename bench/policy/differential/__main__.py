"""`python -m bench.policy.differential --cases 10000`: go on where the kept ranges end, and add what was run.

Findings are printed and kept in `--findings`, each with the shortest text that shows it; the exit status is 1 if there
are any. `--command TEXT` runs one command and shows verdict, deed and differences.
"""

import argparse
import fcntl
import json
import sys
import time
from collections import Counter
from datetime import date
from operator import itemgetter
from pathlib import Path

from tests.approvals import policy as policy_tests

from . import campaign, minimise, mutate, oracle, run

CORPUS = Path(policy_tests.__file__).parent / "corpus.jsonl"
RANGES = Path(__file__).parent / "ranges.json"
CHUNK = 2_000  # seeds after which the ranges are written


def main():
    options = _options()
    if options.command is not None:
        return _show(options)
    commands = mutate.commands_of(*options.data)
    start = options.start if options.start is not None else max((entry["stop"] for entry in _kept()), default=0)
    known, status = Counter(), 0
    with run.box(options.tools) as box:
        for first in range(start, start + options.cases, CHUNK):
            stop = min(first + CHUNK, start + options.cases)
            began = time.monotonic()
            figures = campaign.hunt(box, range(first, stop), commands)
            speed = round(figures.cases / (time.monotonic() - began))
            print(
                f"{first}-{stop}: {figures.allowed} ran, {len(figures.findings)} findings, {speed} cases/s", flush=True
            )
            status = status or bool(figures.findings)
            _report(box, figures.findings, known, options)
            if not options.keep_nothing:
                _keep(first, stop, figures)
    return status


def _options():
    parser = argparse.ArgumentParser(prog="python -m bench.policy.differential", description=__doc__)
    parser.add_argument("--cases", type=int, default=CHUNK)
    parser.add_argument("--start", type=int, help="first seed, instead of the one after the kept ranges")
    parser.add_argument("--data", type=Path, nargs="*", default=[CORPUS], help="JSON lines with commands to change")
    parser.add_argument("--tools", type=Path, help="a folder whose programs come first, such as another awk")
    parser.add_argument("--findings", type=Path, help="a file that findings are added to")
    parser.add_argument("--keep-nothing", action="store_true", help="leave the ranges as they are")
    parser.add_argument("--command", help="run one command and show what it does")
    return parser.parse_args()


def _report(box, findings, known, options):
    """Print findings; shorten the first of each class and deed."""
    for finding in findings:
        name, deed = finding.differences[0]
        known[name, deed] += 1
        short = minimise.shortest(box, finding.command, name) if known[name, deed] == 1 else ""
        if short:
            print(f"  {name}: {short!r} ({deed})", flush=True)
        if options.findings:
            line = {"seed": finding.seed, "tier": finding.tier, "differences": finding.differences[:4]}
            with options.findings.open("a") as file:
                file.write(json.dumps(line | {"command": finding.command, "shortest": short}) + "\n")


def _keep(first, stop, figures):
    """Add a range to the kept ones, and join those that meet; several runs may do so at once."""
    entry = {"start": first, "stop": stop, "ran": figures.allowed, "findings": len(figures.findings)}
    with RANGES.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        kept = sorted([*_kept(), entry | {"date": str(date.today())}], key=itemgetter("start"))
        joined = kept[:1]
        for entry in kept[1:]:
            last = joined[-1]
            if (last["stop"], last["date"]) == (entry["start"], entry["date"]):
                last |= {"stop": entry["stop"], **{name: last[name] + entry[name] for name in ("ran", "findings")}}
            else:
                joined.append(entry)
        file.truncate(0)
        file.write(json.dumps(joined, indent=1) + "\n")


def _kept():
    text = RANGES.read_text() if RANGES.exists() else ""
    return json.loads(text or "[]")


def _show(options):
    verdict = campaign.judged(options.command)
    print(verdict.tier, *verdict.reasons, sep="\n  ")
    with run.box(options.tools) as box:
        for _, deed in box.run([{"number": 0, "shell": "/bin/bash", "command": options.command}]):
            print(deed.result, *deed.started, sep="\n  ")
            for difference in oracle.findings(verdict, deed):
                print("finding:", *difference)


if __name__ == "__main__":
    sys.exit(main())
