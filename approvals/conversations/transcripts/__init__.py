"""Rows of the transcripts that agents keep, read as messages: one module for each dialect, without database or files.

`read(row, state)` returns the messages of one row, [] for a row that is known and says nothing, None for an unknown
one. `state` is plain JSON that lasts from one import to the next; `totals` in it is
[tokens in, out, from the cache] of the whole session, where the agent tells it.
"""

from approvals.conversations.transcripts import claude_code, codex

READERS = {"claude-code": claude_code.read, "codex": codex.read}
