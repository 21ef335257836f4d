"""Measurements of Handrail; `approvals` is imported first, since the envelope needs what it hands over."""

import approvals  # noqa: F401
