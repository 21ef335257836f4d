"""The Agent Client Protocol, which a client of an agent speaks: its dialect."""
