"""What people read about the work of agents: a day, a file, a span of time, a policy."""
