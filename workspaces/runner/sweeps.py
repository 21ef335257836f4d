"""Work that nobody asks the runner for: it looks for all of it every few seconds, in one statement."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django.db.models import QuerySet

from dashboard.database import clock
from dashboard.database.one_statement import exist
from workspaces import extensions, operations
from workspaces.models import Runner
from workspaces.runner.reconcile import liveness, other_hosts
from workspaces.services import hosts, idle, periodic_snapshots, rehearsals, retention, run_tokens
from workspaces.services.hosts import moving

logger = logging.getLogger("handrail.runner")


@dataclass(frozen=True)
class Sweep:
    """`run` is called in a round in which the queryset, or one of them, that `due` returns has a row.

    Without `due` it is called in each round.
    """

    run: Callable[[], object]
    due: Callable[[], QuerySet | tuple[QuerySet, ...]] | None = None

    def questions(self) -> tuple[QuerySet, ...]:
        if self.due is None:
            return ()
        rows = self.due()
        return rows if isinstance(rows, tuple) else (rows,)


def run_due(sweeps: Sequence[Sweep]):
    """Run the sweeps that have something to do, one by one; an error in one does not stop the others."""
    with clock.frozen_at(clock.now()):
        asked = [(sweep, rows) for sweep in sweeps for rows in sweep.questions()]
    answers = zip(asked, exist(*(rows for _, rows in asked)), strict=True)
    due = {sweep for (sweep, _), found in answers if found}
    for sweep in sweeps:
        if sweep.due and sweep not in due:
            continue
        try:
            sweep.run()
        except Exception:
            logger.exception("a sweep failed; the next round tries again")


def sweeps_of(row: Runner) -> list[Sweep]:
    """Return all sweeps of the runner with this row."""
    of_this_host = (
        (operations.requeue_expired_claims, operations.expired_claims),
        (idle.sweep, idle.due),
        (periodic_snapshots.sweep, periodic_snapshots.due),
        (liveness.request_missing_snapshots, liveness.without_end_snapshot),
        (other_hosts.sweep, other_hosts.up_on_silent),
        (moving.give_up_on_silent, moving.held_up),
        (moving.drain, moving.to_drain),
        (hosts.lose_long_silent, hosts.long_silent),
    )
    return [
        Sweep(retention.sweep_hours),
        Sweep(run_tokens.sweep, run_tokens.left_over),
        Sweep(rehearsals.sweep, rehearsals.without_result),
        *extensions.sweeps,
        *(Sweep(partial(run, row), partial(due, row)) for run, due in of_this_host),
    ]
