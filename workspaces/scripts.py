"""How scripts of an environment are run, and what the exit status of one says."""

import signal

# A script runs as it is written, and ends at the first command that fails. It can ask for more: `set -u`, pipefail.
UNTIL_A_FAILURE = ("-e", "-c")
_SHELL = {126: "a file could not be executed", 127: "a program was not found"}
_SIGNALS = {signal.SIGPIPE: ", what it wrote to was closed", signal.SIGKILL: ", as when memory runs out"}


def shell_words(status: int | None) -> str:
    """Return what an exit status of a shell means beyond a failure, as ": …" after the status, else ""."""
    if status in _SHELL:
        return f": {_SHELL[status]}"
    try:
        number = signal.Signals((status or 0) - 128)
    except ValueError:
        return ""
    return f": a program in it was ended by {number.name}{_SIGNALS.get(number, '')}"
