"""Pages and API of neither app: Desk, log, search, people, sign-in, measures."""
