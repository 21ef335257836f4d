"""The event log: its triggers, its check, its sentences."""
