"""`python -m workspaces.programs.kept_text`: answer questions about texts for web, which ends what is late.

This module imports neither Django's settings nor models.
"""

import resource
import sys
from collections import deque

from dashboard.workers.loop import answer_lines, pieces_from
from workspaces.programs.kept_text import grep, sql
from workspaces.programs.kept_text.lines import Refused


def answer(request: dict) -> dict:
    """Return the answer to {search} or {query}, or {problem}: a sentence; the text follows the request."""
    pieces = pieces_from(sys.stdin.buffer)
    try:
        if "search" in request:
            return grep.search(pieces, **request["search"])
        return sql.query(pieces, **request["query"])
    except Refused as refused:
        return {"problem": str(refused)}
    except MemoryError:
        return {"problem": "There is no answer, because it needs more memory than a question may use."}
    finally:
        deque(pieces, maxlen=0)  # so that the next request follows


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no file is written, whatever a query does
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)
