"""One call, judged: what it is, what surrounds it, and what the active policy says of it."""
