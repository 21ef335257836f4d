"""Programs of the test's machine in a workspace."""

import os
import shutil
import uuid


def put_program(product, agent, key: str, program, name: str):
    """Put a program into ~/.local/bin of a workspace: one file, which may be larger than any upload."""
    marker = uuid.uuid4().hex
    agent.call("PUT", f"/workspaces/{key}/files/{marker}", b"", expect=201)
    [found] = product.home.glob(f"workspaces/*/tree/{marker}")
    home = found.parents[1] / "home"
    folder = home / ".local" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, folder / name)
    (folder / name).chmod(0o755)
    owner = home.stat()
    for path in (home / ".local", folder, folder / name):
        os.chown(path, owner.st_uid, owner.st_gid)
