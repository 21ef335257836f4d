"""Whether this machine can mount a snapshot."""

import os


def _why_not() -> str:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "needs /dev/fuse"
    try:
        import workspaces.store.mount.file_system  # noqa: F401
    except Exception as error:
        return str(error)
    return ""


NO_FUSE = _why_not()
