"""Which settings of a person's agents would change a call on its way, or would miss one that Handrail changes."""

from pathlib import Path

from approvals.agents import parts

READERS = tuple(parts("own_settings").values())


def other_hook(root: Path, folder: Path | None = None) -> str:
    """Return a sentence on a hook beside Handrail's that could change a call in these folders, "" if there is none."""
    return next(filter(None, (each.other_hook(root, folder) for each in READERS)), "")


def may_match(root: Path, folder: Path, command: str) -> bool:
    """Return whether a rule of the person's own may be about this command."""
    return any(each.may_match(root, folder, command) for each in READERS)
