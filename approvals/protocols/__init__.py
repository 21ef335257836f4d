"""Interfaces that follow somebody else's protocol."""
