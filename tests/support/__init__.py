"""What tests and benchmarks share: the product as a process, browsers, engines, waiting."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
