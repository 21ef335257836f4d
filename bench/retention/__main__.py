"""`python -m bench.retention [--workspaces 200] [--a-day 110] [--kills 200]`: a busy team's simulated year.

200 workspaces take some 40,000 snapshots in a year, which a sweep follows each week. The sweeps run in processes that
are killed (SIGKILL) after a random time, until enough were; then to the end. After each the database must be exactly
as an independent model of the rules says (tests/support/retention_year.py). Prints what it took; fails if it differs.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

DAYS = 365


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.retention")
    parser.add_argument("--workspaces", type=int, default=200)
    parser.add_argument("--a-day", type=float, default=110)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
        os.environ["HANDRAIL_HOME"], os.environ["DJANGO_SETTINGS_MODULE"] = home, "dashboard.settings"
        os.environ["HANDRAIL_RUNTIME"] = str(Path(home, "run"))
        return year(wanted)


def year(wanted) -> int:
    import django

    django.setup()
    import logging

    from django.core.management import call_command

    from dashboard.models import Team
    from tests.support.retention_year import START, World

    logging.disable(logging.INFO)
    call_command("migrate", verbosity=0)
    team = Team.objects.create(slug="busy", name="Busy")
    world, pick = World(team, workspaces=wanted.workspaces, a_day=wanted.a_day, seed=wanted.seed), random.Random(1)
    kills, times = 0, []
    for day in range(DAYS):
        world.day(day)
        if day % 7 and day != DAYS - 1:
            continue
        at, took = START + timedelta(days=day + 1), 0.0
        mean = sum(times[-3:]) / len(times[-3:]) if times else 1.0
        while True:
            # Few sweeps have much to do, so a week's is killed several times as long as kills are left.
            dies_after = pick.uniform(0.05, 1.2) * mean if kills < wanted.kills else None
            began = time.perf_counter()
            if _sweep(team, at, dies_after):
                took = time.perf_counter() - began
                break
            kills += 1
        times.append(took)
        world.model.sweep(at)
        if differences := world.differences():
            print(f"day {day}: {len(differences)} differences, for example {differences[0]}")
            return 1
    _report(world, kills, times)
    return 0


def _sweep(team, at, dies_after: float | None) -> bool:
    """Sweep in a process of its own. Return False if it was killed."""
    from django.db import connections

    from workspaces.services import retention

    connections.close_all()
    child = os.fork()
    if not child:
        retention.sweep_team(team, at=at)
        os._exit(0)
    ends = None if dies_after is None else time.monotonic() + dies_after
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            if not os.WIFEXITED(status) or os.WEXITSTATUS(status):
                raise SystemExit(f"a sweep ended with {status}")
            return True
        if ends is not None and time.monotonic() >= ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.002)


def _report(world, kills: int, times: list[float]):
    from dashboard.models import Event

    made, kept, trash = len(world.model.snapshots), len(world.model.kept()), len(world.model.in_trash())
    print(f"{made:,} snapshots of {len(world.places)} workspaces in {DAYS} days: {kept:,} kept, {trash:,} in the trash")
    print(f"{len(times)} sweeps, {kills} killed, none differs from the model")
    print(f"a sweep took {sorted(times)[len(times) // 2]:.2f} s (median), {max(times):.2f} s (longest)")
    print(f"{Event.objects.filter(verb='retention.swept').count():,} events name what is gone")


if __name__ == "__main__":
    sys.exit(main())
