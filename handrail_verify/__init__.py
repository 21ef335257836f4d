"""Verify what Handrail exported, on a machine without Handrail: `python -m handrail_verify`.

This folder alone is enough, with Python's standard library; signatures need the package cryptography besides. Handrail
itself uses the same functions, so there is one rule for what is written and what is verified. docs/verifying.md
"""
