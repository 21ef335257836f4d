"""The exceptions that the store raises."""


class StoreError(Exception):
    """A store operation failed; the message can be shown."""


class Absent(StoreError):
    """There is no store at the address."""


class NoKey(StoreError):
    """Something is encrypted with a key that was not given."""


class Damaged(StoreError):
    """Stored bytes are corrupt: they do not match their checksum or format."""


class Missing(StoreError):
    """The store does not hold this object."""


class Cancelled(StoreError):
    """The caller cancelled the operation; nothing was left behind."""


def name_the_path(error: Exception, path: str) -> None:
    """Note on an error the path of the entry at which it happened; the innermost caller's path is kept."""
    if not getattr(error, "__notes__", None):
        error.add_note(f" at {path!r}")


def path_of(error: Exception) -> str:
    """Return " at PATH" as noted by `name_the_path`, else ""."""
    return "".join(getattr(error, "__notes__", [])[:1])
