"""The oversight report of a period: who decided what, how fast, with which exceptions, and how agents were stopped."""
