"""`python -m bench.day [--minutes N] [--database URL | --hosts N]`: a team's day, compressed, on a product of its own.

Agents replay real work, people decide on it, and every little while something fails. Afterwards a checker that shares
no code with the product compares the database, the workspaces and what each actor saw. It prints what does not hold,
with the seed that repeats the day, and exits with 1 if there is anything.

    python -m bench.day --minutes 60                        on SQLite
    python -m bench.day --minutes 60 --database postgres    on a server of its own, which is killed too
    python -m bench.day --database postgres://…             on yours, which is left alone
    python -m bench.day --minutes 60 --hosts 3              on three hosts with a bucket (bench/cluster)
    python -m bench.day --driver kubernetes                 in pods of a cluster of its own (bench/kubernetes)
"""

import argparse
import asyncio
import os
import pickle
import secrets
import signal
import sys
from pathlib import Path

from bench.day import check_actions, check_hosts, check_product, evidence, report  # noqa: F401 - the checks register themselves
from bench.day.findings import check
from bench.day.ground import Day

LONG = 15  # minutes from which on faults are rarer, so that processes live long enough for their growth to show


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.day", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--database", default="", help="postgres: a server of its own; a URL; by default SQLite")
    parser.add_argument(
        "--hosts", type=int, default=1, choices=range(1, 5), help="with their own PostgreSQL and bucket if several"
    )
    parser.add_argument("--driver", choices=("sandbox", "kubernetes"), default="sandbox", help="of the workspaces")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--agents", type=int, default=10)
    parser.add_argument("--people", type=int, default=4, choices=range(1, 5))
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help="between two faults; by default 35, in a long day 90"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the evidence, to check it again")
    asked = parser.parse_args()
    if asked.hosts > 1 and asked.database:
        parser.error("several hosts have a PostgreSQL of their own; leave --database out")
    if asked.hosts > 1 and asked.driver != "sandbox":
        parser.error("a day in pods has one host")
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    asked.every = asked.every or (35 if asked.minutes < LONG else 90)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    day = Day(
        seed=seed,
        minutes=asked.minutes,
        database=asked.database,
        agents=asked.agents,
        people=asked.people,
        every=asked.every,
        hosts=asked.hosts,
        driver=asked.driver,
    )
    day.again = f"python -m bench.day --seed {seed} --minutes {asked.minutes:g} --every {asked.every:g}"
    day.again += f" --agents {asked.agents} --people {asked.people}"
    day.again += f" --database {asked.database}" * bool(asked.database) + f" --hosts {asked.hosts}" * (asked.hosts > 1)
    day.again += f" --driver {asked.driver}" * (asked.driver != "sandbox")
    try:
        day.open()
        asyncio.run(day.pass_by())
        found = evidence.collect(day)
    finally:
        day.close()
    if asked.keep:
        asked.keep.write_bytes(pickle.dumps(found))
    findings = [*day.found, *check(found)]
    print(f"load {os.getloadavg()[0]:.1f}")
    print("\n".join(report.lines(day, found, findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
