"""Claude Code: its dialect, its settings, its transcripts."""
