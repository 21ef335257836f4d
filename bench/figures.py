"""What benchmarks report of the times that they measured."""

import statistics


def spread(seconds: list[float]) -> dict:
    """{p50, p95, p99, max, n} in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    values = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(seconds)}
    return {name: round(value * 1000, 1) for name, value in values.items()} | {"n": len(seconds)}
