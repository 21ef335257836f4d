"""The evidence in the middle of a day: what must hold at each moment is checked after each fault."""

import psycopg
from psycopg.rows import dict_row

from bench.day import check_actions, check_product
from bench.day.evidence import QUERIES, Evidence, plain
from bench.day.findings import Finding

AT_EACH_MOMENT = (
    check_actions.nothing_accepted_is_lost,
    check_actions.one_request_makes_one_action,
    check_actions.acknowledged_answers_are_kept,
    check_actions.nothing_runs_twice,
    check_actions.the_digest_is_that_of_the_bytes,
    check_actions.one_answer_wins,
    check_product.the_log_is_whole,
    check_product.acknowledged_snapshots_are_there,
)


def look(day):
    """Check what has happened so far, and add what does not hold to `day.found`."""
    seen = list(day.seen)  # before the rows, which then have all of it
    try:
        rows = _rows_at_once(day.product.environment["DATABASE_URL"])
    except psycopg.Error as error:
        day.say(f"not looked at: {error!r}"[:200])
        return
    traces = {row["id"]: day.data.traces_of(row["id"]) for row in rows["workspaces"]}
    evidence = Evidence(rows, traces, seen, list(day.faults.made), [], [])
    for check in AT_EACH_MOMENT:
        name = f"after {day.faults.made[-1].kind if day.faults.made else 'no fault'}"
        day.found += [Finding(f"{name} ({check.__name__.replace('_', ' ')})", words) for words in check(evidence)]


def _rows_at_once(url: str) -> dict[str, list[dict]]:
    """Return all tables as they were at one moment."""
    with psycopg.connect(url, row_factory=dict_row, connect_timeout=10) as opened:
        opened.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return {name: [plain(row) for row in opened.execute(query)] for name, query in QUERIES.items()}
