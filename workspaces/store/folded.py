"""Fold times beyond the 64-bit nanoseconds of the formats: a file system may hold 1901 to 2446 (ext4) and far beyond.

Runs inside guests too, so it uses the standard library only.
"""

_BITS = 64
_HALF = 1 << 63


def fold(ns: int) -> int:
    """Return Unix ns modulo 2^64 as a signed 64-bit number; from 1677 to 2262 it is the time itself."""
    return (ns + _HALF) % (1 << _BITS) - _HALF


def turns(ns: int) -> int:
    """Return how often 2^64 ns was taken from a time by `fold`: 0 from 1677 to 2262."""
    return (ns - fold(ns)) >> _BITS


def unfold(folded: int, turned: int) -> int:
    return folded + (turned << _BITS)
