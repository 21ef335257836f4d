"""The programs that agents and their clients run to ask Handrail: the hook's, and the one that speaks ACP.

Both need nothing but Python. The second is a folder, or one archive to download.
"""

import io
import shlex
import sys
import zipfile
from pathlib import Path

from workspaces.drivers import own_programs
from workspaces.services import network

HOOKS = Path(__file__).parent.parent / "hooks"
PROGRAM = HOOKS / "command_hook.py"
ACP = HOOKS / "acp_program"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the archive's bytes depend on nothing but its files


def hook_command(connection: Path, role: str, *more: str, python: str = sys.executable, program: Path = PROGRAM) -> str:
    """Return the hook's shell command. As a gate it also exits with 2, a denial, when Python does not start.

    `more` names the agent, and maybe the event, for every agent but the first.
    """
    line = shlex.join([python, "-IS", str(program), str(connection), role, *filter(None, more)])
    return f"{line} || exit 2" if role == "gate" else line


def in_run(workspace, program: str, role: str, *more: str) -> list[str]:
    """Return the words that start the hook's program, `program`, in a Run of the workspace; `more` names its agent."""
    of_hook = (f"run:{network.URL}", role, *filter(None, more))
    return own_programs.command(workspace.environment.driver, program, *of_hook)


def acp_files() -> dict[str, bytes]:
    """Return {name: content} of the folder that Python runs."""
    found: list[Path] = [*sorted(ACP.glob("*.py")), PROGRAM]
    return {file.name: file.read_bytes() for file in found}


def acp_archive() -> bytes:
    """Return the same as one file, which Python runs too."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in acp_files().items():
            packed.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()
