"""Differential fuzz of the command reader: what it lets run is run for real, traced, and compared with its verdict."""
