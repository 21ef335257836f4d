"""Copilot CLI: its dialect."""
