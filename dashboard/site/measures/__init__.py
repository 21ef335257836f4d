"""Measures: what persistence and approvals are worth and cost, for a team and a period."""
