"""The processes of a running Handrail: the supervisor, and what it forks."""
