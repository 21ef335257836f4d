"""Numbers of things in English sentences."""


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: "1 file", "1,200 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
