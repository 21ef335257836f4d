"""Start Codex in a workspace, unless its folder has a `.env`: its variables would be those of Handrail's hook too.

Standard library only: `python -IS start.py PROGRAM ARGUMENTS`.
"""

import os
import sys

folder = os.environ.get("CODEX_HOME") or os.path.expanduser("~/.codex")
variables = os.path.join(folder, ".env")
if os.path.lexists(variables):
    sys.exit(
        f"{variables} sets variables of Codex, and so of Handrail's hook. Codex is not started with it. Remove the "
        "file; a team gives programs their variables in the environment."
    )
os.execv(sys.argv[1], sys.argv[1:])
