"""`python -m bench.hostile [--minutes M] [--attackers N] [--seed S]`: an agent with a token and no conscience.

It attacks a running product of an ordinary user, with a connected folder, for ten minutes. Exits with 1 if anything
outside its own workspaces changed, a canary was seen, the listener on loopback was reached, an answer was a 5xx other
than "not now" (503, 507), the product logged a traceback, or the p99 of /healthz was 100 ms or more. `--log FILE` keeps
what the product logged.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import aiohttp

from bench.hostile.attacker import Attacker
from bench.hostile.attacks import ATTACKS
from bench.hostile.ground import Ground
from bench.hostile.health import watching

P99_LIMIT = 0.100
REFUSALS = (503, 507)
NOTHING_OF = (
    "changed outside its workspaces",
    "canaries seen",
    "connections to the listener",
    "broken answers",
    "tracebacks",
)


async def attack_until(me: Attacker, deadline: float, counts: Counter):
    while time.monotonic() < deadline:
        attack = me.chance.choice(ATTACKS)
        await attack(me)
        counts[attack.__name__] += 1


async def play(ground: Ground, minutes: float, attackers: int, seed: int) -> dict:
    seconds: list[float] = []
    counts, deadline = Counter(), time.monotonic() + minutes * 60
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        crowd = [Attacker(session, ground, seed + number) for number in range(attackers)]
        with watching(ground.product.url, seconds):
            await asyncio.gather(*(attack_until(me, deadline, counts) for me in crowd))
    statuses = sum((Counter(me.statuses) for me in crowd), Counter())
    seconds.sort()
    at = lambda share: round(seconds[int(len(seconds) * share)] * 1000, 1)  # noqa: E731
    return {
        "minutes": minutes,
        "attacks": dict(counts.most_common()),
        "statuses": {str(status): number for status, number in sorted(statuses.items())},
        "healthz ms": {"p50": at(0.5), "p99": at(0.99), "max": round(seconds[-1] * 1000, 1), "n": len(seconds)},
        "changed outside its workspaces": ground.changed(),
        "canaries seen": ground.leaked([said for me in crowd for said in me.heard]),
        "connections to the listener": ground.listener.reached,
        "broken answers": sum(n for status, n in statuses.items() if status >= 500 and status not in REFUSALS),
        "load": os.getloadavg()[0],
    }


def tracebacks(log: str) -> Counter:
    """Return the last line of each traceback, by the part of the product that logged it; lines are `PART | TEXT`."""
    found, open_in = Counter(), set()
    for line in log.splitlines():
        part, _, text = line.partition("| ")
        if text.startswith("Traceback (most recent call last)"):
            open_in.add(part)
        elif part in open_in and text and not text.startswith((" ", "+")):
            open_in.remove(part)
            found[f"{part.strip()}: {text[:200]}"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--attackers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    with Ground() as ground:
        found = asyncio.run(play(ground, asked.minutes, asked.attackers, asked.seed))
        log = ground.product.log
    if asked.log:
        asked.log.write_text(log)
    found["tracebacks"] = dict(tracebacks(log).most_common())
    print(json.dumps(found, indent=1, ensure_ascii=False))
    wrong = [name for name in NOTHING_OF if found[name]]
    if found["healthz ms"]["p99"] >= P99_LIMIT * 1000:
        wrong.append("healthz ms")
    print(f"did not hold: {', '.join(wrong)}" if wrong else "held", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
