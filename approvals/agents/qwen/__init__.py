"""Qwen Code: its dialect."""
