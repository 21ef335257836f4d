"""`make bench`: every benchmark, one after the other, each beside the peers it is measured against.

    python -m bench                 all of them
    python -m bench store hold      some of them

Each is a folder here with a `__main__` of its own; what they print goes to bench/results as well.
"""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
ALL = sorted(folder.parent.name for folder in HERE.glob("*/__main__.py"))


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - set(ALL)
    if unknown:
        print(f"There is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ALL)}.", file=sys.stderr)
        return 2
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    failed = []
    for name in wanted or ALL:
        print(f"== {name}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], cwd=HERE.parent, stdout=subprocess.PIPE, check=False
        )
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.flush()
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M")
        (results / f"{name}-{stamp}.txt").write_bytes(done.stdout)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"These did not go through: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
