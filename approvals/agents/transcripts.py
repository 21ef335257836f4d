"""The transcripts that agents keep of their sessions: one reader for each agent, without Django or a database.

A reader has NAME, LABEL, FOLDER (below the home) and `asked(line)`, which returns (tool, arguments, folder or "") of a
call as the agent's hook would ask about it, None for one that no hook is asked about. A reader of JSON lines has
`is_transcript(name)`, `folder_of(row)`, the folder that the session works in from this row on, "" if the row does not
tell, and `read(row, state)`: the messages of a row, [] for one that is known and says nothing, None for an unknown one.
`state` is plain JSON that lasts from one row to the next; `totals` in it is [tokens in, out, from the cache] of the
whole session, where the agent tells it.

A reader with IS_CONVERSATION, whose rows are all that was said, has `of_sub_agent(path, id)`, where the transcript of a
session's sub-agent is kept, "" if it cannot be told. It may have `texts_since(tail, session, moment)`, the texts of the
agent since then in the last lines of a transcript, and `project_of(folder)` with `beginning(head)`, by which sessions
in a folder are found that no hook has announced.

Whatever stands in transcripts was written by an agent and what it read: nothing is decided by it.
"""

from approvals.agents import parts

READERS = parts("transcript")
JSON_LINES = tuple(reader for reader in READERS.values() if hasattr(reader, "read"))
DATABASES = tuple(reader for reader in READERS.values() if hasattr(reader, "calls"))
CONVERSATIONS = {agent: reader for agent, reader in READERS.items() if getattr(reader, "IS_CONVERSATION", False)}
