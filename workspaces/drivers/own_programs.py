"""Command lines of the programs that Handrail itself runs inside a Run: the hooks' program, the client of an agent.

The agent writes the home, whose `.local/bin` heads every PATH, and settings files that set variables for its hooks. So
nothing here is found by a PATH: each program and its interpreter has an absolute path on a part of the Run that the
agent cannot write. What an agent's shell starts gets an environment of its own too.
"""

import shlex
from collections.abc import Sequence

from .docker import bundle
from .sandbox import driver as sandbox

ENVIRONMENT = ("/usr/bin/env", "-i", "LC_ALL=C.UTF-8")
DID_NOT_RUN = "Handrail's hook did not run, so nothing is allowed."
# Variables that load code into a program or a shell before its first own instruction, so that no program can drop them.
LOADING = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV")


def python(driver: str) -> list[str]:
    """Return the words that start Python in a Run of this driver. A program of Handrail's has no other."""
    if driver == "docker":
        return bundle.python(bundle.AT)
    # A microVM's image has to have it there: `deploy/images/microvm.sh`.
    return [sandbox.find_python()[0] if driver == "sandbox" else "/usr/bin/python3"]


def command(driver: str, program: str, *arguments: str) -> list[str]:
    """Return the command line of one of Handrail's Python programs, for whom starts it without a shell.

    Its environment is what that starter gives it.
    """
    return [*python(driver), "-I", "-S", program, *arguments]


def shell_line(words: Sequence[str], *, is_gate: bool = False) -> str:
    """Return the line with which an agent's shell starts `command`, with none of the agent's own variables.

    A gate that does not run ends with 2 and a sentence, which is a denial: Codex runs the tool without the sentence.
    """
    line = shlex.join([*ENVIRONMENT, *words])
    return f'{line} || {{ echo "{DID_NOT_RUN}" >&2; exit 2; }}' if is_gate else line
