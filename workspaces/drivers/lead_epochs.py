"""The epochs of leads on this host: a workspace that was started under one is never started under a lower one here.

HOME/leads/WORKSPACE_ID holds the highest epoch. It stays when the workspace's files leave the host.
"""

import contextlib
from pathlib import Path

from dashboard.files.atomic_write import replace_file

from .base import DriverError


def known(home: Path, workspace_id: str) -> int:
    """Return the highest epoch under which something of the workspace was started here; 0 if nothing was."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((home / "leads" / workspace_id).read_text())
    return 0


def take(home: Path, workspace_id: str, epoch: int) -> None:
    """Note the epoch; raise DriverError for one that is lower than what is known. 0 is nobody's lead."""
    if not epoch:
        return
    highest = known(home, workspace_id)
    if epoch < highest:
        raise DriverError(f"Another runner leads this workspace now (epoch {highest}, and this is {epoch}).")
    if epoch > highest:
        (home / "leads").mkdir(mode=0o700, exist_ok=True)
        replace_file(home / "leads" / workspace_id, str(epoch).encode())
