"""Commands of Handrail's own as a person can copy them.

A fresh Debian has no `python`, and no shell has the environment of `make up` active.
"""

import shlex
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def manage(line: str) -> str:
    """Return the line that runs a command of `manage.py`, such as "doctor", from any folder of this machine."""
    program = CHECKOUT / "manage.py"
    if not program.is_file():  # an installed wheel
        return f"{shlex.quote(sys.executable)} -m django {line} --settings=dashboard.settings"
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(program))} {line}"


def manage_here(line: str) -> str:
    """Return the line to run in Handrail's folder. It names no folder of the machine: anybody may see it."""
    interpreter = Path(sys.executable)
    is_ours = interpreter.is_relative_to(CHECKOUT)
    return f"{interpreter.relative_to(CHECKOUT) if is_ours else 'python3'} manage.py {line}"


def program(name: str) -> str:
    """Return the path of a program of the environment that runs now, such as "handrail"."""
    return str(Path(sys.executable).with_name(name))
