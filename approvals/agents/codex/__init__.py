"""Codex: its dialect, its settings, its trust in hooks, its transcripts."""
