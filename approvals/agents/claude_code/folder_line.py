"""The shell line of Claude Code's hook in a connected folder, and in the settings of the folder's user.

The second is read by sessions everywhere. So while Handrail's program or its Python is gone, the line itself lets the
calls of sessions pass that have nothing to do with the folder; below it a gate stays closed.
"""

import shlex
import sys
from pathlib import Path

from approvals.agents.hook_programs import PROGRAM
from workspaces.drivers.own_programs import DID_NOT_RUN, ENVIRONMENT

# far DIRECTORY: whether it exists, and neither it nor the repository whose linked worktree it is in lies below $h.
# The `echo /` keeps line breaks at the end of a name. A place that cannot be entered is not known to be far.
FAR = (
    'far() { d=$(CDPATH= cd -P -- "$1" && pwd -P && echo /) || return 1; d=${d%??}; '
    'case $d/ in "$h"/*) return 1;; esac; '
    'while ! [ -f "$d/.git" ]; do [ -n "$d" ] || return 0; d=${d%/*}; done; '
    'IFS= read -r g <"$d/.git" || [ -n "$g" ] || return 1; '
    'g=$(CDPATH= cd -P -- "${d:-/}" && cd -P -- "${g#gitdir: }" && pwd -P && echo /) || return 1; '
    'case ${g%??}/ in "$h"/*) return 1;; esac; }; '
)
ELSEWHERE = 'far . && far "${CLAUDE_PROJECT_DIR:-.}" && exit 0'
NOT_STARTED = "1|126|127"  # the program is gone, or Python is, or does not start; the program itself exits with 0 or 2


def line(connection: Path, role: str, folder: Path, *, python: str = sys.executable, program: Path = PROGRAM) -> str:
    """Return the line. The program gets nothing of the session's environment but the folder that it started in."""
    run = [*ENVIRONMENT, python, "-IS", str(program), str(connection), role, f"below={folder}"]
    fixed, words = shlex.join(run[: len(ENVIRONMENT)]), shlex.join(run[len(ENVIRONMENT) :])
    run = f'{fixed} CLAUDE_PROJECT_DIR="$CLAUDE_PROJECT_DIR" {words}'
    inside = f'echo "{DID_NOT_RUN}" >&2;; esac; exit 2' if role == "gate" else "esac; exit 1"
    return (
        f"[ -r {shlex.quote(str(program))} ] && {run} && exit; "
        f"case $? in {NOT_STARTED}) h={shlex.quote(str(folder).rstrip('/'))}; {FAR}{ELSEWHERE}; {inside}"
    )
