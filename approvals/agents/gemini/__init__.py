"""Gemini CLI: its dialect."""
