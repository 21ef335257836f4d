"""Cursor: its dialect."""
