"""OpenCode: its dialect, its plugin, its settings."""
