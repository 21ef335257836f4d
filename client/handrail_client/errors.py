"""Errors that keep a call from running. A program that catches none of them runs nothing."""


class HandrailError(Exception):
    """The base of all errors of this package."""


class Unreachable(HandrailError):
    """The desk does not answer, or something that is no desk does. Asking again later may help."""


class NotNow(Unreachable):
    """The desk answers that it can't do it at this moment, as while its database is away: ask again soon."""


class Refused(HandrailError):
    """The desk refused the request: `status` as in HTTP, `code` a short name for the reason, `told` the problem."""

    def __init__(self, status: int, told: dict):
        super().__init__(str(told.get("detail") or f"The desk answered {status}."))
        self.status, self.told, self.code = status, told, str(told.get("code", ""))


class NotAllowed(HandrailError):
    """The call must not be made; `action` is what became of the request."""

    def __init__(self, words: str, action=None):
        super().__init__(words)
        self.action = action


class Denied(NotAllowed):
    """A person or the policy said no."""


class NotAnswered(NotAllowed):
    """It expired or was cancelled before it could run. Nobody said no: it may be asked again under another key."""


class AlreadyUsed(NotAllowed):
    """The approval was used before, so the call may have been made. It is not made twice."""
