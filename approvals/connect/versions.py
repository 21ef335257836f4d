"""Check that an agent's program is new enough to be gated."""

import re
import shutil
import subprocess

from approvals.agents.dialect import Dialect
from dashboard.problems import invalid


def check(dialect: Dialect) -> str:
    """Problem 422 if the agent's program is too old. Return a note if it is not on the PATH, else ""."""
    if shutil.which(dialect.program) is None:
        oldest = ".".join(map(str, dialect.oldest))
        return (
            f"{dialect.title} is not on this PATH, so its version could not be checked; it must be {oldest} or later."
        )
    installed(dialect)
    return ""


def installed(dialect: Dialect) -> tuple[str, str]:
    """Return the agent's program and its version. Problem 422 if it is not on the PATH, or too old."""
    oldest = ".".join(map(str, dialect.oldest))
    program = shutil.which(dialect.program)
    if program is None:
        raise invalid(f"{dialect.title} (`{dialect.program}`) is not on this PATH. Install {oldest} or later.")
    try:
        said = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise invalid(f"`{dialect.program} --version` failed ({error}), so its version cannot be checked.") from None
    found = re.search(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", said)
    if not found or tuple(map(int, found.groups())) < dialect.oldest:
        raise invalid(
            f"{dialect.title} {found[0] if found else 'of an unknown version'} is too old: {dialect.why_oldest}. "
            f"Update it to {oldest} or later."
        )
    return program, found[0]
