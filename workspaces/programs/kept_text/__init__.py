"""Questions about a large text that is kept: which lines match a pattern, and what SQL says of it as a table.

A text is an iterator of bytes, whatever keeps it. Web asks with `asking`; a process below web answers with the rest.
"""
