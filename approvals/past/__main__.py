"""`python -m approvals.past`: answer requests of web as JSON lines (see dashboard.workers.pool)."""

import sys

from approvals.past import report
from dashboard.workers.loop import answer_lines


def answer(asked: dict) -> dict:
    """Return {"report"} for the arguments of report.make, or {"stamp"} for those of report.stamp."""
    if asked["what"] == "stamp":
        return {"stamp": report.stamp(**asked["of"])}
    return {"report": report.make(**asked["of"])}


if __name__ == "__main__":
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)
