"""The exceptions that the store raises."""


class StoreError(Exception):
    """A store operation failed; the message can be shown."""


class Damaged(StoreError):
    """Stored bytes are corrupt: they do not match their checksum or format."""


class Missing(StoreError):
    """The store does not hold this object."""


class Cancelled(StoreError):
    """The caller cancelled the operation; nothing was left behind."""
