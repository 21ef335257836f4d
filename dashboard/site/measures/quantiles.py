"""Quantiles of durations, by nearest rank: each is a duration that occurred."""

from math import ceil


def summary(seconds: list[float]) -> dict:
    """Return {count, p50_s, p95_s}; None where nothing was measured."""
    ordered = sorted(seconds)
    return {"count": len(ordered), "p50_s": _nearest(ordered, 0.50), "p95_s": _nearest(ordered, 0.95)}


def _nearest(ordered: list[float], share: float) -> float | None:
    return round(ordered[ceil(share * len(ordered)) - 1], 3) if ordered else None
