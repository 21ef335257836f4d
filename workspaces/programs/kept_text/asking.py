"""Search and query a text in a process that is killed when it takes too long, since patterns and SQL can be hostile."""

import os
from collections.abc import Callable, Iterable

from dashboard.database.threads import standing_aside
from dashboard.problems import Problem, invalid, unavailable
from dashboard.workers.pool import Busy, Late, Worker, Workers
from dashboard.workers.turns import for_whom

FOR_AGENTS, FOR_PEOPLE = min(2, os.cpu_count() or 1), 1  # processes; those for agents answer people too
SECONDS = 30.0  # for one question, with the reading of the text
QUEUE_SECONDS = 10.0
MAX_PATTERN, MAX_SQL = 1000, 10_000  # characters
MAX_AROUND, MAX_LINES, MAX_ROWS, MAX_FIRST_LINE = 100, 1000, 1000, 2**31 - 1

readers = Workers(
    lambda: Worker("workspaces.programs.kept_text"),
    FOR_AGENTS + FOR_PEOPLE,
    queue_seconds=QUEUE_SECONDS,
    for_people=FOR_PEOPLE,
)

Pieces = Callable[[], Iterable[bytes]]


def search(pieces: Pieces, pattern: str, *, who: str = "", **wish) -> dict:
    """Return {lines, found, more_from} of the lines that match; `wish` as `grep.search` takes it.

    `who`: the agent that asks, "" for a person. Problem 422 if the pattern is none or takes too long, 503 if too many
    others ask.
    """
    return _ask({"search": {"pattern": pattern} | wish}, pieces, who)


def query(pieces: Pieces, sql: str, *, who: str = "", **wish) -> dict:
    """Return {columns, rows, truncated, table} of one SELECT over the text as a table; `wish` as `sql.query` takes it.

    `who` and Problems as of `search`.
    """
    return _ask({"query": {"sql": sql} | wish}, pieces, who)


def _ask(request: dict, pieces: Pieces, who: str) -> dict:
    begun = [pieces()]  # what it refuses, and asks the database, comes before this only waits
    mine = for_whom.set(who)
    try:
        with standing_aside():
            answer = readers.ask(request, SECONDS, pieces=lambda: begun.pop() if begun else pieces())
    except Busy:
        raise unavailable("Too many others search and query now. Try again in a moment.") from None
    except Late as late:
        raise _too_much(late) from None
    finally:
        for_whom.reset(mine)
    if "problem" in answer:
        raise invalid(answer["problem"])
    return answer


def _too_much(late: Late) -> Problem:
    return invalid(f"There is no answer, because {late}. Ask for less, or in a simpler way.")
