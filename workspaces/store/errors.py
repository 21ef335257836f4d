"""What the store says when it cannot do what was asked."""


class StoreError(Exception):
    """The store cannot do this; the message is a sentence that can be shown."""


class Damaged(StoreError):
    """Stored bytes are not what was written."""


class Missing(StoreError):
    """The store does not hold this object."""


class Cancelled(StoreError):
    """The caller asked to stop; nothing was left behind."""
