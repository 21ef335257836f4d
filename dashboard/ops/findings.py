"""The finding about one part, as doctor, /readyz and the Status page show it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The state of one part, a message, and how to fix it if it does not work."""

    part: str
    ok: bool
    words: str
    what_to_do: str = ""
    needed: bool = True  # Handrail does not work without it
    is_used: bool = False  # (a driver) workspaces are on it: without it these do not work, and Handrail does
